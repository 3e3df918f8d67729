"""Arrow schemas and JSON Schemas, and how one becomes the other. Pure.

arrow_schema   Arrow schemas as all connectors here exchange them
json_schema    Arrow schema <-> JSON Schema. Pure: no data, no I/O
number_bounds  Which whole numbers the bounds of a JSON Schema allow. Pure
plain_numbers  The numbers of parsed JSON, which the SDK reads as Decimals where they have a point or an exponent. Pur
"""
