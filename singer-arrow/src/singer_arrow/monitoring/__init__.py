"""Observation of a run by people and programs: its settings, the format of log lines, and what they leave out.

logs      Log lines for people, or JSON for programs, without secrets; the settings of both
monitor   The observation of one run: its report, its progress, metrics of its backlog
terminal  Progress on a terminal
lineage   Events of OpenLineage
"""
