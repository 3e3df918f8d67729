"""Decompression of byte streams.

codecs      Detect the codec of a stream, and decompress it
bgzip       Blocked gzip, whose members can be decompressed in parallel
snappy      Framed, Hadoop and raw Snappy
chunk_file  A sequential file over chunks of bytes
"""
