"""Rules of Redshift for names: at most 127 bytes, in lower case even if quoted. Pure."""

from __future__ import annotations

import re

from singer_arrow.naming import NamingRules

LENGTH = 127
"""Bytes of a name; Redshift cuts what is longer, so that two of them might become one."""
RULES = NamingRules(
    table_length=LENGTH,
    column_length=LENGTH,
    reserved_columns=re.compile(
        r"(?:(?:oid|tableoid|xmin|xmax|cmin|cmax|ctid|deletexid|insertxid)$|_sdc_(?:order|row|unused|staged)(?:_|$)|padb_internal_)",
        re.IGNORECASE,
    ),
    lower=True,
)
