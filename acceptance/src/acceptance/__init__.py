"""Scenarios of the connectors on real accounts, or on the local cloud: `python -m acceptance`.

cost        what a run costs by list prices
pipeline    objects, runs of the executables, and rows of one scenario
report      the report of a run, as Markdown and JSON
scenario    the scenarios by name, what each needs, and how they are run
scenarios   the scenarios, by topic
site        the bucket, the warehouses and the names of one run; removes all it made
"""
