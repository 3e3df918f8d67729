"""Streams found in the bucket: one for each name that the placeholders of a stream's name and path give.

    {"name": "{tenant}_{kind}", "path": "s3://lake/{tenant}/{kind}/**/*.parquet"}

A placeholder `{tenant}` is a wildcard within one folder: its name, or a part of it. Those of `name` decide the stream;
others are a `*`, so that a stream may have several folders. None becomes a column. A named group `{tenant:*}` of the
path (see `paths`) may be the placeholder of a name too: it limits which folders match, and is a column as ever. A date
`{date:%Y}` is neither: it decides which objects of a stream are listed.
"""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from functools import partial

from singer_arrow.errors import ConfigError
from singer_arrow.runtime.threads import ThreadPool
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url, glob_prefix, has_glob
from tap_s3_files.paths import (
    divided_at_placeholders,
    fill_placeholders,
    folder_pattern,
    glob_literal,
    placeholders,
    without_names,
)
from tap_s3_files.settings import StreamSettings

logger = logging.getLogger("tap-s3-files")
PARALLEL = 16
"""Folders whose folders are listed at the same time."""
_Place = tuple[dict[str, str], str]  # the values of placeholders, and the key of a folder


def found_streams(storage: Storage, pattern: StreamSettings) -> list[StreamSettings]:
    """Return the streams that the folders of a pattern make, in the order of their names; no objects are listed.

    ConfigError: folders with different values make one name.
    """
    names = placeholders(pattern.name)
    found: dict[
        tuple[str, ...], dict[Url, Url]
    ] = {}  # places that are listed, and the paths that they are of, by values
    for path in pattern.urls:
        whole = Url(path.scheme, path.bucket, f"{path.key}**" if path.key.endswith("/") else path.key)
        folders, below = divided_at_placeholders(whole, names)
        places: list[_Place] = [({}, "")]
        with ThreadPool(PARALLEL, "folders") as pool:
            for folder in folders:
                places = [p for some in pool.map(partial(_within, storage, whole, folder), places) for p in some]
        for values, above in places:
            url, place = fill_placeholders(whole.key, values), glob_literal(above) + fill_placeholders(below, values)
            of_values = found.setdefault(tuple(values[name] for name in names), {})
            of_values[without_names(path._replace(key=place))] = path._replace(key=url)
    streams: dict[str, StreamSettings] = {}
    for combination, urls in found.items():
        values = dict(zip(names, combination, strict=True))
        name = re.sub(r"\{(\w+)\}", lambda m, values=values: values[m[1]], pattern.name)  # type: ignore[misc]
        paths = tuple(dict.fromkeys(urls.values()))
        stream = replace(
            pattern, name=name, urls=paths, places=tuple(urls), pattern=pattern.name, pattern_urls=pattern.urls
        )
        if (other := streams.setdefault(name, stream)) is not stream:
            raise same_name(other, stream)
    return [streams[name] for name in sorted(streams)]


def same_name(a: StreamSettings, b: StreamSettings) -> ConfigError:
    """Return the error for two streams of one name."""
    return ConfigError(
        f"Setting 'streams': {a.urls[0]} and {b.urls[0]} are both of a stream {a.name!r}; change 'name' or 'path', so "
        "that each has a name of its own"
    )


def _within(storage: Storage, path: Url, folder: str, place: _Place) -> list[_Place]:
    """Return the folders within a folder that match a part of the path."""
    values, above = place
    if not has_glob(folder):
        return [(values, f"{above}{folder}/")]
    found, matches = list[_Place](), folder_pattern(folder).fullmatch
    for name in storage.folders(path._replace(key=above + glob_prefix(folder))):
        match = matches(name)
        if match is None or not all(match.groupdict().values()):
            continue
        if "{" in name or "}" in name:
            logger.warning("Folder %s%s of %s is left out: its name has braces", above, name, path)
            continue
        found.append((values | match.groupdict(), f"{above}{name}/"))
    return found
