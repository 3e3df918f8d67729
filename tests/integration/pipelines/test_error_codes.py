"""The last line of a failed run ends with its code."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cloud.programs import Programs

SCHEMA = (
    '{"type": "SCHEMA", "stream": "s", "schema": {"properties": {"id": {"type": "integer"}}}, '
    '"key_properties": ["id"]}\n'
)
FILES = {
    "bad.csv": b"a,b\n1,2\n3\n",
    "bad.parquet": b"no parquet",
    "cut.csv.gz": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03K",
    "good.csv": b"a,b\n1,2\n",
}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], "config"),
        (["s3:/bucket/x"], "config"),
        (["{here}/gone.csv"], "not-found"),
        (["s3://no-such-bucket/x.csv"], "not-found"),
        (["{here}/bad.csv"], "bad-row"),
        (["{here}/bad.parquet"], "data"),
        (["{here}/cut.csv.gz"], "truncated"),
        (["{here}/good.csv", "--batch-root", "s3://no-such-bucket/x"], "not-found"),
        (["{here}/good.csv", "--config", "{here}/no.json"], "config"),
    ],
)
def test_errors_of_the_tap(arguments: list[str], code: str, run: Programs, tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    ran = run("tap-s3-files", *(argument.replace("{here}", str(tmp_path)) for argument in arguments))
    assert ran.code == 1
    assert ran.stderr.splitlines()[-1].endswith(f" [{code}]"), ran.stderr


@pytest.mark.parametrize(
    ("target", "messages", "code"),
    [
        ("target-bigquery", "no message\n", "data"),
        ("target-bigquery", '{"type": "RECORD", "stream": "s", "record": {"id": 1}}\n', "no-schema"),
        ("target-redshift", SCHEMA + '{"type": "RECORD", "stream": "s", "record": {}}\n', "missing-key"),
        ("target-redshift", SCHEMA + '{"type": "RECORD", "stream": "s", "record": {"id": "x"}}\n', "data"),
    ],
)
def test_errors_of_the_targets(target: str, messages: str, code: str, run: Programs) -> None:
    ran = run(target, config="ENV", stdin=messages)
    assert ran.code == 1
    assert ran.stderr.splitlines()[-1].endswith(f" [{code}]"), ran.stderr
