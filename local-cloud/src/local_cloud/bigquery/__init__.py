"""The local BigQuery: the package local-bigquery in an environment of its own, made on first use.

install       the child process that installs the environment
installation  finds the environment, or has it installed
launch        starts the server with the environment's Python
older_python  lets Python 3.11 import local-bigquery
server        the server's process
"""
