"""Side-by-side benchmarks: `python -m benchmarks [CASE ...]` or `make bench CASES="..."`.

Flow: a case names contenders -> `rounds` runs them in turn -> `harness` measures each process tree -> `report` writes
the medians. What is compared, and with which settings, is in the docstring of each module in `cases/`.
"""
