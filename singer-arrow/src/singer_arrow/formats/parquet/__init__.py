"""Parquet files.

parquet_format  The format: footer, column ranges and rows
row_groups      Decode row groups, small ones in parallel, in batches of bounded memory
writer          Arrow batches -> a Parquet file; the encoding is chosen from its first rows
concat          Concatenate files by copying row groups
thrift          Thrift's compact protocol, for footers. Pure
"""
