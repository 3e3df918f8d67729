"""The services of the local cloud behave as their clients expect."""

from typing import Any


def test_an_object_and_a_table(s3: Any, bucket: str, bq: Any, dataset: str) -> None:
    s3.put_object(Bucket=bucket, Key="a", Body=b"x")
    assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"x"
    bq.create_dataset(dataset)
    bq.query(f"CREATE TABLE {dataset}.t (a INT64)").result()
    bq.query(f"INSERT {dataset}.t (a) VALUES (1), (2)").result()
    assert bq.get_table(f"{dataset}.t").num_rows == 2
