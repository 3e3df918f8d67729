"""What formats of lines share, and the formats without a folder of their own: `lines`, `fixed_width`.

block_results  What the outcomes of a file's blocks come to: rows to count, errors to raise, batches to give
byte_count     How often a character stands in a text of bytes. Pure
fixed_width    Text in which each column has its place on the line, as the option `fixed_width` says
line_reader    Formats in which each row is a line
lines_format   Text without a format: each line is a row, with one column of text, `line`
rows           Rows of text -> record batches; and where something does not fit, what becomes of each row
"""
