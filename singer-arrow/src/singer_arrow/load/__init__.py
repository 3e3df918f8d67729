"""Batches and records into a warehouse, each exactly once, whatever the warehouse is.

backoff        Wait between the tries of a call that may succeed later, and log the reason once
bisect         Find the rows that a warehouse refuses by loading ranges of rows
checkpoint     Hold STATE back until everything that came before it is durable
conversion     Convert batches to the types of a warehouse
daemon_pool    Thread pool that does not keep the process from ending
dead_letters   Write rows that are not loaded to files for `_sdc_rejected`
finishing      Finish tables at the end of the input
item           Items: BATCH messages and files of RECORD messages
key_ranges     Ranges of values of a load, by which a MERGE is pruned
ledger_lookup  Look up batches in a ledger by few queries
load_method    Base of load methods
metrics        Count what is loaded, by stream, for progress and closing lines
row_spool      Converted rows on local disk
scheduler      Group items into loads and run them
staging        Name and remove staged files
stream_ends    Detect where streams begin and end in the input. Pure
without_rows   Remove refused rows from converted ones
"""
