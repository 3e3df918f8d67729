"""RECORD lines <-> Arrow.

input_lines       Whole lines from standard input, in chunks
block             RECORD lines of one stream, gathered to be parsed together
queue             RECORD lines on their way to the sinks, parsed in parallel, taken in order
parser            A block of RECORD lines -> Arrow rows
message           Parts of a RECORD message as bytes
buffer            Local files of records that wait to be loaded
rejected          Records that are refused, and the lines of the others
metadata_columns  The `_sdc_` columns of a stream and their values
schema_checks     JSON Schema checks on Arrow columns
validation        JSON Schema checks on single records
schema_dialects   SCHEMA messages of older drafts of JSON Schema
schema_shape      Checks of the SCHEMA itself
encoder           Arrow rows -> RECORD lines
errors            Errors of single messages
"""
