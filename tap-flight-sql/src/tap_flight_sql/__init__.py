"""A Singer tap that reads query results by Arrow Flight SQL and sends them as BATCH files or RECORD messages.

tap            The tap: discovery, the streams of a run
stream         A stream: sends the batches or records of its windows, and STATE
catalog        The schema of a stream, and the tables of the server
read_window    Read the rows of a window: all endpoints at once, into batch files
window_log     The windows that were read, written down before they are sent
window         A window: its bounds, its batch files and their BATCH messages. Pure
bookmark       The STATE of a stream
server         Connections to the server, queries, and its errors
sql            The text of queries
settings       The settings: read and checked
config_schema  The settings: declared
"""
