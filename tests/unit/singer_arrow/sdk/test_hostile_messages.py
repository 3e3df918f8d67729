"""A target accepts any message of a tap or ends with one line that names the input line."""

from __future__ import annotations

import io
import itertools
import json
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from recording_target import RecordingTarget
from small_aws import BUCKET, SmallAws

from singer_arrow.batch.files import read_file
from singer_arrow.batch.message import Batch
from singer_arrow.errors import DataError, SingerArrowError
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.store import Storage

COLUMNS = {"id": {"type": "integer"}, "at": {"type": ["string", "null"], "format": "date-time"}}
SCHEMA = {
    "type": "SCHEMA",
    "stream": "s",
    "schema": {"type": "object", "properties": COLUMNS},
    "key_properties": ["id"],
}
RECORD = {"type": "RECORD", "stream": "s", "record": {"id": 1, "at": "2026-01-01T00:00:00Z"}, "version": 1}
BATCH = {
    "type": "BATCH",
    "stream": "s",
    "encoding": {"format": "jsonl", "compression": "gzip"},
    "manifest": ["file:///bucket/1.jsonl.gz"],
    "batch_id": "3f9c",
    "row_count": 1,
    "byte_count": 3,
    "version": 1,
}
MESSAGES: list[dict[str, Any]] = [
    *(SCHEMA, RECORD, BATCH),
    {"type": "ACTIVATE_VERSION", "stream": "s", "version": 1},
    {"type": "STATE", "value": {"n": 1}},
]
HOSTILE_URLS = [
    *(
        "s3://",
        "s3:///k",
        "s3://b",
        "s3://b k/k",
        "s3://b\n/k",
        "s3://b\0/k",
        "s3://../k",
        "s3://b%2f/k",
        "s3://\ud800/k",
    ),
    *("s3://b/\ud800", "gs://b\0/k", "http://[::1", "http://", "gopher://x/y", "file:///a\0b", "~missing-here/x"),
    *("javascript:alert(1)", "data:,x", "..", "/" + "n" * 5000, "s3://" + "b" * 300 + "/k", "http://h:port/x"),
]
CONFIGS: list[dict[str, Any]] = [
    *({}, {"validate_records": False}, {"add_record_metadata": True}, {"load_method": "upsert"}),
    {"flattening_enabled": True, "flattening_max_depth": 2},
    {"manifest_roots": ["file:///bucket"]},
]
WORDS = ["type", "properties", "items", "anyOf", "format", "$ref", "multipleOf", "pattern", "string", "object", "array"]
TEXTS = st.sampled_from([*HOSTILE_URLS, *WORDS, "", "s", "\0", "\ud800", "x" * 300, "1e999"]) | st.text(max_size=5)
NUMBERS = st.sampled_from([0, -1, 1.5, 2**63, -(2**70), 10**400, True, False, None])
JUNK = st.recursive(
    TEXTS | NUMBERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=6,
)
GONE = object()


def listen(data: bytes, config: Mapping[str, Any]) -> str | None:
    """Return the error of a target that ends before the end of the input; fail if it is not one line."""
    target, reported = RecordingTarget(config=dict(config)), None
    try:
        target.listen(io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
    except SingerArrowError as error:
        reported = error
        try:
            target.run.abandon(error)
        except SingerArrowError as earlier:
            reported = earlier
    finally:
        target.run.close()
    if reported is None:
        return None
    text = str(reported)
    assert "\n" not in text
    assert len(text) < 2000
    number = re.search(r"[Ll]ine (\d+) of the input", text)
    assert number, text
    assert 1 <= int(number[1]) <= data.count(b"\n") + 1
    return text


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield every place in a message."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key)
        yield from paths(each, (*path, key))


def with_at(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return a message with another value, or none, at a place."""
    key, *rest = path
    changed = dict(value) if isinstance(value, dict) else list(value)
    if rest:
        changed[key] = with_at(changed[key], tuple(rest), new)
    elif new is GONE:
        del changed[key]
    else:
        changed[key] = new
    return changed


PLACES = [(n, path) for n, message in enumerate(MESSAGES) for path in paths(message)]


@pytest.fixture(scope="module", autouse=True)
def silent() -> Iterator[None]:
    """Suppress the targets' logs."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def encoded(messages: list[Any], config: Mapping[str, Any] | None = None) -> bytes:
    """Return the messages as lines of a tap; without BATCH where flattening would read its files."""
    if config and "flattening_enabled" in config:
        messages = [m for m in messages if m.get("type") != "BATCH"]
    return "".join(json.dumps(m) + "\n" for m in messages).encode()


@given(st.sampled_from(PLACES), JUNK, st.sampled_from(CONFIGS))
@example((0, ("key_properties", 0)), "k" * 5000, {})
@example((4, ("value",)), "text", {})
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_value_anywhere(place: tuple[int, tuple[Any, ...]], junk: Any, config: dict[str, Any]) -> None:
    number, path = place
    changed = with_at(MESSAGES[number], path, junk)
    listen(encoded([*MESSAGES[:number], changed, *MESSAGES[number + 1 :]], config), config)


@given(JUNK, st.sampled_from(sorted(COLUMNS)), TEXTS, st.sampled_from(CONFIGS))
@settings(max_examples=settings.default.max_examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_schema_of_a_property(junk: Any, column: str, name: str, config: dict[str, Any]) -> None:
    for changed in (
        with_at(SCHEMA, ("schema", "properties", column, name), junk),
        with_at(SCHEMA, ("schema", "properties", name), junk),
    ):
        listen(encoded([changed, *MESSAGES[1:]], config), config)


@given(st.binary(max_size=40), st.integers(0, 5), st.sampled_from([b"", b"\n"]))
@settings(max_examples=settings.default.max_examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_bytes(junk: bytes, place: int, end: bytes) -> None:
    lines = [*encoded(MESSAGES).splitlines(keepends=True)]
    listen(b"".join([*lines[:place], junk + end, *lines[place:]]), {})


@pytest.mark.parametrize("lacking", ["type", "record"])
def test_a_long_name_of_a_stream_is_shortened_in_errors(lacking: str) -> None:
    reported = listen(encoded([MESSAGES[0], with_at(RECORD | {"stream": "n" * 5000}, (lacking,), GONE)]), {})
    assert reported is not None
    assert "nnn... (5002 characters)" in reported


def test_a_long_value_is_shortened_in_errors() -> None:
    reported = listen(encoded([MESSAGES[0], with_at(MESSAGES[1], ("record", "at"), "/" + "n" * 5000)]), {})
    assert reported is not None
    assert "(5003 characters) is no date-time. Correct it" in reported


@pytest.mark.full
def test_any_text_may_be_long() -> None:
    for (number, path), length in itertools.product(PLACES, [300, 1000, 5000]):
        listen(
            encoded([*MESSAGES[:number], with_at(MESSAGES[number], path, "n" * length), *MESSAGES[number + 1 :]]), {}
        )


def test_every_key_may_be_missing() -> None:
    for number, path in PLACES:
        listen(encoded([*MESSAGES[:number], with_at(MESSAGES[number], path, GONE), *MESSAGES[number + 1 :]]), {})


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"[" * 100_000, "is no JSON"),
        (b'{"type": "RECORD", "stream": "\\ud800", "record": {}}', "is no Unicode"),
        (b'{"type": "RECORD", "stream": "", "record": {}}', "must have 1 to 1,000 characters"),
        (json.dumps(SCHEMA | {"stream": "n" * 1001}).encode(), "must have 1 to 1,000 characters"),
        (b'{"type": "ACTIVATE_VERSION", "stream": "s", "version": "1"}', "'version' must be an integer"),
        (json.dumps(BATCH | {"manifest": ["s3://b\n/k"]}).encode(), "has a bucket that cannot exist"),
        (json.dumps(BATCH | {"manifest": ["gopher://x/y"]}).encode(), "has the scheme 'gopher'"),
        (json.dumps(BATCH | {"manifest": ["/a\0b"]}).encode(), "is not the URL of a file"),
        (json.dumps(BATCH | {"batch_id": "\ud800"}).encode(), "'batch_id' must be text without NUL"),
        (json.dumps(BATCH | {"row_count": -1}).encode(), "'row_count' must be an integer from 0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_errors_of_lines(line: bytes, words: str) -> None:
    reported = listen(encoded([SCHEMA]) + line + b"\n", {})
    assert reported is not None
    assert reported.startswith("Line 2 of the input")
    assert words in reported


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"id": {"type": 5}}, "'type' of property 'id' must be text or a list of texts, it is an integer"),
        ({"id": {"type": "object", "properties": []}}, "'properties' of property 'id' must be an object"),
        ({"id": {"anyOf": {}}}, "'anyOf' of property 'id' must be a list, it is an object"),
        ({"a": {"properties": {"b": {"format": []}}}}, "'format' of property 'a.b' must be text"),
        ({"\ud800": {}}, "is no Unicode"),
    ],
)
@pytest.mark.parametrize("config", [{}, {"validate_records": False}], ids=["checked", "unchecked"])
def test_errors_of_schemas(changes: dict[str, Any], words: str, config: dict[str, Any]) -> None:
    reported = listen(encoded([with_at(SCHEMA, ("schema", "properties"), {**COLUMNS, **changes})]), config)
    assert reported is not None
    assert reported.startswith("Line 1 of the input, a SCHEMA of stream 's': ")
    assert words in reported


def test_what_the_sdk_cannot_flatten() -> None:
    config = {"flattening_enabled": True, "flattening_max_depth": 2}
    for property_ in (True, {"oneOf": [True]}):
        reported = listen(encoded([with_at(SCHEMA, ("schema", "properties", "more"), property_)]), config)
        assert reported is not None
        assert "Line 1 of the input, a SCHEMA of stream 's': SCHEMA of stream 's' cannot be flattened" in reported
    clash = {"o__a": {"type": "string"}, "o": {"type": "object", "properties": {"a": {"type": "string"}}}}
    reported = listen(encoded([with_at(SCHEMA, ("schema", "properties"), {**COLUMNS, **clash})]), config)
    assert reported is not None
    assert "it has a property 'o__a', and members that become one of this name; rename one of them" in reported


def test_a_manifest_outside_of_its_roots(capsys: pytest.CaptureFixture[str]) -> None:
    first, last = {"type": "STATE", "value": {"n": 1}}, {"type": "STATE", "value": {"n": 2}}
    wrong = {**BATCH, "manifest": ["s3://bucket/ab/1", "s3://bucket/abc/2"], "batch_id": "2"}
    messages = [SCHEMA, {**BATCH, "manifest": ["s3a://bucket/ab/1"]}, first, wrong, last]
    reported = listen(encoded(messages), {"manifest_roots": ["s3://bucket/ab"]})
    assert reported == (
        "Line 4 of the input, a BATCH of stream 's': 's3://bucket/abc/2' in the manifest of stream 's' is outside of "
        "manifest_roots (s3://bucket/ab). Add its folder there if the tap may write to it"
    )
    assert capsys.readouterr().out == '{"n":1}\n'
    assert listen(encoded(messages), {}) is None


@pytest.mark.full
def test_files_of_hostile_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message whose manifest lists something other than a batch file ends with one line too."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    (tmp_path / "text").write_text("neither\n")
    (tmp_path / "zip").write_bytes(b"PK\3\4" + b"\0" * 40)
    (tmp_path / "gzip").write_bytes(b"\x1f\x8b\x08" + b"\0" * 40)
    odd = [f"s3://{BUCKET}/{key}" for key in ("a/../b", "//", "\n", "\x01", "k" * 2000, "none", "%2e%2e/x", "a?b#c")]
    local = [str(tmp_path), *(str(tmp_path / name) for name in ("text", "zip", "gzip", "none", "n" * 300))]
    with SmallAws({"x": b"{}"}) as server:
        storage = Storage(AwsOptions(endpoint_url=server.url, region="us-east-1"))
        for url, kind in itertools.product([*HOSTILE_URLS, *odd, *local], ("jsonl", "parquet")):
            try:
                Batch.from_message({**BATCH, "manifest": [url]})
            except DataError:
                continue
            if url.startswith(("s3://..", "http")):
                continue  # they would be asked for over the network
            with pytest.raises(SingerArrowError) as caught:
                list(read_file(storage, url, format=kind, schema=pa.schema([("id", pa.int64())])))
            assert "\n" not in str(caught.value)
