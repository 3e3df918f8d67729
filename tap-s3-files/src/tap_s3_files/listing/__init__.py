"""Objects below the paths of a stream.

inventory   Read the object lists of S3 Inventory, for buckets that are too large to be listed
listing     Hold a listing of very many objects in compressed columns, and sort it by parts
parallel    List the objects of a stream by several requests at a time
path_match  Match objects against the paths of a stream
"""
