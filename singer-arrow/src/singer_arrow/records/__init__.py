"""RECORD messages to Arrow and back.

block            Blocks of RECORD lines of one stream, and the place of each line in the input
buffer           The files that the records of a stream wait in until they are loaded
encoder          Arrow -> RECORD messages, exact
errors           The errors of messages
input_lines      The lines of a target's input. Whoever waits for the next one can be interrupted, from any thread
message          A line of a RECORD message, read exactly: what it holds, or why it is none. Pure
parser           Lines of RECORD messages of one stream -> one record batch, up to the first line that is bad
queue            RECORD lines on their way to the sinks
rejected         The records of a stream that are refused before they are in a file, and where the others came from
schema_checks    What a stream's SCHEMA asks of its records beyond their Arrow types, checked column by column. Pure
schema_dialects  JSON Schemas of drafts 4, 6, 7, 2019-09 and 2020-12 -> draft 2020-12, which is the SDK's. Pure
schema_shape     Whether what a tap says of a stream has the shape that everything after it takes for granted. Pure
validation       Records against the JSON Schema of their stream, one by one
"""
