"""Observation of a run by people and programs. `docs/report.schema.json` is the schema of reports.

logs          Log lines for people, or JSON for programs, without secrets; the settings of both
monitor       The observation of one run: its report, its progress, metrics of its backlog
terminal      Progress on a terminal
report        The figures of a run -> a report as JSON, events of OpenLineage
alerts        Notifications and metrics at the end of a run of a pipeline
report_pages  Pages of one run and of many, from `templates`; reports in a folder; the command `report`
"""
