"""Where the objects of some paths are, as a target compares it with those of another plan log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from singer_arrow.batch.message import LogObjects
from singer_arrow.storage.urls import Url
from tap_s3_files.paths import ObjectFilter

EAST = timezone(timedelta(hours=9))
MAY, JUNE = datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("paths", "bounds", "objects"),
    [
        (["s3://b/in/*.csv", "s3://b/in/x?.csv"], {}, (("s3://b/in/",),)),
        (["s3://b/in/a.csv", "s3://b/in", "s3://b/in/"], {}, (("s3://b/in/", "s3://b/in/a.csv/"),)),
        (["s3://b/*.csv", "gs://b/eu/x[12]/y*"], {}, (("gs://b/eu/", "s3://b/"),)),
        (["s3://b/in/{date:%Y}/*"], {"dates": (MAY, None)}, (("s3://b/in/",), "date", "2024-05-01T00:00:00")),
        (
            ["s3://b/in/*"],
            {"window": (MAY, JUNE)},
            (("s3://b/in/",), "time", "2024-05-01T00:00:00", "2024-06-01T00:00:00"),
        ),
        (["s3://b/in/*"], {"window": (MAY, None), "moments": ("-7d",)}, (("s3://b/in/",),)),
        (
            ["s3://b/in/*"],
            {"window": (None, MAY.astimezone(EAST))},
            (("s3://b/in/",), "time", "", "2024-05-01T00:00:00"),
        ),
        (["s3://b/in/*", "s3://b/{date:%Y}/*"], {"dates": (MAY, JUNE)}, (("s3://b/", "s3://b/in/"),)),
    ],
)
def test_objects_of_paths(paths: list[str], bounds: dict[str, Any], objects: tuple[Any, ...]) -> None:
    assert ObjectFilter("s", tuple(map(Url.parse, paths)), **bounds).objects() == LogObjects(*objects)
