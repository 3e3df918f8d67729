"""What all targets for warehouses share.

run               What the streams of one run share, and how the run ends
table             The base of the tables, one for each stream while its SCHEMA stays the same
ticker            Work that is due about every second
settings          Settings of loads, and their JSON Schema
table_layout      Partitioning, clustering and sorting of tables
variant_columns   Columns for values that do not fit the type of their property's column
column_owners     The property that each column belongs to, as descriptions record it
descriptions      Descriptions of columns from SCHEMA
manifest_roots    Check of the places that BATCH files are read from
"""
