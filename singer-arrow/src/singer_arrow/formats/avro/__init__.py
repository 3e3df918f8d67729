"""Avro object container files.

avro_format  Avro files
container    The container of Avro
schema       Arrow schema <-> Avro schema. Pure
writer       Arrow batches -> an Avro file
"""
