"""Tasks on Dask workers, for `executor: dask`; without it, nothing of Dask is imported.

settings     Which cluster, and what must not be sent to it
remote_task  One task with all that it needs, and its result; the part that workers run
cluster      The connection to a cluster: sends tasks, returns results in order
"""
