"""The Singer SDK: the only package that uses its private members.

target            The base of the targets: messages -> loads, STATE after durability
sink              The sink of a stream: its table, and the records that wait for it
stream_sinks      The sinks that the streams of the input go to
message_reader    Messages from standard input, by chunks of whole lines
record_lines      RECORD lines that are parsed in blocks instead of one by one
batch_to_records  BATCH messages -> single records, for stream maps and flattening
stream_maps       Effects of the SDK's stream maps, flattening and selection on records
state_writer      STATE on standard output
tap               The base of the taps
exact_catalog     Catalogs of taps, read without loss
message_writer    The output of a tap
stream_end_marks  Marks of the end of a stream
plugin            Settings and log lines of taps and targets
config_errors     Errors of settings, without secrets
environment       Settings from environment variables
setting_options   Command-line options that set settings
cli               The command line around a connector
lazy_import       Import of the SDK without the libraries that connectors do not use
"""
