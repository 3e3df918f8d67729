"""Threads, temporary files, memory and sockets of the process.

threads  Pools and threads, none of which keeps the process from ending; waits between attempts
startup  The version, and signals while a connector is imported
process  Memory, connections, temporary folders and the end of a process
"""
