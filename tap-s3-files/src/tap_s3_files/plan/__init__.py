"""Which objects a run reads, in which batches, written to a log before they are sent.

cuts            Record where large objects are cut into batch files
division        Decide which objects are divided into ranges. Pure
known_versions  Look up object versions in a plan log
log             Read and append to the plan log of a stream: the object versions of each task
log_files       Encode and decode the files of a plan log. Pure
range_starts    Record where the ranges of divided objects begin
model           Group objects into tasks, and tasks into segments. Pure
stream_plan     Plan what one stream reads in one run: segments of earlier runs, then new ones
"""
