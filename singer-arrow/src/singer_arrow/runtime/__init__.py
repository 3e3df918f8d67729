"""Threads, temporary files, memory and sockets of the process.

threads      Thread pools, background threads, parallel tasks with results in order, deferred signals
startup      Signals while a connector is imported
termination  The exception of a signal, and its log line
temporary    Temporary folders, including those of killed runs
malloc       Limit the memory that glibc retains
tcp          Detect dead TCP connections
"""
