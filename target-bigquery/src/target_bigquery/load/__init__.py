"""The load methods: one file each, and what they share.

base               Base class of the load methods
context            What the load methods of one stream use
append             append-only: a load job into the table, recorded in the ledger
upsert             upsert: a staging table per group, merged in the order of the messages
overwrite          overwrite: a staging table per run, which replaces the table at the end
overwrite_staging  The staging table of `overwrite`, and the replacement
uploads            Batch files -> the one file of a load job
gcs_uploads        Uploads to `gcs_stage`, and files that are loaded in place
load_job           Runs a load job until it has succeeded
concat             Joins Avro and JSON Lines files without decoding them
avro_processes     Processes that write nested rows as Avro
parquet_dates      Checks dates by the statistics of Parquet files
rejected_rows      Finds the rows because of which BigQuery refuses a load job
dead_letter_table  The table `_sdc_rejected`
"""
