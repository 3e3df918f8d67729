"""Avro object container files.

avro_format  The format: schema and rows
container    Header and blocks of a container file
schema       Arrow schema <-> Avro schema. Pure
writer       Arrow batches -> an Avro file
"""
