"""Threads, processes, temporary files, memory and sockets of this process.

executors   Where tasks run, and the whole scheduler
interrupts  What a signal raises in the main thread waits until a step that must not be cut short is done
malloc      How this process gets its memory from the system, so that what is freed is used again
tcp         When a TCP connection ends whose other side is gone without a word
temporary   The folders of a run's temporary files. Those of runs that were killed are removed by the next run
threads     Threads beside other work, which must not hold up the end of a process
"""
