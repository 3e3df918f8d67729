"""Arrow IPC files and streams.

arrow_format  Arrow IPC: files (Feather version 2 too) and streams, read in order, one record batch at a time
messages      The messages of an Arrow IPC stream, looked at before Arrow decompresses them
"""
