"""Reports of runs: JSON for programs, pages for people. `docs/report.schema.json` is the schema of the JSON.

document  The figures of a run -> a report
folder    Reports in a folder, a page about many runs, the command `report`
page      A report -> a page, its charts
"""
