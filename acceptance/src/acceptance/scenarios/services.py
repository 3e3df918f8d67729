"""SQS, KMS, roles, stages, and what one warehouse alone has."""

from __future__ import annotations

import os
from datetime import date
from typing import Any

from acceptance.pipeline import Pipeline, check, numbered, parquet
from acceptance.scenario import scenario
from acceptance.site import BigQuery

COLUMNS: dict[str, Any] = {"id": [0, 1], "name": ["row 0", "row 1"]}


@scenario("any", needs=["sqs"], alone=True)
def queue(p: Pipeline) -> None:
    """Objects are found by the events of a queue, and none twice."""
    found = {"method": "sqs", "queue_url": os.environ["ACCEPTANCE_QUEUE_URL"], "max_wait_seconds": 5}
    more = {"replication": found | {"unmatched_events": "delete"}}
    p.put("a.csv", numbered(0, 2))
    p.run(more)
    p.put("b.csv", numbered(2, 4))
    p.run(more)
    p.expect(numbered(0, 4))


@scenario("any", needs=["kms"])
def objects_with_a_kms_key(p: Pipeline) -> None:
    """Objects that are encrypted by a KMS key are read."""
    key = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": os.environ["ACCEPTANCE_AWS_KMS_KEY"]}
    body = b"id,name\n0,row 0\n1,row 1\n"
    p.site.s3.put_object(Bucket=p.root.bucket, Key=p.url("in/a.csv").key, Body=body, **key)
    p.run()
    p.expect(numbered(0, 2))


@scenario("any")
def loaded_objects_are_deleted(p: Pipeline) -> None:
    """With after_load: delete, the run after the one that loaded an object deletes it."""
    p.put("a.csv", numbered(0, 2))
    p.run(after_load={"delete": True})
    p.run(after_load={"delete": True})
    p.expect(numbered(0, 2))
    check(not p.objects("in"), "The object is still there")


@scenario()
def passthrough(p: Pipeline) -> None:
    """Parquet objects are loaded where they are: no batch file is written."""
    p.put("a.parquet", parquet(COLUMNS, compression="snappy"))
    p.run({"passthrough": True})
    p.expect(numbered(0, 2))
    written = [key for key in p.objects("batches") if "/_plans/" not in key]
    check(not written, f"Batch files were written: {written}")


@scenario()
def clean_up_of_batch_files(p: Pipeline) -> None:
    """With clean_up_batch_files, no batch file is left after a run."""
    p.put("a.csv", numbered(0, 2))
    p.run(target={"clean_up_batch_files": True, "manifest_roots": [str(p.url("batches"))]})
    p.expect(numbered(0, 2))
    left = [key for key in p.objects("batches") if "/_plans/" not in key]
    check(not left, f"Batch files are left: {left}")


@scenario("bigquery")
def storage_write(p: Pipeline) -> None:
    """Batches and records arrive by the Storage Write API, without a load job."""
    p.put("a.csv", numbered(0, 2))
    p.run(target={"load_via": "storage_write"})
    p.put("b.csv", numbered(2, 4))
    p.run({"batch_config": None, "plan_root": str(p.url("batches"))}, target={"load_via": "storage_write"})
    p.expect(numbered(0, 4))


@scenario("bigquery", needs=["gcs"])
def gcs_stage(p: Pipeline) -> None:
    """Files go by a bucket of Google Cloud Storage, and none is left there."""
    p.put("a.csv", numbered(0, 2))
    assert p.site.gcs is not None
    place = p.site.gcs._replace(key=f"{p.site.gcs.key}{p.stream}/")
    p.run(target={"gcs_stage": str(place).rstrip("/")})
    p.expect(numbered(0, 2))
    check(not list(p.site.storage.list(place)), "Staged files are left")


@scenario("bigquery", needs=["cloud kms"])
def table_with_a_kms_key(p: Pipeline) -> None:
    """Tables are encrypted by a key of Cloud KMS."""
    key = os.environ["ACCEPTANCE_GCP_KMS_KEY"]
    p.put("a.csv", numbered(0, 2))
    p.run(target={"kms_key": key}, load_method="upsert")
    p.expect(numbered(0, 2))
    assert isinstance(p.warehouse, BigQuery)
    table = p.warehouse.client.get_table(f"{p.warehouse.project}.{p.site.name}.{p.stream}")
    check(table.encryption_configuration.kms_key_name.startswith(key), "The table has another key")


@scenario("bigquery")
def json_columns(p: Pipeline) -> None:
    """With nested: json, nested values are JSON columns, loaded by Avro."""
    p.put("a.jsonl", '{"id": 1, "in": {"a": [1, "x"]}}\n')
    p.run(target={"nested": "json"}, schema={"in": "json"})
    check(p.columns()["in"] == "JSON", f"The column is {p.columns()['in']}")
    p.expect([(1, "x")], "id, JSON_VALUE(`in`.a[1])")


@scenario("bigquery")
def merge_reads_its_partitions(p: Pipeline) -> None:
    """The MERGE of an upsert reads the partitions of the arriving rows alone, by the bytes of its job."""
    days = [date(2024, 1, 1 + i % 20) for i in range(4000)]
    p.put("a.parquet", {"id": list(range(4000)), "day": days, "name": [f"row {i:0100}" for i in range(4000)]})
    keys: dict[str, Any] = {"key_properties": ["id", "day"], "load_method": "upsert"}
    p.run(target={"partition_by": "day"}, **keys)
    p.put("b.parquet", {"id": [0], "day": [days[0]], "name": ["new"]})
    p.run(target={"partition_by": "day"}, **keys)
    check(p.rows("COUNT(*), COUNTIF(name = 'new')") == [(4000, 1)], "The table has other rows")
    assert isinstance(p.warehouse, BigQuery)
    client = p.warehouse.client
    size = client.get_table(f"{p.warehouse.project}.{p.site.name}.{p.stream}").num_bytes
    jobs = [job for job in client.list_jobs(max_results=200) if job.job_type == "query" and p.stream in job.query]
    merge = next(job for job in jobs if "MERGE" in job.query and (job.labels or {}).get("acceptance") == p.stream)
    p.notes |= {"bytes of the table": size, "bytes processed": merge.total_bytes_processed}
    p.notes["bytes billed by the MERGE"] = merge.total_bytes_billed
    check(merge.total_bytes_processed < size / 4, "The MERGE has read more than a quarter of the table")


@scenario("redshift")
def grants(p: Pipeline) -> None:
    """Grants are given with a new table, and kept by overwrite."""
    whole: dict[str, Any] = {"load_method": "overwrite", "replication_method": "FULL_TABLE"}
    p.put("a.csv", numbered(0, 2))
    for _ in range(2):
        p.run(target={"grants": {"select": ["public"]}}, **whole)
        found = p.warehouse.query(f"SELECT relacl FROM pg_class WHERE relname = '{p.stream}'")
        check("=r/" in str(found), f"The privileges are {found}")


@scenario("redshift")
def keys_of_distribution(p: Pipeline) -> None:
    """New tables have the distribution and sort keys that are set."""
    p.put("a.csv", numbered(0, 2))
    p.run(target={"dist_key": "id", "sort_keys": ["id"]}, load_method="upsert")
    p.run(target={"dist_key": "id", "sort_keys": ["id"]}, load_method="upsert", state=False)
    p.expect(numbered(0, 2))
    p.notes["table"] = p.warehouse.query(
        f"SELECT diststyle, sortkey1 FROM svv_table_info WHERE \"table\" = '{p.stream}'"
    )


@scenario("redshift")
def long_text(p: Pipeline) -> None:
    """With long_text: super, texts beyond VARCHAR are kept whole."""
    p.put("a.csv", f"id,name\n1,{'x' * 70_000}\n")
    p.run(target={"long_text": "super"})
    check(p.columns()["name"] == "super", f"The column is {p.columns()['name']}")


@scenario("redshift")
def csv_uploads(p: Pipeline) -> None:
    """Uploads for COPY may be CSV."""
    p.put("a.csv", numbered(0, 3))
    p.run({"batch_config": None}, target={"load_format": "csv"})
    p.expect(numbered(0, 3))


@scenario("redshift", needs=["copy role"])
def copy_by_a_role(p: Pipeline) -> None:
    """COPY reads S3 by the role of copy_role_arn."""
    p.put("a.csv", numbered(0, 2))
    p.run(target={"copy_role_arn": os.environ["TARGET_REDSHIFT_COPY_ROLE_ARN"]})
    p.expect(numbered(0, 2))


@scenario("redshift", needs=["iam"])
def log_in_by_iam(p: Pipeline) -> None:
    """The target logs in by temporary credentials of IAM."""
    p.put("a.csv", numbered(0, 2))
    p.run()
    p.expect(numbered(0, 2))
