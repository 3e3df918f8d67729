"""A Singer tap that reads files from S3 as Arrow and sends them as BATCH files or RECORD messages.

tap           The tap: command line, discovery, the streams of a run, the preview
stream        A stream: sends the batches or records of its plan, and STATE
run           What the streams of a run share (settings, storage, memory, threads, listings), and the tasks of one
plan_model    Objects -> tasks -> segments; ranges of large objects and where they are cut
plan          What one stream reads in one run: segments of earlier runs, then new ones; which objects the log knows
lake          Tables of Delta Lake and Apache Iceberg: their versions, and the files that each adds
table_plan    What a stream that is a table reads in one run
plan_log      The plan log of a stream: its files, read, identified and appended to
sqs           Objects that messages of a queue name; the command that creates a queue for the events of buckets
listing       Objects of the storage or of an inventory, as compressed columns; many prefixes at once
paths         Which keys match the paths of a stream; dates and partition columns in paths
folders       Streams found in the bucket: one for each folder that matches the placeholders of a name and a path
columns       The setting `columns` as a mapping: columns renamed, left out, cast, hashed, masked or constant
after_load    The setting `after_load`: objects whose rows are loaded are deleted, moved or tagged
read          A task -> Arrow batches: whole objects or ranges; bad rows that leave the stream
convert       Arrow batches -> batch files and their BATCH messages; objects that go as they are
discover      Samples of a stream and their types; the catalog, and columns that come later
settings      The settings, declared and checked; the bookmark in STATE
shards        Which tasks of a plan log one of several independent runs takes
progress      Counts of a stream, and its log lines
tables        `--plan`, `--preview` and shards as tables of text
init          The command `tap-s3-files init`: folders, samples, the text of a configuration
dask_cluster  Tasks on a Dask cluster: what is sent to workers, results in order
"""
