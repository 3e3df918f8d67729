"""Files and rows that are loaded into the local BigQuery.

arrow_rows  Arrow rows of the Storage Write API, by the types that BigQuery documents
avro        reads Avro files with JSON columns, faster than the server does
files       checks of the files of a load job, as in BigQuery; of the keys in JSON Lines, at every depth
"""
