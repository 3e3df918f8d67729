"""COPY of JSON.

blocks   reads blocks of JSON objects at once (vectorised), where the result is certainly Redshift's
nested   nested Arrow values as JSON text, as SERIALIZETOJSON makes it (vectorised; numbers stay exact)
objects  reads JSON objects with any white space between them
paths    parses a jsonpaths file and follows its paths inside a JSON object
"""
