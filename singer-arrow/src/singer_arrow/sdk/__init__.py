"""The Singer SDK: the only package that uses its private members.

batch_to_records  The rows of BATCH messages one by one, as the records that the SDK's stream maps and flattening need
cli               The command line around a connector
config_errors     What is wrong with a connector's settings, in words that name the setting and never hold a secret
environment       Settings in environment variables: `TARGET_X_MAX_BATCH_MB=0.5` for `max_batch_mb`
lazy_import       Imports the Singer SDK without the libraries that it imports and our connectors hardly use
message_reader    How a target reads messages
message_writer    The tap's output
plugin            What taps and targets share of the one seam to singer-sdk; only `sdk*.py` touch what the SDK keeps t
record_lines      The RECORD lines of a target that need not become messages
selection         What the selection of a catalog does to records of an Arrow schema. Pure
sink              The sink of a target that loads in the background
state_writer      Where a target writes STATE: standard output
stream_end_marks  The tap's side of `stream_ends`
stream_maps       What the SDK's stream maps and flattening do to a stream, as far as it decides how its batches are r
tap               The tap's side of the seam to singer-sdk
target            The target's side of the seam to singer-sdk
termination       What a signal raises in the main thread, and the one line that reports it
ticker            What a target does about every second, whether or not a message comes
"""
