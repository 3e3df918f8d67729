"""Rows of a file, held to the schema of their stream: bad rows, schema drift, columns that are left out.

bad_rows          Values of a batch that do not fit
enforce           Batches as a file has them -> batches as a schema wants them, exactly; what does not fit goes as the
excluded_members  JSON without members of objects that are left out. Pure
mismatches        Which values of a column do not fit a type
projection        What a file of columns has, beside what a schema wants of it. Pure
row_json          A row of a batch as JSON text from which it can be told, whatever is wrong with it. Pure
schema_drift      What of a file does not fit its stream's schema
text_mismatches   Columns of text -> columns of a type, with all values that do not fit told and made null. Pure
"""
