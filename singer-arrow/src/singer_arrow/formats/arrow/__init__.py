"""Arrow IPC files and streams.

arrow_format  The format: schema and record batches
messages      Size checks before decompression
"""
