"""COPY of delimited text and CSV.

blocks     reads a text file as blocks of whole records, decompressed
delimited  reads delimited text and CSV
pieces     columns of text as the payload of PostgreSQL's COPY, in its text format (vectorised)
records    records of text, with the details of wrong ones
temporal   dates and times in text, by DATEFORMAT and TIMEFORMAT
utf8       Redshift's errors and replacements for invalid UTF-8
values     fields of text as values of a column, by Redshift's rules
"""
