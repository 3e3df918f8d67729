"""COPY of JSON.

nested   nested Arrow values as JSON text, as SERIALIZETOJSON makes it (vectorised; numbers stay exact)
objects  reads JSON objects: blocks at once (vectorised) where the result is certainly Redshift's, else one by one
paths    parses a jsonpaths file and follows its paths inside a JSON object
"""
