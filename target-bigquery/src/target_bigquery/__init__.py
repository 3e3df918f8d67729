"""A Singer target that loads BATCH files, each exactly once, and RECORD messages into BigQuery.

target         The target: settings, clients, and what its streams share
stream_table   One stream: prepares its table and opens its load method
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
