"""Rows of text, shared by `csv`, `excel` and the formats of lines in this folder: `lines`, `fixed_width`.

lines_format  The format `lines`: each line is a row with one column of text
fixed_width   The format `fixed_width`: each column has a fixed range of characters
line_reader   Read an object of text in which each row is a line
rows          Convert columns of text to batches of a schema; find the values that do not fit
infer         Infer the type of a column of text from its values. Pure
drift         Detect drift in a file of text: new columns, and columns of another type
column_names  Names of the columns of a file whose header has gaps or repetitions. Pure
"""
