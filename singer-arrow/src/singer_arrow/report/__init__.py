"""Reports of runs: JSON for programs, pages for people. `docs/report.schema.json` is the schema of the JSON.

document  The figures of a run -> a report
pages     Pages of one run and of many, from `templates`; reports in a folder; the command `report`
"""
