"""RECORD lines <-> Arrow.

queue       Records that wait to be loaded, in local files; input lines
parse       A block of RECORD lines -> Arrow rows; metadata columns
schema      SCHEMA messages: drafts of JSON Schema, their shape, and checks of whole columns
validation  JSON Schema checks on single records; rows -> RECORD messages
"""
