"""Tables of BigQuery: names, columns, types, partitions, and how they change.

migrate           Creates the dataset and the tables; adds, widens and relaxes columns
column_evolution  Chooses the column for a property whose values do not fit the table's
table_layout      Partitions and clusters new tables by the settings
table_fields      Columns in the representation of the API
types             Arrow types -> BigQuery column types
naming            Rules for names
"""
