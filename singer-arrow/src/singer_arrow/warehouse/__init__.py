"""What every warehouse target shares.

descriptions     What a SCHEMA says of its stream and of its properties, in words, for those who see the table. Pure
manifest_roots   Where the files of a BATCH message may be
settings         Settings that connectors have in common: declared here once, as JSON Schema, and read here
table_layout     Settings that say how new tables are laid out
variant_columns  Variant columns
warehouse        A target for a warehouse, and its sinks: what is the same for all of them
"""
