"""The local Flight SQL server: DuckDB behind one front process and several endpoint processes, like Doris.

server    the child process: the front, and the processes of the endpoints
front     answers queries: runs them in DuckDB, writes their results as files, returns tickets
endpoint  results of queries as files; a process of an endpoint, which sends the rows of tickets
protocol  messages of Flight SQL
access    passwords, tokens and TLS of all processes
faults    what is to fail, and how often it did
client    what `Cloud` asks of the server
"""
