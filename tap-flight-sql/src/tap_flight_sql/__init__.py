"""A Singer tap that reads query results by Arrow Flight SQL and sends them as BATCH files or RECORD messages.

stream    The tap and its streams: the batches or records of windows, and STATE
discover  The schema of a stream, and the tables of the server
window    A window: its bounds, files and messages; windows written down before they are sent
settings  The settings: declared, read and checked; the bookmark in STATE
server    Connections to the server, queries, and its errors
sql       The text of queries
"""
