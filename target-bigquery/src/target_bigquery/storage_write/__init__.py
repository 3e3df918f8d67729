"""Loads through the Storage Write API.

load_method  The load methods of `load_via: storage_write`
requests     Rows as Arrow record batches in requests of a bounded size
stream       Fills a write stream with the rows of a group, and commits it
client       Pending write streams, written under offsets and committed once
error_kinds  Classifies the errors of the API
errors       Errors of the API, as errors of ours
"""
