"""The BigQuery server's process: local-bigquery with corrections.

All modules here run in the server's own environment (see `local_cloud.bigquery.launch`). Each module corrects one
difference from BigQuery, or turns it into an error, by replacing functions of local-bigquery 0.3.2, the pinned
version. The README of this package lists the differences that remain.

costs         bytes that queries process and are billed for
faults        faults that are set over HTTP
files         files and rows that are loaded
jobs          unique job ids; slow and failing jobs
loads         load jobs
locations     locations of jobs and datasets
main          serves the REST and Storage APIs
tables        tables: changes, look-ups and records
write_faults  slow and failing calls of the Storage Write API
writes        the Storage Write API
"""
