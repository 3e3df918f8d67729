"""BATCH messages and their files.

message          `Batch`: the content of a BATCH message, checked
writer           Arrow batches -> batch files of a given size
reader           Batch files -> Arrow batches
file_properties  Which properties files must have by their SCHEMA, and which are left out
row_size         Bytes of rows in memory, computed from types and values alone
settings         The setting `batch_config` of taps
spool            Arrow files of rows that wait on local disk
"""
