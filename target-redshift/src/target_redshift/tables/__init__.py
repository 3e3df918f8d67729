"""Tables of Redshift: their names, columns, types, sort and distribution keys, and how they change.

column_evolution  Which column each property fills, and what becomes of one whose values do not fit the table's. Pure
comments          Comments of tables and columns
migrate           Makes the schema and the tables ready
naming            What Redshift says of names: at most 127 bytes, in lower case however they are quoted. Pure
staging_columns   Staging tables
table_layout      How the settings `dist_key` and `sort_keys` lay out new tables, and what is said of those laid out o
types             Arrow types -> Redshift column types, and which Arrow type a column is uploaded as. Pure
"""
