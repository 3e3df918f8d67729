"""Fault injection at every step and request of small runs; `python -m fault_suite` runs all cases."""
