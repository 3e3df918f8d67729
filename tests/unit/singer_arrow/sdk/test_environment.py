"""Settings in environment variables, and the precedence of `--config` files."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from singer_arrow.errors import ConfigError
from singer_arrow.sdk.settings import from_environment
from tap_s3_files.tap import TapS3Files

PREFIX = "TAP_X_"
SCHEMA = {
    "properties": {
        "workers": {"type": "integer"},
        "size": {"type": ["number", "null"]},
        "names": {"type": "array"},
        "any": {"type": ["string", "number", "boolean"]},
        "by-stream": {"type": ["boolean", "object"]},
        "storage": {"type": "object", "properties": {"root": {"type": "string"}, "inner": {"properties": {"a": {}}}}},
        "storage_root": {"type": "string"},
        "other": {"type": "object", "properties": {"flag": {"type": "boolean"}}},
    }
}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"WORKERS": "3", "SIZE": "0.5", "NAMES": "a,b"}, {"workers": 3, "size": 0.5, "names": ["a", "b"]}),
        ({"ANY": "1"}, {"any": "1"}),
        ({"BY_STREAM": '{"a": true}'}, {"by-stream": {"a": True}}),
        ({"OTHER_FLAG": "yes"}, {"other": {"flag": True}}),
        ({"OTHER_FLAG": "no", "OTHER": '{"flag": true, "b": 1}'}, {"other": {"flag": False, "b": 1}}),
        ({"STORAGE_INNER_A": "x"}, {"storage": {"inner": {"a": "x"}}}),
        ({"STORAGE_ROOT": "/r"}, {"storage_root": "/r"}),
        ({"_SELECT": "[]", "LOGLEVEL": "debug"}, {}),
    ],
)
def test_a_variable_gives_a_setting_or_a_member_of_one(environ: dict[str, str], expected: dict[str, Any]) -> None:
    given = {f"{PREFIX}{name}": value for name, value in environ.items()}
    assert from_environment({**given, "PATH": "/bin", "TAP_Y_Z": "1"}, PREFIX, SCHEMA) == expected


@pytest.mark.parametrize(("name", "hint"), [("WORKER", "did you mean 'WORKERS'"), ("ZZZZ", "unset it, or see --about")])
def test_a_variable_that_names_no_setting_is_an_error_without_its_value(name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=f"TAP_X_{name} names no setting; {hint}") as caught:
        from_environment({f"{PREFIX}{name}": "s3cret"}, PREFIX, SCHEMA)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(("order", "expected"), [(["ENV", "file"], 7), (["file", "ENV"], 3), (["file", "file"], 7)])
def test_what_is_named_later_replaces_what_is_named_before(
    order: list[str],
    expected: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("TAP_S3_FILES_MAX_WORKERS", "3")
    monkeypatch.setenv("TAP_S3_FILES_BATCH_CONFIG_STORAGE_ROOT", "/batches")
    file = tmp_path / "t.json"
    file.write_text(json.dumps({"max_workers": 7, "streams": []}))
    with caplog.at_level(logging.WARNING, "tap-s3-files"):
        found = TapS3Files.cb_config(None, None, tuple(str(file) if s == "file" else s for s in order))  # type: ignore[arg-type]
    assert found.config["max_workers"] == expected
    assert not found.parse_env
    hidden = [r.getMessage() for r in caplog.records if "max_workers" in r.getMessage()]
    environment, other = "the environment", f"--config {file}"
    texts = {
        ("file", "ENV"): [f"Setting 'max_workers': {environment} replaces the value of {other}"],
    }
    assert hidden == texts.get((order[0], order[1]), [])
    if "ENV" in order:
        assert found.config["batch_config"] == {"storage": {"root": "/batches"}}


def test_no_line_says_that_the_environment_was_not_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """We have read it for `--config=ENV`, so the SDK's line would not be true."""
    (tmp_path / "a.csv").write_text("id\n1\n")
    with caplog.at_level(logging.INFO):
        TapS3Files(config={"streams": [{"name": "s", "path": f"{tmp_path}/*.csv"}]}, parse_env_config=False)
    assert "env var" not in caplog.text
