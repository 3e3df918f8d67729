"""Parquet.

batch_size      How many rows of a row group make a batch, so that none is large in memory, however small the file is
concat          Parquet files of one schema -> one file that holds their row groups, which are copied and not decoded
encoding        How the columns of a Parquet file are encoded, told from its first rows. Pure
parquet_format  Parquet files: only the columns that are wanted, by planned ranges, row group by row group
row_groups      The row groups of a Parquet file, decoded
thrift          Thrift's compact protocol, as far as the footers of Parquet files need it
types           The Arrow types of a Parquet file's columns, where Arrow's reader knows less than the file says. Pure
writer          Parquet files, written in row groups of up to 64 MiB in memory, with dictionaries only where they pay
"""
