"""Exact casts of values from text, JSON and Arrow, and to JSON.

from_text        Text columns -> columns of a type; whole numbers that a float holds. Pure
from_arrow       Arrow columns -> columns of a schema. Pure
from_json        Parsed JSON values -> values of Arrow types. Pure
to_json          Columns and values -> JSON. Pure
spelling         How dates, numbers, times and texts are spelled in files. Pure
extension_types  Extension types: VARIANT and geometries
"""
