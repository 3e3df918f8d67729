"""Tables of the local BigQuery: changes, look-ups and records.

alterations  ALTER COLUMN SET DATA TYPE, and MERGE that sets a column NULL
capitals     names of tables by case
databases    tables in DuckDB's own files instead of DuckLake's
layouts      creation times, partitioning and clustering of tables
lookups      look-ups of one table in constant time; bounded results of queries
pruning      the partitions of a table that a statement reads
records      records of jobs, tables and datasets in SQLite instead of DuckDB
schemas      changes of a table's schema
turns        one change of a table at a time
"""
