"""Tables of Redshift: names, columns, types, keys, and how they change.

migrate           Creates the schema and the tables; adds and widens columns
column_evolution  Chooses the column for a property whose values do not fit the table's
comments          Comments of tables and columns
table_layout      Distributes and sorts new tables by the settings
staging_columns   Columns of staging tables, and how their values reach the table
types             Arrow types -> Redshift column types
naming            Rules for names
"""
