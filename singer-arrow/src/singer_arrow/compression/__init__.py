"""Compressed streams of bytes.

bgzip   Blocked gzip, as bgzip writes it
codecs  Compressed streams: which codec one is, and its bytes without it
snappy  The three ways in which Snappy stands in files: framed, as Hadoop writes it, and raw
"""
