"""How rows get into tables: one file for each load method, and the ways they share."""

from __future__ import annotations

from singer_arrow.warehouse.settings import APPEND, OVERWRITE, UPSERT
from target_bigquery.load.append import AppendOnly
from target_bigquery.load.overwrite import Overwrite
from target_bigquery.load.upsert import Upsert
from target_bigquery.storage_write.load_method import STREAMED, why_not

METHODS: dict[str, type[AppendOnly] | type[Upsert] | type[Overwrite]] = {
    APPEND: AppendOnly,
    UPSERT: Upsert,
    OVERWRITE: Overwrite,
}

__all__ = ["METHODS", "STREAMED", "AppendOnly", "Overwrite", "Upsert", "why_not"]
