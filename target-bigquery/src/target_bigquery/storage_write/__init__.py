"""The load method that uses the Storage Write API.

client       BigQuery's Storage Write API: pending write streams, written under offsets and committed at once
error_kinds  Which answers of the Storage Write API call for what. Pure
load_method  load_via
requests     Rows as the Storage Write API takes them
stream       A group of rows -> a write stream that holds all of them, and can be committed
"""
