"""Singer connectors that carry data as Arrow: storage, file formats, batch files, loads, and STATE after durability.

Nothing is imported here: take what you need from the modules, as docs/add-a-format.md shows.
"""
