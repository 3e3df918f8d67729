"""`init` writes settings that run, with what a sample shows as comments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from singer_arrow.errors import ConfigError, NotFoundError
from singer_arrow.sdk.settings import object_file
from tap_s3_files.init import find_keys, write_config
from tap_s3_files.settings import Settings


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def init(folder: Path, url: str | Path, **options: Any) -> str:
    given: dict[str, Any] = {"output": folder / "written.yml", "kind": "config", "batch_root": None, **options}
    write_config([str(url)], {}, **given)
    text: str = given["output"].read_text()
    return text


def uncommented(text: str, setting: str) -> dict[str, Any]:
    """Return the settings after the `# ` of a suggestion is removed."""
    assert f"    # {setting}" in text
    lines = text.replace(f"    # {setting}", f"    {setting}")
    if setting == "schema:":
        lines = lines.replace("    #   ", "      ")
    parsed: dict[str, Any] = yaml.safe_load(lines)
    Settings.from_config(parsed)
    return parsed


ORDERS = "order_id,price,zip,day,note,amount\n" + "".join(
    f"{n},{n}.25,1000{n % 10},{n % 28 + 1:02}/11/2025,,{n or 'n/a'}\n" for n in range(30)
)


def test_a_folder_becomes_settings_that_are_valid(tmp_path: Path) -> None:
    data = write(tmp_path / "data", orders__2024__a_DOT_csv=ORDERS, items__b_DOT_jsonl='{"id": 1}\n{"id": 2}\n')
    text = init(tmp_path, data)
    config = object_file(str(tmp_path / "written.yml"), "config")
    assert config["streams"] == [
        {"name": "items", "path": f"file://{data}/items/*.jsonl", "format": "jsonl", "key_properties": ["id"]},
        {"name": "orders", "path": f"file://{data}/orders/[0-9]*/*.csv", "format": "csv",
         "key_properties": ["order_id"]},
    ]  # fmt: skip
    Settings.from_config(config)
    assert "order_id integer, price number, zip integer, day string, note string, amount string" in text


def test_files_that_seem_to_have_no_header_get_the_setting(tmp_path: Path) -> None:
    text = init(tmp_path, write(tmp_path / "data", a_DOT_csv="1,Ann,2024-01-31\n2,Ben,2024-02-29\n"))
    assert "# csv: {header: false}  # the first line looks like a row: 1, Ann, 2024-01-31" in text
    (stream,) = uncommented(text, "csv:")["streams"]
    assert stream["csv"] == {"header": False}


def test_suggestions_are_settings_as_they_are(tmp_path: Path) -> None:
    text = init(tmp_path, write(tmp_path / "data", orders__a_DOT_csv=ORDERS))
    (stream,) = uncommented(text, "date_formats:")["streams"]
    assert stream["date_formats"] == ["%d/%m/%Y"]
    (stream,) = uncommented(text, "csv:")["streams"]
    assert stream["csv"] == {"null_values": ["", "n/a"]}
    (stream,) = uncommented(text, "schema:")["streams"]
    assert stream["schema"] == {"price": "decimal(18,2)", "zip": "string", "note": "string"}


def test_partitions_become_columns(tmp_path: Path) -> None:
    (tmp_path / "t" / "day=2024-01-01").mkdir(parents=True)
    pq.write_table(pa.table({"a": [1.5]}), tmp_path / "t" / "day=2024-01-01" / "x.parquet")
    text = init(tmp_path, tmp_path / "t")
    (stream,) = yaml.safe_load(text)["streams"]
    assert stream["partition_columns"] is True
    assert "a number, day date" in text
    assert "schema:" not in text, "the types of Parquet are known"


def test_names_with_other_columns_are_streams_of_their_own(tmp_path: Path) -> None:
    same = write(tmp_path / "same", a_DOT_csv="x\n1\n", b_DOT_csv="x\n2\n")
    other = write(tmp_path / "other", a_DOT_csv="x\n1\n", b_DOT_csv="y\n2\n")
    assert len(yaml.safe_load(init(tmp_path, same))["streams"]) == 1
    written = init(tmp_path, other, output=tmp_path / "2.yml")
    assert [s["name"] for s in yaml.safe_load(written)["streams"]] == ["a", "b"]


def test_folders_that_are_alike_are_one_stream_with_a_placeholder(tmp_path: Path) -> None:
    files = {
        f"tenants__{tenant}__{kind}__a_DOT_csv": f"{kind}_id,name\n1,a\n2,b\n"
        for tenant in ("acme", "globex", "initech")
        for kind in ("customers", "orders")
    }
    data = write(tmp_path / "data", **files, shops__a__b_DOT_csv="x\n1\n", shops__c__d_DOT_csv="x\n2\n")
    text = init(tmp_path, data)
    streams = yaml.safe_load(text)["streams"]
    Settings.from_config({"streams": streams})
    assert [(s["name"], s["path"].removeprefix(f"file://{data}"), s.get("key_properties")) for s in streams] == [
        ("a", "/shops/a/*.csv", None),
        ("c", "/shops/c/*.csv", None),
        ("{tenant}_customers", "/tenants/{tenant}/customers/*.csv", ["customers_id"]),
        ("{tenant}_orders", "/tenants/{tenant}/orders/*.csv", ["orders_id"]),
    ]
    assert "3 objects" in text
    one = write(tmp_path / "one", **{f"{name}__a_DOT_csv": "x\n1\n" for name in ("p", "q", "r")})
    (stream,) = yaml.safe_load(init(tmp_path, one, output=tmp_path / "2.yml"))["streams"]
    assert (stream["name"], stream["path"]) == ("{one}", f"file://{one}/{{one}}/*.csv")


def test_batch_files_of_the_tap_are_no_stream(tmp_path: Path) -> None:
    own = f"batches/orders/orders--{'0' * 32}-0-0.parquet"
    data = write(tmp_path / "data", orders__a_DOT_csv="x\n1\n", batches___plans__orders__0_DOT_jsonl="{}")
    (data / own).parent.mkdir(parents=True)
    pq.write_table(pa.table({"x": [1]}), data / own)
    text = init(tmp_path, data, batch_root=f"file://{data}/batches")
    assert [s["name"] for s in yaml.safe_load(text)["streams"]] == ["orders"]


def test_a_path_with_wildcards_is_kept(tmp_path: Path) -> None:
    data = write(tmp_path / "data", a__x_DOT_csv="x\n1\n", b__y_DOT_csv="x\n2\n")
    (stream,) = yaml.safe_load(init(tmp_path, f"{data}/**/*.csv"))["streams"]
    assert stream["path"] == f"file://{data}/**/*.csv"


def test_what_cannot_be_read_is_a_comment(tmp_path: Path) -> None:
    data = write(tmp_path / "data", good__x_DOT_csv="x\n1\n", bad__y_DOT_parquet="no parquet", z_DOT_unknown="?")
    text = init(tmp_path, data, batch_root="s3://stage/batches")
    parsed = yaml.safe_load(text)
    assert [s["name"] for s in parsed["streams"]] == ["good"]
    assert parsed["batch_config"]["storage"]["root"] == "s3://stage/batches"
    assert "# Left out: " in text
    assert "names imply no format, 1 object: " in text


def test_nothing_is_overwritten_and_nothing_is_written_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "written.yml").write_text("mine")
    with pytest.raises(ConfigError, match=r"written\.yml exists already; remove it, or name another"):
        init(tmp_path, tmp_path)
    assert (tmp_path / "written.yml").read_text() == "mine"
    with pytest.raises(NotFoundError, match="no stream was found: there are no objects"):
        init(tmp_path, write(tmp_path / "none", _SUCCESS=""), output=tmp_path / "2.yml")
    with pytest.raises(NotFoundError, match="no object can be read"):
        init(tmp_path, write(tmp_path / "bad", y_DOT_parquet="no parquet"), output=tmp_path / "2.yml")
    with pytest.raises(ConfigError, match="cannot be written: No such file"):
        init(tmp_path, write(tmp_path / "x", y_DOT_csv="a\n1\n"), output=tmp_path / "no" / "2.yml")
    assert not (tmp_path / "2.yml").exists()


def test_keys_are_unique_and_never_null() -> None:
    rows = pa.table({"order_id": [1, 1, 2], "line_no": [1, 2, 1], "email": ["a", "b", "c"], "id": [1, 2, None]})
    assert find_keys(rows) == (("order_id", "line_no"), ("email",))
    assert find_keys(rows.append_column("order_key", pa.array([7, 8, 9]))) == (("order_key",), ("email",))
    assert find_keys(rows.slice(0, 1)) == ((), ())
    assert find_keys(pa.table({"id": [1, 1]})) == ((), ())


def test_a_folder_with_a_log_is_a_table(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        deltalake.write_deltalake(str(tmp_path / "lake" / name), pa.table({"id": [1, 2], "x": ["p", "q"]}))
    write(tmp_path / "lake", d__a_DOT_csv=ORDERS)
    text = init(tmp_path, tmp_path / "lake")
    streams = object_file(str(tmp_path / "written.yml"), "config")["streams"]
    assert [(s["name"], s["path"], s["format"]) for s in streams] == [
        *((name, f"file://{tmp_path}/lake/{name}", "delta") for name in ("a", "b", "c")),
        ("d", f"file://{tmp_path}/lake/d/*.csv", "csv"),
    ]
    assert "Columns, from 2 rows of 1 object: id integer, x string" in text
