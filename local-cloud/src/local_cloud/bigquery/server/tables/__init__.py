"""Tables of the local BigQuery: what may be changed and looked up.

alterations  ALTER COLUMN SET DATA TYPE, which the server's engine refuses
databases    Tables in files of DuckDB's own instead of DuckLake's, where each change and each look costs many queries
layouts      Tables: times that stay, and partitioning and clustering that must agree
lookups      Looks at one table that do not take longer for every other table, and results of queries that do not pile
merges       MERGE that sets a column NULL
pruning      Which partitions of a table a statement reads: those in which its constant conditions may be met
records      What the server notes of jobs, tables and datasets, in SQLite instead of DuckDB, which takes a hundred ti
schemas      Schemas of tables
turns        Changes of one table wait for each other; two at once would fail in DuckDB, as they rarely do in BigQuery
"""
