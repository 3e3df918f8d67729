"""Enforcement of a stream's schema on the rows of a file.

enforce           Cast batches of a file to exactly a schema
row_policy        Apply `on_bad_row` and `on_drift` to bad rows of all formats. Pure
mismatches        Find all values of a column that do not fit a type. Pure
schema_drift      Columns to read, new columns, changed types, and the column of rescued values. Pure
excluded_members  Remove excluded object members from JSON values. Pure
row_json          A row as JSON text for error reports. Pure
"""
