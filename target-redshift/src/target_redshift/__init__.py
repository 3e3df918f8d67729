"""A Singer target that loads BATCH files, each exactly once, and RECORD messages into Amazon Redshift.

target         The target, its run and its tables of streams
load           The load methods; rows that Redshift refuses; the table `_sdc_rejected`
uploads        Batch files -> files that COPY reads, in place or in `s3_stage`
copy           COPY into a staging table, its rows counted; the cause of one that fails; widths of texts
ledger         The table `_sdc_batches`: which batches a table holds
conversion     Checks and conversion of the values of batches
columns        The columns of staging tables; the column for values that do not fit; long texts and NUL characters
merge_pruning  Bounds that keep a MERGE from reading the whole table
tables         Creates the schema and the tables; adds and widens columns; layout and comments
types          Arrow types -> Redshift column types; names of columns and tables
client         Client of one schema and the catalog of its tables
connection     Log-in, sessions, and a pool of them
resources      Rows and tables; translates the errors of the driver and of AWS
settings       The settings: declared, defaulted and checked
sql            The text of every SQL statement
"""
