"""Reports of runs: JSON for programs, pages for people. `docs/report.schema.json` is the schema of the JSON.

document  The figures of a run -> a report
folder    Reports in a folder
page      A report -> a page
history   Many reports -> a page with plots
charts    Numbers -> inline SVG
html      Texts and tables -> HTML, with the style sheet style.css
command   The command `singer-arrow report`
"""
