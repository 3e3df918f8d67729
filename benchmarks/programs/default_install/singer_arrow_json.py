"""Stands before the native parser of JSON in PYTHONPATH: without it, an installation is what `pip install` gives."""

raise ImportError("benchmarks measure an installation without the extra `native`")
