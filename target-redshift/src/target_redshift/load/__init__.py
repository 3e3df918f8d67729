"""How rows get into tables: one file for each load method, and the ways they share."""

from __future__ import annotations

from singer_arrow.warehouse.settings import APPEND, OVERWRITE, UPSERT
from target_redshift.load.append import AppendOnly
from target_redshift.load.overwrite import Overwrite
from target_redshift.load.upsert import Upsert

METHODS: dict[str, type[AppendOnly] | type[Upsert] | type[Overwrite]] = {
    APPEND: AppendOnly,
    UPSERT: Upsert,
    OVERWRITE: Overwrite,
}

__all__ = ["METHODS", "AppendOnly", "Overwrite", "Upsert"]
