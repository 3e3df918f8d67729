"""The local S3 and SQS: moto in a process of its own.

persistence  saves and restores buckets and objects; a chosen time of modification
server       the child process
setup        creates the buckets and the queue
"""
