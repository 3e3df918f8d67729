"""How rows get into tables: one file for each load method, and the ways they share."""

from __future__ import annotations

from singer_arrow.singer.declare import APPEND, OVERWRITE, UPSERT
from target_bigquery.load.append import AppendOnly
from target_bigquery.load.overwrite import Overwrite
from target_bigquery.load.storage_write import STREAMED, why_not
from target_bigquery.load.upsert import Upsert

METHODS: dict[str, type[AppendOnly] | type[Upsert] | type[Overwrite]] = {
    APPEND: AppendOnly,
    UPSERT: Upsert,
    OVERWRITE: Overwrite,
}

__all__ = ["METHODS", "STREAMED", "AppendOnly", "Overwrite", "Upsert", "why_not"]
