"""Exact casts of values from text, JSON and Arrow, and to JSON.

from_text        Text columns -> columns of a type. Pure
from_arrow       Arrow columns -> columns of a schema. Pure
layouts          Dictionaries, runs and views -> plain columns. Pure
from_json        Parsed JSON values -> values of Arrow types. Pure
to_json          Columns and values -> JSON. Pure
decimals         Casts from, to and between decimals. Pure
whole_numbers    Whole numbers in columns of floats: which ones a float holds. Pure
temporal_text    Dates, times and timestamps as text. Pure
utf8             Validation of text, decimals and times that file readers do not check. Pure
spelling         Custom formats of dates, numbers and booleans in text files
cut_digits       Warn once per file and column about truncated digits of seconds
extension_types  Extension types of VARIANT and geometries
variant          VARIANT values -> JSON. Pure
wkb              Well-known binary -> well-known text. Pure
"""
