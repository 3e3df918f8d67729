"""Measure how easy the source is to read: `make house` prints the table, `make lint` enforces the limits.

circles   Import circles between modules, type-checking imports included
classes   Inheritance between a target and the SDK
folders   Modules in a folder, length of files, maps in `__init__.py`
limits    The limits of limits.toml compared with the measured figures
names     Class and function names with two meanings
pages     Words of the pages that people write and read
private   Tests that use private members
report    The table that `make house` prints
source    The source files of the workspace
trace     Run a command and record which of our functions it enters
walks     Files and functions that a typical run enters
words     Words that the vocabulary excludes
"""
