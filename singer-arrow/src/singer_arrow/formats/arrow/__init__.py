"""Arrow IPC files and streams.

arrow_format  The format: schema and record batches
messages      Size checks before decompression
footer        Files without a stream, by their footer
batch_size    Rows at once, by what they decode to
writer        Writing of files
"""
