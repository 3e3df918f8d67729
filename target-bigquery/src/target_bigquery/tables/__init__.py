"""Tables of BigQuery: their names, columns, types, partitions, and how they change.

column_evolution  What becomes of a property whose values do not fit the column that the table has. Pure
migrate           Makes the dataset and the tables ready before any load
naming            What BigQuery and Avro say of names
table_fields      The columns of tables as BigQuery's API writes them. Pure
table_layout      How the settings `partition_by` and `cluster_by` lay out new tables, and what is said of those laid
types             Arrow types -> BigQuery column types, and which Arrow type a column is uploaded as. Pure
"""
