"""Settings with comments, as a configuration file or as a meltano.yml. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import indent

from singer_arrow.errors import one_line
from singer_arrow.naming import counted
from tap_s3_files.inspection.folders import Candidate
from tap_s3_files.inspection.survey import Survey
from tap_s3_files.inspection.text_table import columns_in_words

_PLAIN = re.compile(r"[A-Za-z][\w./-]*(?:://[\w./-]*)?")
_RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_HEAD = """\
# Written by `tap-s3-files init`. It runs as it is:
#   tap-s3-files --config {file} --preview
#   set -o pipefail; tap-s3-files --config {file} | target-bigquery --config=ENV --dataset raw
# Lines that begin with `# ` and a setting are suggestions: remove the `# ` of those that are right.
"""
_MELTANO_HEAD = """\
# Written by `tap-s3-files init --meltano`. With tap-s3-files and the target on the PATH, it runs as it is:
#   meltano run tap-s3-files target-bigquery
# Lines that begin with `# ` and a setting are suggestions: remove the `# ` of those that are right.
version: 1
default_environment: dev
project_id: {project}
environments:
  - name: dev
plugins:
  extractors:
    - name: tap-s3-files
      namespace: tap_s3_files
      executable: tap-s3-files
      capabilities: [catalog, discover, state, about, batch]
      config:
{config}
  loaders:
    # Set the environment variables TARGET_BIGQUERY_PROJECT and TARGET_BIGQUERY_DATASET, or a `config:` here.
    - name: target-bigquery
      namespace: target_bigquery
      executable: target-bigquery
      settings: [{{name: project}}, {{name: dataset}}, {{name: location}}, {{name: api_endpoint}}]
"""
_BATCHES = """\
# Batch files: rows go to the target as files, not as records. Any folder that tap and target can both reach.
{mark}batch_config:
{mark}  encoding: {{format: parquet}}
{mark}  storage: {{root: {root}}}
"""


@dataclass(frozen=True, slots=True)
class StreamText:
    """A stream that a file is written for: `found` is what its sample shows, or why there is none."""

    name: str
    candidate: Candidate
    found: Survey | str


def config_file(streams: Sequence[StreamText], notes: Iterable[str], *, file: str, batch_root: str | None) -> str:
    """Return the text of a file for `--config`; without `batch_root`, `batch_config` is a comment."""
    return f"{_HEAD.format(file=file)}\n{_settings(streams, notes, batch_root)}"


def meltano_file(streams: Sequence[StreamText], notes: Iterable[str], *, project: str, batch_root: str | None) -> str:
    """Return the text of a meltano.yml; without `batch_root`, `batch_config` is a comment."""
    config = indent(_settings(streams, notes, batch_root).rstrip(), " " * 8)
    return _MELTANO_HEAD.format(project=_scalar(project), config=config)


def has_partitions(path: str) -> bool:
    """Return whether a path has folders such as `day=*`, whose values become columns."""
    return "=*/" in path


def _settings(streams: Sequence[StreamText], notes: Iterable[str], batch_root: str | None) -> str:
    lines = ["streams:", *(line for stream in streams for line in _stream_lines(stream))]
    lines += [f"  # {one_line(note)}" for note in notes]
    mark = "" if batch_root else "# "
    return "\n".join([*lines, "", _BATCHES.format(mark=mark, root=_scalar(batch_root or "s3://BUCKET/batches"))])


def _stream_lines(stream: StreamText) -> Iterator[str]:
    path, objects = stream.candidate.path, stream.candidate.objects
    yield f"  # {counted(len(objects), 'object')}, {sum(o.size for o in objects):,} bytes"
    settings = [f"name: {_scalar(stream.name)}", f"path: {_scalar(path)}", f"format: {stream.candidate.format}"]
    settings += ["partition_columns: true"] if has_partitions(path) else []
    if isinstance(stream.found, str):
        yield f"  # Left out: {one_line(stream.found)}"
        yield from (f"  # {'- ' if not number else '  '}{line}" for number, line in enumerate(settings))
        return
    found = stream.found
    columns = columns_in_words(found.columns)
    yield f"  # Columns, from {counted(found.rows, 'row')} of {counted(found.objects, 'object')}: {columns}"
    yield from (f"  {'- ' if not number else '  '}{line}" for number, line in enumerate(settings))
    if found.keys:
        keys = ", ".join(map(_scalar, found.keys))
        yield f"    key_properties: [{keys}]  # unique and never null in these rows"
    if found.others:
        yield f"    # unique in these rows too: {one_line(', '.join(found.others))}"
    reasons: dict[str, list[str]] = {}
    for doubt in found.doubts:
        if doubt.column is None:
            reasons.setdefault(one_line(doubt.setting), []).append(one_line(doubt.reason))
    yield from (f"    # {setting}  # {'; '.join(why)}" for setting, why in reasons.items())
    if types := [d for d in found.doubts if d.column is not None]:
        yield "    # schema:"
        yield from (f"    #   {_scalar(d.column or '')}: {d.setting}  # {one_line(d.reason)}" for d in types)


def _scalar(text: str) -> str:
    """Return a text as YAML: plain where nothing in it has a meaning, else in double quotes as in JSON."""
    is_plain = _PLAIN.fullmatch(text) is not None and text.lower() not in _RESERVED
    return text if is_plain else json.dumps(text)
