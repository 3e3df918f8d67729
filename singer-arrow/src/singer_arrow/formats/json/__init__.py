"""JSON Lines, JSON arrays, and JSON documents that envelop rows.

array_document   A JSON document that is a list -> JSON Lines, one element a line, in bounded memory
bad_rows         Rows of a block that are not as they should be
drift            What the schema must become before the rows of a block can be given
envelope_reader  Lines of JSON that hold a record among other members, as messages do -> one record batch, fast or not
fast_reader      Whole lines of JSON -> one record batch, by Arrow's JSON reader: fast, or not at all
infer            Which types the columns of a JSON Lines file have, told from a sample
json_format      JSON: one object a line, or a document that is a list of objects
line_blocks      Lines in blocks, where lines that are too long are left out and told
line_ends        Whether each line of a text of JSON objects holds one of them. Pure
numbers          Numbers as Arrow's JSON reader makes them, where it does not look
parser           One block of JSON Lines -> one record batch, and what is wrong with the rest of it
slow_reader      Lines of JSON with some trouble among them -> their rows, and what is wrong with which line
small_files      Small files of JSON Lines, parsed as one text
source           A text of JSON from some place on, in blocks of lines, whether it is lines or a list; and where in it
unknown_keys     Which keys of records are known, and what stands under those that are not
writer           JSON Lines, written
"""
