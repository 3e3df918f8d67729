"""Objects below the paths of a stream.

inventory   Read the object lists of S3 Inventory, for buckets that are too large to be listed
listing     A listing of very many objects, held in columns: a million objects take some 150 MB, not 500
parallel    Lists the objects of a stream, several places at once
path_match  Which objects belong to a stream
"""
