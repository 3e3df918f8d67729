"""Exact conversions of values: from text, JSON and Arrow, and to JSON.

cut_digits       Digits of seconds for which a type has no place
decimals         Text and decimals -> decimals, and back to text, exactly. Pure
extension_types  Types of Parquet that Arrow's readers recognise only if extension types of their names are registered
from_arrow       A column as a file has it -> a column as a schema wants it, exactly
from_json        JSON values, one by one -> values of Arrow types
from_text        Columns of text -> columns of a type, exactly. Pure
json_depth       How deep JSON nests
spelling         How a stream writes dates, numbers and booleans where that is not as ISO 8601 and JSON do it
spelling_hints   Settings that a column of text seems to need: logged, never assumed
temporal_text    Dates, times and timestamps as text, also where Python and Arrow have none for them. Pure
to_json          Columns and values -> JSON, exactly
utf8             What readers of files of columns do not check. Pure
variant          VARIANT of Parquet -> JSON, exactly as far as JSON goes. Pure
variant_columns  Columns of VARIANT, whole or shredded into typed columns, as the values that JSON text is made of. Pu
wkb              Geometries in well-known binary -> well-known text. Pure
"""
