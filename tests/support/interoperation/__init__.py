"""Public taps and targets against ours: `python -m interoperation` runs them all and writes docs/interoperation.md.

things         the rows that every source holds, and what a tap that gives only texts makes of them
sources        the same rows as files, on S3, in PostgreSQL and behind HTTP
environments   each public tap and target in an environment of its own, from `pins/`
taps           the taps, how each is configured, and what its tables must hold
capturing      runs a tap and writes its messages into a capture
captures       reads and writes captures: messages, batch files and expected rows below tests/integration/captures
targets        the targets, how each is configured, and how to read what one wrote
values         compares values that the source holds with those that arrived
page           docs/interoperation.md
"""
