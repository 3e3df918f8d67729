"""What all targets for warehouses share.

run       What the streams of one run share, how it ends, and its clock
table     The base of the tables, one for each stream while its SCHEMA stays the same; descriptions, owners of columns
settings  Settings of loads, and their JSON Schema; roots of manifests; columns of variants
"""
