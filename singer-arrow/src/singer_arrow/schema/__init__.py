"""Arrow schemas, JSON Schemas, and conversion between them. Pure.

arrow_schema   Canonical types, and merging of schemas
json_schema    Arrow schema <-> JSON Schema
type_names     The names of types in settings
plain_numbers  Decimals of parsed JSON -> ints and floats
"""
