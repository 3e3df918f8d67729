"""Rows of text, shared by `csv`, `excel` and the formats of lines in this folder: `lines`, `fixed_width`.

lines_format  The format `lines`: each line is a row with one column of text
fixed_width   The format `fixed_width`: each column has a fixed range of characters
line_reader   Read an object of text in which each row is a line
rows          Convert columns of text to batches of a schema; find values that do not fit, and drift
infer         Infer the names and types of columns of text. Pure
"""
