"""The format `jsonl`: JSON Lines, and documents that are a list. The path of a file begins in `json_format`.

json_format      Read a file: source, parsed blocks, batches. Infer the types of a file; join small files
source           Open a text at a point, as blocks of whole lines
array_document   Convert a document that is a list to JSON Lines
parser           Parse one block: Arrow's reader by a strategy, else the exact reader and the policy for bad rows
strategies       Strategies to read lines by Arrow's JSON reader. Pure
fast_reader      Read whole lines by Arrow's reader; fail if a line is bad
arrow_checks     Checks of what Arrow's reader accepts although it must not. Pure
exact_reader     Read lines of which some are bad, and find the error of each
unknown_keys     Find the keys of records that are unknown, and their values
infer            Infer the types of the columns from a sample. Pure
envelope_reader  Read lines whose record is a member of an object, as in messages
writer           Write JSON Lines
"""
