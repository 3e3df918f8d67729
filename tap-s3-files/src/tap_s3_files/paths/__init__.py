"""Paths of streams: dates, named wildcards, partition columns. Pure.

date_paths         Dates in paths: `s3://bucket/logs/{date:%Y/%m/%d}/*.gz`. Pure
partition_columns  Partition columns: from Hive folders and from named wildcards in paths
"""
