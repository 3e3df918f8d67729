"""The files of a COPY: prefixes, manifests, slices, and errors of S3."""

import http.server
import json
import threading
from typing import Any

import pytest

from local_cloud.loopback import LoopbackServer
from local_cloud.redshift.copy import Column, Credentials, RedshiftError, S3Objects, parse
from local_cloud.redshift.copy.sources import File
from local_cloud.redshift.copy.text import delimited as text
from local_cloud.redshift.copy.text.pieces import Load

COLUMNS = [Column("n", "integer")]
PREFIX = "s3://bucket/data/"
MANIFEST = "s3://bucket/manifest"


def _entries(*entries: dict[str, Any]) -> dict[str, bytes]:
    return {MANIFEST: json.dumps({"entries": list(entries)}).encode()}


def test_a_prefix_in_order_without_folders(copied: Any) -> None:
    found = copied("CSV", COLUMNS, b"1\n", b"2\n3\n", b"4", others={f"{PREFIX}folder/": b"", "s3://other/data/1": b"9"})
    assert found.rows == [("1",), ("2",), ("3",), ("4",)]
    assert [(file.url[-1], file.bytes, file.rows, file.slice) for file in found.plan.files] == [
        ("0", 2, 1, 0),
        ("1", 4, 2, 1),
        ("2", 1, 1, 0),
    ]


@pytest.mark.parametrize(("slices", "expected"), [(1, [0, 0, 0]), (2, [0, 1, 0]), (4, [0, 1, 2])])
def test_slices_take_turns(copied: Any, slices: int, expected: list[int]) -> None:
    found = copied("CSV", COLUMNS, b"1\n", b"2\n", b"3\n", slices=slices)
    assert [file.slice for file in found.plan.files] == expected


def test_an_empty_prefix(copied: Any) -> None:
    with pytest.raises(RedshiftError, match="The specified S3 prefix 'data/' does not exist"):
        copied("CSV", COLUMNS)


def test_a_manifest_lists_the_files(copied: Any) -> None:
    listed = _entries({"url": f"{PREFIX}1", "mandatory": True}, {"url": f"{PREFIX}7"}, {"url": f"{PREFIX}0"})
    found = copied("CSV MANIFEST", COLUMNS, b"1", b"2", b"3", others=listed, source=MANIFEST)
    assert found.rows == [("2",), ("1",)]


@pytest.mark.parametrize(
    ("manifest", "options", "message"),
    [
        ({}, "CSV", "The specified key does not exist"),
        ({MANIFEST: b"{"}, "CSV", "Invalid manifest file"),
        ({MANIFEST: b"[]"}, "CSV", "Invalid manifest file"),
        (_entries({"url": "https://x/y"}), "CSV", "Invalid manifest file"),
        (_entries({"url": "s3://bucket"}), "CSV", "Invalid manifest file"),
        (_entries(), "CSV", "No files were found"),
        (_entries({"url": f"{PREFIX}9"}), "CSV", "No files were found"),
        (_entries({"url": f"{PREFIX}9", "mandatory": True}), "CSV", "Error NoSuchKey"),
        (_entries({"url": f"{PREFIX}0"}), "FORMAT PARQUET", "File entry does not have 'meta' key"),
        (_entries({"url": f"{PREFIX}0", "meta": {}}), "FORMAT PARQUET", "File entry does not have 'meta' key"),
        (_entries({"url": f"{PREFIX}0", "meta": {"content_length": 2}}), "FORMAT PARQUET", "InvalidRange"),
        (_entries({"url": f"{PREFIX}0", "meta": {"content_length": 2}}), "CSV", "InvalidRange"),
    ],
)
def test_wrong_manifests(copied: Any, manifest: dict[str, bytes], options: str, message: str) -> None:
    with pytest.raises(RedshiftError, match=message):
        copied(f"{options} MANIFEST", COLUMNS, b"1", others=manifest, source=MANIFEST)


def test_all_files_are_checked_before_the_first_is_read(copied: Any) -> None:
    listed = _entries({"url": f"{PREFIX}0"}, {"url": f"{PREFIX}9", "mandatory": True})
    with pytest.raises(RedshiftError, match="NoSuchKey"):
        copied("CSV MANIFEST", COLUMNS, b"1", others=listed, source=MANIFEST)


def test_columns_must_exist(copied: Any) -> None:
    with pytest.raises(RedshiftError, match='column "x" of relation "t" does not exist') as caught:
        copied("CSV", COLUMNS, b"1", names="(n, x)")
    assert caught.value.code == "42703"


def test_identity_columns_are_left_out(copied: Any) -> None:
    columns = [Column("id", "bigint", identity=True), *COLUMNS]
    assert copied("CSV", columns, b"1").plan.names == ("n",)
    assert copied("CSV EXPLICIT_IDS", columns, b"7,1").rows == [("7", "1")]
    with pytest.raises(RedshiftError, match="identity column"):
        copied("CSV", columns, b"7,1", names="(id, n)")


def test_noload_checks_and_loads_nothing(copied: Any) -> None:
    found = copied("CSV NOLOAD MAXERROR 5", COLUMNS, b"1\nx\n")
    assert found.rows == []
    assert found.plan.rows == 0
    assert found.reasons == [(2, "n", 1207)]


def test_a_role_that_may_not_read() -> None:
    role = Credentials(roles=("arn:aws:iam::123456789012:role/a", "arn:aws:iam::123456789012:role/b-denied"))
    reach = S3Objects(role, None, {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"})
    with pytest.raises(RedshiftError, match="Access Denied,Status 403,Error AccessDenied"):
        reach.size("s3://bucket/key")


def test_an_s3_that_does_not_answer() -> None:
    reach = S3Objects(Credentials((), "key", "secret-text"), None, {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"})
    with pytest.raises(RedshiftError, match="S3CurlException") as caught:
        list(reach.listed("s3://bucket/key"))
    assert "secret-text" not in caught.value.message + caught.value.detail


def test_an_object_that_breaks_off() -> None:
    class Breaking(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if "location" in self.path:
                body = b"<LocationConstraint>us-east-1</LocationConstraint>"
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                return
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"1,a")

        def log_message(self, *_: object) -> None:
            pass

    with LoopbackServer(Breaking) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environ = {"AWS_ENDPOINT_URL": server.url}
        reach = S3Objects(Credentials((), "key", "secret"), None, environ)
        with reach.opened("s3://bucket/key") as stream, pytest.raises(RedshiftError, match="S3CurlException"):
            stream.read()
        command = parse("COPY t FROM 's3://bucket/key' ACCESS_KEY_ID 'k' SECRET_ACCESS_KEY 's' CSV")
        load = Load(command, (Column("n", "integer"), Column("s", "varchar", 9)), reach, [].append)
        with pytest.raises(RedshiftError, match="S3CurlException"):
            list(text.pieces(load, File("s3://bucket/key", 100)))
        server.shutdown()
