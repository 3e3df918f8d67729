"""UNLOAD in a session: reads the query's rows from PostgreSQL and writes them to S3."""

import json
import os
from typing import Any

from local_cloud.redshift import wire
from local_cloud.redshift.backend import Backend
from local_cloud.redshift.cluster import Cluster
from local_cloud.redshift.errors import RedshiftError
from local_cloud.redshift.sql.rewrite import rewrite
from local_cloud.redshift.sql.statement import Plain, Settings, Unload
from local_cloud.redshift.sql.unload import ResultColumn, files, rows_of

_DENIED = "-denied"


def run_unload(command: Unload, backend: Backend, cluster: Cluster, settings: Settings) -> int:
    """Run an UNLOAD and return the number of rows."""
    found = rewrite(command.query, settings)
    if len(found) != 1 or not isinstance(found[0], Plain):
        raise RedshiftError("UNLOAD takes one query", "42601")
    sql = found[0].sql
    described, _ = backend.result(f"SELECT * FROM ({sql}) q LIMIT 0")  # noqa: S608 - the client's own query
    columns = _columns(described, cluster)
    _, copied = backend.result(f"COPY ({sql}) TO STDOUT")
    rows = rows_of(copied)
    _write(command, files(command, columns, rows, cluster.slices))
    return len(rows)


def _columns(body: bytes, cluster: Cluster) -> list[ResultColumn]:
    found, position = list[ResultColumn](), 2
    for _ in range(wire.int16(body, 0)):
        name, after = wire.split_text(body, position)
        found.append(ResultColumn(cluster.names.full(name), wire.int32(body, after + 6), wire.int32(body, after + 12)))
        position = after + 18
    return found


def _write(command: Unload, made: list[tuple[str, bytes]]) -> None:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    if command.options.get("iam_role", "").endswith(_DENIED):
        raise RedshiftError("S3ServiceException:Access Denied,Status 403,Error AccessDenied,Rid LOCAL,CanRetry 1")
    bucket, _, prefix = command.target.removeprefix("s3://").partition("/")
    client = boto3.client("s3", endpoint_url=os.environ.get("AWS_ENDPOINT_URL"))
    try:
        _make_room(client, command, bucket, prefix)
        for name, data in made:
            client.put_object(Bucket=bucket, Key=prefix + name, Body=data)
        if "manifest" in command.options:
            entries = [
                {"url": command.target + name, "meta": {"content_length": len(data)}, "mandatory": True}
                for name, data in made
            ]
            client.put_object(Bucket=bucket, Key=f"{prefix}manifest", Body=json.dumps({"entries": entries}))
    except (ClientError, BotoCoreError) as error:
        raise RedshiftError(f"S3ServiceException:{error}") from None


def _make_room(client: Any, command: Unload, bucket: str, prefix: str) -> None:
    """Check that no objects exist, or remove them if the statement asks for it."""
    if "allowoverwrite" in command.options:
        return
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    keys = [found["Key"] for page in pages for found in page.get("Contents", [])]
    if keys and "cleanpath" not in command.options:
        raise RedshiftError(
            "Specified unload destination on S3 is not empty. Consider using a different bucket / prefix, manually "
            "removing the target files in S3, or using the ALLOWOVERWRITE option."
        )
    for key in keys:
        client.delete_object(Bucket=bucket, Key=key)
