"""The format `csv`: CSV, TSV and other delimited text. The path of a file begins in `csv_format`.

csv_format      Read a file: header, blocks, parsed blocks, batches. Infer the types of a file; join small files
header          Find the header of a file: the names of its columns, and where its rows begin
dialect         Dialects: the delimiter, and where records and fields end. Pure
parser          Parse one block into the rows of a schema: typed, else as text by the policy for bad rows
range_scan      Find where rows begin in ranges of a file
malformed_rows  Find the rows of a block that cannot be read. Pure
"""
