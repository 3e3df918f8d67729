"""`singer-arrow run` with `after_load`: loaded objects are deleted, moved and tagged once their STATE is durable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from forked_programs import ForkedPrograms
from warehouses import Warehouse

from local_cloud import Cloud
from local_cloud.programs import Programs, Ran

pytestmark = pytest.mark.warehouses("redshift")  # it is about what is before the warehouse

STREAMS = ("gone", "moved", "tagged")


@pytest.fixture
def programs(cloud: Cloud, tmp_path: Path) -> Programs:
    env = cloud.environ()
    env.pop("TARGET_BIGQUERY_DATASET")
    return ForkedPrograms(env, tmp_path)


@pytest.fixture
def put(s3: Any, bucket: str) -> Callable[[str, range], None]:
    """Puts a CSV object with these ids."""

    def put(key: str, ids: range) -> None:
        s3.put_object(Bucket=bucket, Key=key, Body="".join(["id\n", *(f"{n}\n" for n in ids)]).encode())

    return put


def write(warehouse: Warehouse, bucket: str, path: Path, **more: Any) -> Path:
    wishes = ({"delete": True}, {"move": f"s3://{bucket}/done"}, {"tag": {"state": "loaded"}})
    streams = [
        {"name": name, "path": f"s3://{bucket}/{name}/*.csv", "after_load": wish}
        for name, wish in zip(STREAMS, wishes, strict=True)
    ]
    batches = {"encoding": {"format": "parquet"}, "storage": {"root": f"s3://{bucket}/stage"}}
    described = {
        "tap": {"name": "tap-s3-files", "config": {"streams": streams, "batch_config": batches}},
        "target": {"name": f"target-{warehouse.name}", "config": warehouse.config},
        "state": f"s3://{bucket}/state.json",
    }
    file = path / "pipeline.yml"
    file.write_text(yaml.safe_dump({name: value for name, value in (described | more).items() if value is not None}))
    return file


def test_loaded_objects_are_cleaned_up_at_the_end(
    programs: Programs,
    s3: Any,
    bucket: str,
    warehouse: Warehouse,
    put: Callable[[str, range], None],
    tmp_path: Path,
) -> None:
    def run(*arguments: str) -> Ran:
        return programs("singer-arrow", "run", file, *arguments)

    def keys() -> list[str]:
        found = s3.list_objects_v2(Bucket=bucket)["Contents"]
        return [o["Key"] for o in found if not o["Key"].startswith(("stage/", "state"))]

    def check(ids: range) -> None:
        for name in STREAMS:
            assert [row["id"] for row in warehouse.table(name)] == list(ids)

    file = write(warehouse, bucket, tmp_path)
    for name in STREAMS:
        put(f"{name}/a.csv", range(10))
    assert run("--dry-run").code == 0
    run().check()
    check(range(10))
    assert keys() == ["done/moved/a.csv", "tagged/a.csv"]
    assert s3.get_object_tagging(Bucket=bucket, Key="tagged/a.csv")["TagSet"] == [{"Key": "state", "Value": "loaded"}]
    run().check()
    for name in STREAMS:
        put(f"{name}/b.csv", range(10, 20))
    run().check()
    check(range(20))
    assert keys() == ["done/moved/a.csv", "done/moved/b.csv", "tagged/a.csv", "tagged/b.csv"]

    # objects that are gone cannot be sent again: nothing is written
    put("gone/c.csv", range(20, 30))
    for arguments in (("--full-refresh",), ("--full-refresh", "--only", "gone")):
        ran = run(*arguments)
        assert ran.code == 1
        assert "after_load may have removed objects" in ran.stderr
        check(range(20))
    run("--only", "gone").check()
    assert [row["id"] for row in warehouse.table("gone")] == list(range(30))
    assert "gone/c.csv" in keys()  # another stream might read it
    run().check()
    assert "gone/c.csv" not in keys()
    assert "done/moved/a.csv" in keys()


def test_a_pipeline_without_a_place_for_state_is_refused(
    programs: Programs, bucket: str, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import singer_arrow

    described = yaml.safe_load(write(warehouse, bucket, tmp_path).read_text())
    described.pop("state")
    monkeypatch.setenv("PATH", programs.env["PATH"])
    with pytest.raises(singer_arrow.errors.ConfigError, match="needs 'state'"):
        singer_arrow.run(described)
