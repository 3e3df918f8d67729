"""A Singer target that loads BATCH files, each exactly once, and RECORD messages into BigQuery.

target            The target, its run and its tables of streams
load              The load methods; load jobs until they succeed; rows that BigQuery refuses; `_sdc_rejected`
uploads           Batch files -> the one file of a load job
gcs_uploads       Uploads to `gcs_stage`, and files that are loaded in place
storage_write     Loads through the Storage Write API
ledger            The table `_sdc_batches`: which job loaded which batch
conversion        Checks and conversion of the values of batches; which files are loaded as they are
merge_pruning     Bounds that keep a MERGE from reading the whole table
tables            Creates the dataset and the tables; adds, widens and relaxes columns; their layout
columns           Columns in the representation of the API; the column for values that do not fit
types             Arrow types -> BigQuery column types; names of columns and tables
client            Client of one dataset: tables, columns, grants; jobs, each exactly once; the daily quota of load jobs
connection        Credentials, a client for each thread, and retries
resources         Tables, jobs and query results; translates the errors of Google's libraries
settings          The settings: declared, defaulted and checked
sql               The text of every SQL statement
"""
