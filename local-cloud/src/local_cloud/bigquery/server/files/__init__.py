"""Files and rows that are loaded into the local BigQuery.

arrow_rows  Arrow rows of the Storage Write API, by the table of types that BigQuery documents
avro        Read Avro files: JSON columns by their annotation, and several times as fast
files       What BigQuery refuses or reads otherwise in the files of a load job (no I/O but reading a file's head)
json_lines  What BigQuery refuses in JSON Lines, at every depth: keys that name no field
"""
