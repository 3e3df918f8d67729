"""Public taps and targets against ours; `python -m interoperation` writes docs/interoperation.md.

things         the rows that every source contains, and their form in taps that return only text
sources        the same rows as files, on S3, in PostgreSQL and over HTTP
environments   a virtual environment for each public tap and target, from `pins/`
taps           configuration of the taps, and the rows that their tables must contain
capturing      runs a tap and writes its messages into a capture
captures       reads and writes captures: messages, batch files and expected rows below tests/integration/captures
loading        loads captures into both warehouses, and rows of tap-s3-files into public targets
targets        configuration of the targets, and how to read their output
values         compares source values with loaded values
page           generates docs/interoperation.md
"""
