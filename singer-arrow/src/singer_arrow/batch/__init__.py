"""BATCH messages and their files.

message  BATCH messages, and the settings of batch files
files    Arrow batches <-> batch files; what their properties show
"""
