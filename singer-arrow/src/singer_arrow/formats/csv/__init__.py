"""CSV, TSV and other delimited text.

bad_rows     The rows of a block of CSV in which something is wrong
csv_format   CSV files
delimiter    Which character stands between the fields of a CSV file of which nobody said. Pure
dialect      The syntax of CSV: where records and fields end. Pure
header       Where the rows of a CSV file begin, and what its columns are called
infer        Which types the columns of a CSV file have, told from a sample
parser       One block of CSV -> one record batch, or what is wrong with it and on which line
small_files  Small CSV files with the same header, parsed as one text
"""
