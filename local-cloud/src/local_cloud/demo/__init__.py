"""The demonstration: `python -m local_cloud.demo` within `local-cloud run --seed --`; `make demo` runs it.

bigquery    queries the local BigQuery
checksum    a checksum of all rows and columns
legs        loads rows of a table of Delta Lake and of a Flight SQL server into the warehouses
pipes       runs a pipe by Meltano or by a shell
redshift    queries the local Redshift
warehouse   the interface of a warehouse in the demonstration
"""
