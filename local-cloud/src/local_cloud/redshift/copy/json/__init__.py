"""COPY of JSON.

blocks   Blocks of JSON objects read at once (vectorised), where that is surely what Redshift reads
nested   Nested Arrow values as JSON text, as SERIALIZETOJSON makes it (vectorised; numbers stay exact)
objects  JSON: objects with any white space between them
paths    A jsonpaths file, and where its paths lead inside a JSON object (pure)
"""
