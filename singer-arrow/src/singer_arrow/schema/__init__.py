"""Arrow schemas, JSON Schemas, and conversion between them. Pure.

arrow_schema  Arrow schemas: merged, compared, checked; names of types
json_schema   Arrow schema <-> JSON Schema
"""
