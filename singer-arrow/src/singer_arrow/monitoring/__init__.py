"""Observation of a run by people and programs: its settings, the format of log lines, and what they leave out.

settings  Declarations of the settings of this folder
secrets   Settings without their secrets
monitor   The observation of one run: its report, kept up to date
logs      Log lines for people, or JSON for programs
"""
