"""The load methods: one file each, and what they share.

base               Base class: from prepared items through staging tables into the table
context            What the load methods of one stream use
append             append-only: rows are inserted, and recorded in the ledger
upsert             upsert: one row per key is merged, in the order of the messages
overwrite          overwrite: a staging table per run, whose rows replace the table's at the end
overwrite_staging  The staging table of `overwrite`, and the replacement
uploads            Batch files -> files that COPY reads in place, or rows on local disk
load_group         A group of items that are loaded together, and its COPY batches
copy_batch         COPYs files into a staging table and counts the rows
s3_staging         Writes rows as files to `s3_stage`, and manifests
file_count         The number of files for the rows of one COPY
upload_formats     Writers of the files for COPY: Parquet, JSON Lines, CSV
varchar_widths     Widens VARCHAR columns for staged texts
value_warnings     Warnings of changed values
diagnose           Finds the file, row and value of a failed COPY
rejected_rows      Finds the rows because of which Redshift refuses a group
dead_letter_table  The table `_sdc_rejected`
"""
