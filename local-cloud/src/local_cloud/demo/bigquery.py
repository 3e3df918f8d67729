"""Queries of the local BigQuery by google-cloud-bigquery."""

from __future__ import annotations

import os
from collections.abc import Sequence

from local_cloud.demo.checksum import BETWEEN, HEX_DIGITS, NULL, Checksum, Column, Kind

_KINDS: dict[str, Kind] = {
    "INTEGER": "integer",
    "FLOAT": "float",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "STRING": "text",
    "NUMERIC": "decimal",
    "RECORD": "nested",
}
_TEXT: dict[Kind, str] = {
    "float": "CAST(CAST(FLOOR({0} * 1000000 + 0.5) AS INT64) AS STRING)",
    "timestamp": "CAST(UNIX_MICROS({0}) AS STRING)",
    "text": "{0}",
    "decimal": "CAST(CAST({0} * 1000000000 AS INT64) AS STRING)",
    "nested": "IF({0} IS NULL, NULL, REPLACE(TO_JSON_STRING({0}), ' ', ''))",
}


class BigQuery:
    """The local BigQuery as a `local_cloud.demo.warehouse.Warehouse`."""

    name = "BigQuery"
    target = "target-bigquery"
    loads = "load jobs"

    def __init__(self) -> None:
        from google.api_core.client_options import ClientOptions
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import bigquery

        self._dataset = os.environ["TARGET_BIGQUERY_DATASET"]
        self._client = bigquery.Client(
            project=os.environ["TARGET_BIGQUERY_PROJECT"],
            credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call] # google.auth types its API in part
            client_options=ClientOptions(api_endpoint=os.environ["TARGET_BIGQUERY_API_ENDPOINT"]),
        )

    def columns(self, table: str) -> list[Column]:
        """Return the columns that came from the source."""
        fields = self._client.get_table(f"{self._dataset}.{table}").schema
        return [Column(f.name, _KINDS[f.field_type]) for f in fields if not f.name.startswith("_sdc_")]

    def checksum(self, table: str, columns: Sequence[Column]) -> Checksum:
        """Return the checksum of all rows, computed by BigQuery."""
        cells = (
            f"COALESCE({_TEXT.get(c.kind, 'CAST({0} AS STRING)').format(f'`{c.name}`')}, '{NULL}')"
            for c in sorted(columns)
        )
        row = f", '{BETWEEN}', ".join(cells)
        digits = f"SUBSTR(TO_HEX(MD5(CONCAT({row}))), 1, {HEX_DIGITS})"
        query = (
            f"SELECT COUNT(*), COALESCE(SUM(CAST(CONCAT('0x', {digits}) AS INT64)), 0) "  # noqa: S608 - our own names
            f"FROM `{self._dataset}.{table}`"
        )
        rows, value = next(iter(self._client.query_and_wait(query)))
        return Checksum(rows, value)

    def load_count(self, table: str) -> int:
        """Return the number of successful load jobs of a table."""
        jobs = self._client.list_jobs(all_users=True)
        return sum(j.job_type == "load" and not j.error_result and j.destination.table_id == table for j in jobs)

    def close(self) -> None:
        """Close the client."""
        self._client.close()  # type: ignore[no-untyped-call] # google.cloud types its API in part
