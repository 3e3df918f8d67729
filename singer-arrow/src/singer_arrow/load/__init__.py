"""Batches and records into a warehouse, each exactly once, whatever the warehouse is.

convert       Batches -> the types of a warehouse; converted rows on local disk; refused rows, found and left out
run           Group items into loads and run them; STATE held back until all before it is durable; the end of a run
dead_letters  Collect the rows that are not loaded, and their place in their file or the input
method        Base of load methods and of ledgers; items; what is counted
staging       Name and remove staged files; ranges of keys by which a MERGE is pruned
stream_ends   Detect where streams begin and end in the input. Pure
"""
