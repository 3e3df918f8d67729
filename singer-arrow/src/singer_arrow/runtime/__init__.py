"""Threads, temporary files, memory and sockets of the process.

threads     Thread pools and background threads
executors   Run tasks in parallel and return their results in order
interrupts  Defer exceptions of signal handlers
temporary   Temporary folders, including those of killed runs
malloc      Limit the memory that glibc retains
tcp         Detect dead TCP connections
"""
