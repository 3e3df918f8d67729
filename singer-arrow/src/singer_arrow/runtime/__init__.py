"""Threads, temporary files, memory and sockets of the process.

threads  Pools and threads; no thread keeps the process from ending
startup  Signals while a connector is imported
process  Memory, connections, temporary folders and the end of a process
"""
