"""Paths of streams: dates, named wildcards, partition columns. Pure.

date_paths         Dates in paths: `s3://bucket/logs/{date:%Y/%m/%d}/*.gz`. Pure
named_wildcards    Named groups in paths: `s3://bucket/{country:*}/{day:????-??-??}/*.csv`. Pure
partition_columns  Partition columns
"""
