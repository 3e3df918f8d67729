"""Observation of a run by people and programs: its settings, the format of log lines, and what they leave out.

settings  Declarations of the settings of this folder
secrets   Settings without their secrets
monitor   The observation of one run: its report, its progress, metrics of its backlog
logs      Log lines for people, or JSON for programs
terminal  Progress on a terminal
lineage   Events of OpenLineage
progress_row  The figures of a run -> what the terminal shows
"""
