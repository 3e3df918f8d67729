"""Objects that are encrypted by OpenPGP, from the bucket into a table; their keys appear nowhere."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
import yaml
from documented import ROOT, block
from forked_programs import ForkedPrograms
from program_errors import check_contains, error_of
from pysequoia import Tsk, encrypt
from tap_source import TapBucket
from warehouses import Warehouse

from local_cloud import Cloud
from local_cloud.programs import Ran

pytestmark = pytest.mark.warehouses("bigquery")  # it is about what is before the warehouse

KEY = Tsk.generate(user_id="Orders <orders@example.com>")


class Vault(TapBucket):
    """A bucket with encrypted objects, and a pipeline that loads them."""

    folder: Path
    warehouse: Warehouse

    def encrypted(self, name: str, *ids: int, keep: int | None = None) -> None:
        data = gzip.compress("id,name\n{}".format("".join(f"{n},row {n}\n" for n in ids)).encode())
        self.put(f"in/{name}", encrypt(data, recipients=[KEY.extract_certificate()], armor=False)[:keep])

    def config(self, **decryption: str) -> dict[str, Any]:
        stream = {"name": "rows", "path": f"s3://{self.bucket}/in/*", "decryption": decryption or None}
        storage = {"encoding": {"format": "parquet"}, "storage": {"root": f"s3://{self.bucket}/stage"}}
        return {"streams": [stream], "batch_config": storage}

    def run(self, **decryption: str) -> Ran:
        path, target = self.folder / "pipeline.yml", {"name": self.warehouse.program, "config": self.warehouse.config}
        tap = {"name": "tap-s3-files", "config": self.config(**decryption)}
        path.write_text(yaml.safe_dump({"tap": tap, "target": target, "state": str(self.folder / "state.json")}))
        return self.tap("singer-arrow", "run", path)

    @property
    def ids(self) -> list[int]:
        return [row["id"] for row in self.warehouse.table("rows")]


@pytest.fixture
def vault(s3: Any, bucket: str, cloud: Cloud, warehouse: Warehouse, tmp_path: Path) -> Vault:
    env = cloud.environ() | {"PGP_KEY": str(KEY), "PGP_PASSPHRASE": "of another key"}
    env.pop("TARGET_BIGQUERY_DATASET")
    made = Vault(s3, bucket, ForkedPrograms(env, tmp_path))
    made.folder, made.warehouse = tmp_path, warehouse
    made.encrypted("a.csv.gz.gpg", 1, 2)
    return made


def test_a_table_of_encrypted_objects_from_run_to_run(vault: Vault) -> None:
    shown = vault.tap("tap-s3-files", "--preview", config=vault.config(key="${PGP_KEY}")).check()
    check_contains(shown.stdout, "row 1")
    ran = vault.run(key="${PGP_KEY}").check()
    assert vault.ids == [1, 2]

    # The key is in a file from now on, and a file is not encrypted
    (vault.folder / "key.asc").write_text(str(KEY))
    vault.encrypted("b.csv.gz.gpg", 3)
    vault.put("in/c.csv", "id,name\n4,row 4\n")
    ran = vault.run(key_file=str(vault.folder / "key.asc")).check()
    assert vault.ids == [1, 2, 3, 4]
    assert "have changed" not in ran.stderr

    # One that was cut off ends the run, without a row of it
    vault.encrypted("d.csv.gz.gpg", *range(5, 5000), keep=-1)
    ran = vault.run(key="${PGP_KEY}")
    assert ran.code == 1
    check_contains(ran.stderr.splitlines()[-1], f"s3://{vault.bucket}/in/d.csv.gz.gpg: it is truncated, altered or not")
    assert vault.ids == [1, 2, 3, 4]
    vault.encrypted("d.csv.gz.gpg", 5)
    vault.run(key="${PGP_KEY}").check()
    assert vault.ids == [1, 2, 3, 4, 5]


def test_the_documented_settings(vault: Vault) -> None:
    documented = yaml.safe_load(block((ROOT / "docs/reading-files.md").read_text(), "yaml", after="## OpenPGP"))
    documented["streams"][0]["path"] = f"s3://{vault.bucket}/in/*.csv.gz.gpg"
    check_contains(vault.tap("tap-s3-files", "--preview", config=documented).check().stdout, "row 1")


def test_keys_are_in_no_message_log_or_plan(vault: Vault) -> None:
    vault.tap.env["LOG_LEVEL"] = "debug"
    secret = str(KEY).splitlines()[8]
    sent = vault.tap("tap-s3-files", config=vault.config(key="${PGP_KEY}", passphrase="hidden phrase")).check()
    refused = vault.tap("tap-s3-files", config={**vault.config(key="${PGP_KEY}"), "passthrough": "x" + secret})
    stored = [
        vault.s3.get_object(Bucket=vault.bucket, Key=o["Key"])["Body"].read()
        for o in vault.s3.list_objects_v2(Bucket=vault.bucket)["Contents"]
    ]
    assert any(b"rows_identity" in data or b"settings" in data for data in stored)
    for text in (sent.stdout, sent.stderr, refused.stderr, *(data.decode(errors="replace") for data in stored)):
        assert secret not in text
        assert "hidden phrase" not in text
    assert '"id"' in sent.stdout


def test_what_is_missing_is_one_line(vault: Vault) -> None:
    line = error_of(vault.tap("tap-s3-files", config=vault.config()))
    check_contains(line, f"s3://{vault.bucket}/in/a.csv.gz.gpg is encrypted; set decryption.key_file")
    other = {"key": str(Tsk.generate(user_id="Other <o@example.com>"))}
    line = error_of(vault.tap("tap-s3-files", config=vault.config(**other)))
    check_contains(line, "in/a.csv.gz.gpg: it is encrypted for other keys than those of the setting decryption")
    dask = {**vault.config(key="k"), "executor": "dask", "dask_scheduler": "tcp://127.0.0.1:1"}
    check_contains(error_of(vault.tap("tap-s3-files", config=dask)), "'rows' has decryption, or a hash in columns")
