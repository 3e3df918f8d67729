"""A Singer tap that reads files from S3 as Arrow and sends them as BATCH files or RECORD messages.

tap               The tap: discovery, the streams of a run, the preview
stream            A stream: sends the batches or records of its plan, and STATE
command_line      Paths and batch files given on the command line instead of in settings
run               What the streams of a run share: settings, storage, memory, threads, listings
plan              Which objects a run reads, in which batches, written to a log before they are sent
replication       Learn of new objects from an SQS queue
listing           List the objects of a stream
paths             Paths of streams: dates, named wildcards, partition columns
divided_object    Find where the ranges of a large object begin
stream_job        What all tasks of a stream have in common, and what they are run with in a process
read_task         Read the objects of a task into Arrow batches
bad_rows          Bad rows that leave the stream, for the targets' table of rejected rows
write_batches     Write Arrow batches into batch files and make BATCH messages
passthrough       Put objects that are batch files already into manifests
catalog           The schema of a stream: inferred from samples, or set
bookmark          The STATE of a stream
progress          Counts of a stream, and its log lines
discovery         The objects from which schemas are inferred, and the schema of each
inspection        Look at objects and streams without a run: --plan, --preview, init
shard             Which tasks of a plan log one of several runs takes, and what it refuses. Pure
dask              Run tasks on the workers of a Dask cluster
settings          The settings: read, defaulted and checked
config_schema     The settings: declared
"""
