"""A Singer tap that reads query results by Arrow Flight SQL and sends them as BATCH files or RECORD messages.

stream    The tap and its streams: windows, written down before they are sent; their batches or records, and STATE
settings  The settings: declared, read and checked; the bookmark in STATE
server    Connections to the server, queries, its errors; its tables, and the schemas of streams
sql       The text of queries
"""
