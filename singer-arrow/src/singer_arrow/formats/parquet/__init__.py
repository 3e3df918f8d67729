"""Parquet files.

parquet_format  The format: footer, column ranges and rows
row_groups      Decode row groups, small ones in parallel
batch_size      Rows per batch, so that batches are bounded in memory
types           Arrow types of a file's columns, with enumerations as text. Pure
writer          Arrow batches -> a Parquet file
encoding        Choose dictionaries, statistics and page sizes. Pure
concat          Concatenate files by copying row groups
thrift          Thrift's compact protocol, for footers. Pure
"""
