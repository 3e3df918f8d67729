"""Resolve and compare the places of a path with dates, as a listing does before its requests: `... date_places COUNT`.

Prints the number of places.
"""

import sys
from datetime import UTC, datetime, timedelta

from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from tap_s3_files.paths import earlier_overlaps, listed_prefixes, resolve_dates

PATH = "s3://bench/events/{date:%Y/%m/%d/%H}/**/*.csv"


def main() -> None:
    """Resolve one place for each hour."""
    start = datetime(2010, 1, 1, tzinfo=UTC)
    end = start + timedelta(hours=int(sys.argv[1]))
    places = listed_prefixes(Storage(), resolve_dates([Url.parse(PATH)], start, end, end))
    print(len(earlier_overlaps(places)))


if __name__ == "__main__":
    main()
