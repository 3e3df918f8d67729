"""Faults on purpose, at every step and every request of small runs of the targets; `python -m fault_suite` runs all."""
