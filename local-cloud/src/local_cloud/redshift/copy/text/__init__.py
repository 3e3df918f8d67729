"""COPY of delimited text and CSV.

blocks     A text file as blocks of whole records, decompressed as they are read
delimited  Delimited text and CSV
pieces     Columns of text as the payload of PostgreSQL's COPY, in its text format (vectorised)
records    Records of text, with what is needed to say which of them is wrong, and why
temporal   Dates and times in text, by DATEFORMAT and TIMEFORMAT
utf8       Text that is no UTF-8, and what Redshift says about it or puts in its place (pure)
values     Fields of text as values of a column: checked by Redshift's rules, spelled for PostgreSQL
"""
