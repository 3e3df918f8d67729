"""Error messages are one line, without the secrets of a URL; errors survive pickle."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import pyarrow as pa
import pytest

import singer_arrow
import tap_s3_files
from singer_arrow.errors import (
    DataError,
    DriftError,
    FailedStreamsError,
    NotFoundError,
    SingerArrowError,
    UnfinishedStreamError,
)
from singer_arrow.storage.urls import Url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://u:PW@h/x.parquet", "https://***@h/x.parquet"),
        ("sftp://u:P@PW@h:22/x", "sftp://***@h:22/x"),
        ("az://c/x?sv=1&sig=PW%2F&sp=r", "az://c/x?sv=1&sig=***&sp=r"),
        (
            "https://h/x?X-Amz-Signature=PW&X-Amz-Security-Token=PW",
            "https://h/x?X-Amz-Signature=***&X-Amz-Security-Token=***",
        ),
        ("s3://b/day=1/a@b:c?.csv", "s3://b/day=1/a@b:c?.csv"),
        ("https://h:80/a@b", "https://h:80/a@b"),
        ("az://container@account/x", "az://container@account/x"),
        ("s3://b/line\nbreak", "s3://b/line\\nbreak"),
    ],
)
def test_an_error_shows_no_password(url: str, expected: str) -> None:
    assert str(NotFoundError(f"{url} does not exist")) == f"{expected} does not exist"
    if "\n" not in url:
        assert str(DataError("it is empty", url=url, hint="Run again")) == f"{expected}: it is empty. Run again"


def _error_classes(base: type[SingerArrowError]) -> Iterator[type[SingerArrowError]]:
    yield base
    for kind in base.__subclasses__():
        yield from _error_classes(kind)


def _import_all(*packages: ModuleType) -> None:
    for package in packages:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


def test_every_error_survives_pickle() -> None:
    packages = (singer_arrow, tap_s3_files)
    _import_all(*packages)
    made: dict[type[SingerArrowError], SingerArrowError] = {
        UnfinishedStreamError: UnfinishedStreamError(["a", "b"], ["c"]),
        FailedStreamsError: FailedStreamsError(["a", "b"], 3),
        DriftError: DriftError("new column", [pa.field("x", pa.int64())], url=Url.parse("s3://b/x.csv"), line=3),
        DataError: DataError("bad\nvalue", url="s3://b/x\n.csv", row=2, column="c", hint="Correct it"),
    }
    names = {package.__name__ for package in packages}
    kinds = {kind for kind in _error_classes(SingerArrowError) if kind.__module__.split(".")[0] in names}
    assert len(kinds) > 20
    for kind in kinds:
        error = made.get(kind) or kind("it is\nwrong")
        error.code = "another"
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is kind
        assert str(copy) == str(error)
        assert copy.args == error.args
        assert vars(copy) == vars(error)
    drift = pickle.loads(pickle.dumps(DriftError("new column", [pa.field("x", pa.int64())], line=3).at("s3://b/y.csv")))
    assert drift.fields == (pa.field("x", pa.int64()),)
    assert str(drift).startswith("s3://b/y.csv, line 3: new column. ")
