"""RECORD lines <-> Arrow.

input_lines       Whole lines from standard input, in chunks
queue             RECORD lines in blocks of one stream, parsed in parallel, passed to the sinks in order
parser            A block of RECORD lines -> Arrow rows
message           Parts of a RECORD message as bytes
buffer            Local files of records that wait to be loaded, and the records that are refused
metadata_columns  The `_sdc_` columns of a stream and their values
schema_checks     JSON Schema checks on Arrow columns
validation        JSON Schema checks on single records
schema_dialects   SCHEMA messages of older drafts of JSON Schema
schema_shape      Checks of the SCHEMA itself
encoder           Arrow rows -> RECORD lines
errors            Errors of single messages
"""
