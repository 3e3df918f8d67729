"""Enforcement of a stream's schema on the rows of a file.

enforce   Batches of a file -> exactly a schema; drift; members that are left out
bad_rows  Apply `on_bad_row` and `on_drift` to bad rows of all formats. Pure
"""
