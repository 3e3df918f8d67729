"""The Singer SDK: the only package that uses its private members.

target          The base of the targets: messages -> loads, STATE after durability
sink            The sinks of a stream: its table, its RECORD lines in blocks, and the records that wait for it
message_reader  Messages from standard input, by chunks of whole lines
message_writer  Messages to standard output, as whole lines; when STATE leaves
stream_maps     Effects of the SDK's stream maps, flattening and selection, and records of batches for them
tap             The base of the taps and their streams; end marks
settings        Settings of taps and targets: environment, files, options, one line for a mistake; their log lines
cli             The command line around a connector; the SDK, imported without what is seldom used
"""
