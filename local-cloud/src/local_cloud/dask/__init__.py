"""The local Dask cluster: a scheduler and workers, a process each, with mutual TLS.

cluster  starts the processes, and gives their addresses and process ids
node     one process: `python -m local_cloud.dask.node`
"""
