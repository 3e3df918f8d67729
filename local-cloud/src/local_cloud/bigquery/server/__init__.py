"""The BigQuery server's process: local-bigquery with its gaps mended, or at least made loud.

Everything here runs in the server's own environment (see `local_cloud.bigquery.launch`). Each module mends one gap
by replacing functions of local-bigquery 0.3.2, the pinned version; what remains different from BigQuery is listed in
the README of this package.
"""
