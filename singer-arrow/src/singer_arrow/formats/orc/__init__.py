"""ORC.

footers     Read the footers of a file and of its stripes: rows, columns, sizes, statistics
orc_format  Read a file, only the columns that are requested, a batch of rows at a time
"""
