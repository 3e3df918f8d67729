"""Batches and records into a warehouse, each exactly once, whatever the warehouse is.

backoff        Wait between the tries of a call that may succeed later, and log the reason once
bisect         Which of many rows are refused, where only whole ranges of them can be tried
checkpoint     When a STATE may leave a target: once everything that came before it is durable
conversion     Batches as they are read -> batches as a warehouse gets them
daemon_pool    Threads that run tasks and never keep the process from ending
dead_letters   Rows that are not loaded
finishing      What happens to tables at the end of the input
item           What the messages of a stream bring to its load method
key_ranges     Between which values the rows of a load lie, so that a MERGE need not look for them elsewhere
ledger_lookup  Look batches up in a ledger by few queries, whose cost does not depend on how many entries the ledger h
load_method    What the load methods of all warehouses and load methods share
metrics        What a target did, stream by stream: the counts behind its progress and its closing lines
scheduler      How what a target reads becomes loads
staging        Files that a target puts into a bucket for its loads
stream_ends    Where streams begin and end in the input, and which tables may be replaced at its end. Pure
without_rows   Converted rows without those that a warehouse refuses
"""
