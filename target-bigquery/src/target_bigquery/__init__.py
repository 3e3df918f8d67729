"""A Singer target that loads BATCH files, each exactly once, and RECORD messages into BigQuery.

target         The target: its settings, and the end of a run
stream_table   The table of one stream: its columns and its load method
run            What the streams of a run share: clients, uploads, ledgers
load           The load methods: from batch files into the table by load jobs
storage_write  Loads through the Storage Write API
ledger         The table `_sdc_batches`: which job loaded which batch
conversion     Checks and conversion of the values of batches
merge_pruning  Bounds that keep a MERGE from reading the whole table
tables         Datasets and tables: names, types, columns and their evolution
connection     Client of BigQuery: credentials, jobs, retries, errors
settings       The settings: declared, defaulted and checked
sql            The text of every SQL statement
"""
