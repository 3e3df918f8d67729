"""What all targets for warehouses share.

warehouse         The base of the targets
table             The base of the tables, one for each stream while its SCHEMA stays the same
settings          Settings of loads, and their JSON Schema
table_layout      Partitioning, clustering and sorting of tables
variant_columns   Columns for values that do not fit the type of their property's column
descriptions      Descriptions of columns from SCHEMA
manifest_roots    Check of the places that BATCH files are read from
"""
