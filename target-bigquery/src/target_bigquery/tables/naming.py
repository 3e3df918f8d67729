"""Rules of BigQuery and Avro for names."""

from __future__ import annotations

import re

from singer_arrow.naming import NamingRules, digest

RULES = NamingRules(
    table_length=900,  # BigQuery takes 1,024 bytes; staging tables add to it
    column_length=300,
    reserved_columns=re.compile(
        r"(_TABLE_|_FILE_|_PARTITION|_ROW_TIMESTAMP|__ROOT__|_COLIDENTIFIER|_CHANGE_SEQUENCE_NUMBER|_CHANGE_TYPE"
        r"|_CHANGE_TIMESTAMP|_sdc_order(?:_|$))",  # the last one is of staging tables
        re.IGNORECASE,
    ),
)


def job_prefix(table: str) -> str:
    """Return the beginning of the ids of load jobs into a table."""
    return f"target_bigquery_{digest(table, 16)}_"
