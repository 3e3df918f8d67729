"""Which objects a run reads, in which batches, written to a log before they are sent.

cuts            Where a large object was cut into batch files
known_versions  Which object versions a plan log held when a run began; only those of the times asked for are in memor
legacy          Read what earlier versions of the tap kept below `_plans/`; pure
log             The plan log of a stream: which object versions make which tasks. It is only ever appended to
log_files       The files of a plan log, as bytes. Pure
model           Objects -> segments of tasks. Pure
stream_plan     What one stream reads in one run
"""
