"""The command `tap-s3-files init`: folders, samples, the text of a configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, count, islice
from pathlib import Path
from textwrap import indent
from typing import Any

import click
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.spelling import hint
from singer_arrow.compression import strip_suffix
from singer_arrow.errors import ArchivedError, ConfigError, DataError, NotFoundError, SchemaError, one_line
from singer_arrow.formats import detect_format
from singer_arrow.formats.base import first_row
from singer_arrow.naming import counted
from singer_arrow.schema.arrow_schema import setting_type
from singer_arrow.storage.urls import ObjectInfo, Url, has_glob
from tap_s3_files.discover import infer_schema, partition_columns, sample_objects, source_schema
from tap_s3_files.lake.table import TABLES
from tap_s3_files.listing import TABLE_LOG, Listing
from tap_s3_files.paths import find, glob_literal
from tap_s3_files.plan_model import Task
from tap_s3_files.run import StreamJob, TapRun
from tap_s3_files.settings import Settings, StreamSettings
from tap_s3_files.table_plan import with_table_parts
from tap_s3_files.tables import columns_in_words, first_rows
from tap_s3_files.tap import stream_name

# Objects below a URL -> streams with paths: one for each folder, format and compression. Pure.

_DIGIT = "[0-9]*"
_LEAST_ALIKE = 3  # folders that are written as one stream with a placeholder
_MOST_NAMES = 20  # kinds of names in a folder above which all of them are one stream


@dataclass(frozen=True, slots=True)
class Candidate:
    """Objects that may be one stream: their path is a pattern, which matches later ones that are named alike too.

    `parts` is their division by name, into candidates of their own; empty if all are named alike.
    """

    path: str
    format: str
    objects: tuple[ObjectInfo, ...]
    parts: tuple[Candidate, ...] = ()


def candidates(objects: Iterable[ObjectInfo]) -> tuple[list[Candidate], list[ObjectInfo]]:
    """Return the candidates for streams, by path, and the objects whose names imply no format.

    Empty objects and what begins with `_` or `.`, such as `_SUCCESS`, belong to no stream. A folder with the log of a
    table is one: its files are not all of the table.
    """
    objects = list(objects)
    roots = {m[1]: "delta" if m[2] else "iceberg" for o in objects if (m := TABLE_LOG.fullmatch(str(o.url)))}
    tables: dict[str, list[ObjectInfo]] = {root: [] for root in roots}
    # By prefix and suffix: the format, and the objects by the pattern of their names. A prefix is a folder, or folders
    # that differ in dates and numbers only.
    folders: dict[tuple[str, str], tuple[str, dict[str, list[ObjectInfo]]]] = {}
    unknown: list[ObjectInfo] = []
    for info in objects:
        above = str(info.url).split("/")
        root = next((r for n in range(3, len(above)) if (r := "/".join(above[:n])) in roots), None) if roots else None
        if root is not None:
            tables[root].append(info)
            continue
        if not info.size or any(part.startswith(("_", ".")) for part in info.url.key.split("/")):
            continue
        file_format = detect_format(info.url.name)
        if file_format is None:
            unknown.append(info)
            continue
        suffix = info.url.name[len(strip_suffix(info.url.name).rpartition(".")[0]) :]  # `.csv.gz`
        *above, name = info.url.key.split("/")
        base = name.removesuffix(suffix)
        place = ""
        for part in above:  # folders may differ in a partition value, a date or a number
            key, mark, _ = part.partition("=")
            alike = f"{glob_literal(key)}=*" if mark and key else _DIGIT if part[:1].isdigit() else glob_literal(part)
            place += f"{alike}/"
        prefix = f"{Url(info.url.scheme, info.url.bucket, '')}{place}"
        _, alike_objects = folders.setdefault((prefix, suffix), (file_format, {}))
        digit = re.search(r"\d", base)
        alike = (
            f"{glob_literal(base[: digit.start()])}{_DIGIT}" if digit else glob_literal(base)
        )  # up to the first digit
        alike_objects.setdefault(alike, []).append(info)
    made = [Candidate(root, roots[root], tuple(found)) for root, found in sorted(tables.items())]
    for (prefix, suffix), (file_format, by_name) in sorted(folders.items()):
        parts = [Candidate(f"{prefix}{base}{suffix}", file_format, tuple(found)) for base, found in by_name.items()]
        everything = tuple(info for part in parts for info in part.objects)
        is_divisible = 1 < len(parts) <= _MOST_NAMES
        made.append(Candidate(f"{prefix}*{suffix}", file_format, everything, tuple(parts) if is_divisible else ()))
    return made, unknown


def unique_names(found: Sequence[Candidate]) -> list[str]:
    """Return a name for each stream: that of its folder or objects, with its format or a number if others share it."""
    names = [stream_name(c.path) for c in found]
    formats = [(name, c.format) for name, c in zip(names, found, strict=True)]
    taken: list[str] = []
    for name, file_format in formats:
        is_shared = names.count(name) > 1 and formats.count((name, file_format)) == 1
        full = f"{name}_{file_format}" if is_shared else name
        numbered = (f"{full}_{n}" for n in count(2))
        taken.append(full if full not in taken else next(n for n in numbered if n not in taken and n not in names))
    return taken


# What a sample of a stream's rows shows: columns, keys, and types of which it is no proof.

MAX_ROWS = 10_000
"""Rows of all sampled objects of a stream."""
TEXT_FORMATS = frozenset({"csv", "fixed_width"})
"""Formats whose values are text: settings describe how dates and numbers are written."""
_KEY_NAME = re.compile(r"(?:^|_|[a-z](?=[A-Z]))(?:id|key|uuid|guid|code|number|num|no|nr|sku)$", re.IGNORECASE)
_LABEL_NAME = re.compile(
    r"(?:^|_)(?:zip|zip_?code|postal_?code|plz|phone|fax|isbn|ean|iban|account|sku)(?:_|$)", re.IGNORECASE
)
_NUMBER = r"^ *[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)? *$"
_LONGEST_ROW = 80
_MOST_OTHER = 0.1  # share of a text column's values that may be no numbers where the rest are
_MOST_DIGITS = 4  # digits after the point up to which numbers may be meant as decimals


@dataclass(frozen=True, slots=True)
class Doubt:
    """A setting in YAML that may be right, and why; with `column`, the type of that one in the setting `schema`."""

    setting: str
    reason: str
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """What a sample of a stream shows.

    `columns` are those of the files and of their keys, with the types that a run would infer; `keys` are named like a
    key, and their values identify each row of the sample; `others` do so alone.
    """

    columns: pa.Schema
    rows: int
    objects: int
    keys: tuple[str, ...]
    others: tuple[str, ...]
    doubts: tuple[Doubt, ...]


def survey(run: TapRun, stream: StreamSettings, objects: Sequence[ObjectInfo]) -> Survey:
    """Return what a sample of a stream's objects shows."""
    if stream.is_table:
        table = run.table(stream)
        files = list(table.files(None, table.version, ()))[-run.settings.sample_files :]
        schema = source_schema([table.schema], stream)
        job = StreamJob(stream.name, schema, metadata_columns=False, format="parquet", options=stream.read)
        job = replace(job, table=table.columns, rows_left=table.rows_left)
        tasks = [with_table_parts(Task((f.info,)), [f]) for f in files]
        rows, _ = first_rows(run, job, tasks, MAX_ROWS)
        keys, others = find_keys(rows)
        return Survey(schema, rows.num_rows, len(files), keys, others, ())
    listed = Listing(objects)
    samples = sample_objects(listed, run.settings.sample_files)
    found = {info: infer_schema(run, stream, info) for info in samples}
    schemas = {info: schema for info, schema in found.items() if isinstance(schema, pa.Schema)}
    error = next((e for e in found.values() if isinstance(e, Exception)), None)
    if error is not None and not schemas:
        raise error
    schema = source_schema(
        list(schemas.values()), stream, partition_columns(stream, listed), sampled=[i.url for i in schemas]
    )
    job = StreamJob(
        stream.name, schema, metadata_columns=False, format=stream.format, options=stream.read,
        partitions=stream.partitions,
    )  # fmt: skip
    each = max(1, MAX_ROWS // max(1, len(schemas)))
    rows = pa.concat_tables([first_rows(run, job, [Task((info,))], each)[0] for info in schemas])
    keys, others = find_keys(rows)
    unsure = chain(
        _without_header(schemas.values()),
        _without_value(rows, list(schemas.values())),
        _in_text(rows) if stream.format in TEXT_FORMATS else (),
        _numbers(rows) if stream.format in TEXT_FORMATS | {"jsonl", "json"} else (),
    )
    return Survey(schema, rows.num_rows, len(schemas), keys, others, tuple(unsure))


def find_keys(rows: pa.Table) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns that identify each row and are named like a key, and others that do so alone.

    One row proves nothing.
    """
    if rows.num_rows < 2:
        return (), ()
    kinds = (pt.is_integer, pt.is_string, pt.is_decimal, pt.is_date)
    able = [f.name for f in rows.schema if any(is_of(f.type) for is_of in kinds) and not rows[f.name].null_count]
    unique = [name for name in able if len(pc.unique(rows[name])) == rows.num_rows]
    named = [name for name in able if _KEY_NAME.search(name)]
    best = next((name for name in unique if name in named), None)
    if best is not None:
        return (best,), tuple(name for name in unique if name != best)
    for pair in combinations(named[:6], 2):
        if rows.group_by(list(pair)).aggregate([]).num_rows == len(rows):
            return pair, tuple(unique)
    return (), tuple(unique)


def _without_header(inferred: Iterable[pa.Schema]) -> Iterator[Doubt]:
    """Yield that files have no header, where the line that names the columns looks like a row."""
    if (first := first_row(inferred)) is not None:
        yield Doubt("csv: {header: false}", f"the first line looks like a row: {first[:_LONGEST_ROW]}")


def _without_value(rows: pa.Table, inferred: Sequence[pa.Schema]) -> Iterator[Doubt]:
    for field in rows.schema:
        kinds = {
            setting_type(s.field(field.name))
            for s in inferred
            if field.name in s.names and not pt.is_null(s.field(field.name).type)
        }
        if rows[field.name].null_count == rows.num_rows and not kinds:
            yield Doubt("string", "no value in the sample", field.name)
        elif len(kinds) > 1:
            yield Doubt(setting_type(field), f"{' in some objects, '.join(sorted(kinds))} in others", field.name)


def _in_text(rows: pa.Table) -> Iterator[Doubt]:
    """Yield what columns of text may be: dates and numbers of other countries, numbers with a mark for none."""
    for field in rows.schema:
        values = rows[field.name].drop_null()
        if not pt.is_string(field.type) or not len(values):
            continue
        if settings := hint(values.combine_chunks()):
            for setting in settings.split(" and "):
                name, _, value = setting.partition(" to ")
                yield Doubt(f"{name.strip(chr(39))}: {value}", f"column {field.name} is text otherwise")
            continue
        other = values.filter(pc.invert(pc.match_substring_regex(values, _NUMBER)))
        if 0 < len(other) <= _MOST_OTHER * len(values):
            marks = pc.unique(other).to_pylist()
            if len(marks) == 1:
                yield Doubt(
                    f"csv: {{null_values: [{chr(34) * 2}, {marks[0]!r}]}}", f"column {field.name} is numbers then"
                )
            else:
                share = len(other) / len(values)
                yield Doubt("number", f"{share:.1%} of its values are no numbers; see on_bad_row", field.name)


def _numbers(rows: pa.Table) -> Iterator[Doubt]:
    """Yield columns of numbers that may be meant as exact decimals, or as text."""
    for field in rows.schema:
        values = rows[field.name].drop_null()
        if pt.is_integer(field.type) and _LABEL_NAME.search(field.name):
            yield Doubt("string", "integer otherwise, which keeps no leading zero", field.name)
        if pt.is_floating(field.type) and len(values):
            digits = next(
                (n for n in range(_MOST_DIGITS + 1) if pc.all(pc.equal(pc.round(values, n), values)).as_py()), 0
            )
            if digits:
                reason = f"number otherwise, which is not exact; the sample has up to {digits} digits after the point"
                yield Doubt(f"decimal(18,{digits})", reason, field.name)


# Settings with comments, as a configuration file, a pipeline or a meltano.yml. Pure.

_PLAIN = re.compile(r"[A-Za-z][\w./-]*(?:://[\w./-]*)?")
_RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_HEAD = """\
# Written by `tap-s3-files init`. It runs as it is:
#   tap-s3-files --config {file} --preview
#   set -o pipefail; tap-s3-files --config {file} | target-bigquery --config=ENV --dataset raw
# Lines that begin with `# ` and a setting are suggestions: remove the `# ` of those that are right.

{config}
"""
_PIPELINE_HEAD = """\
# Written by `tap-s3-files init --pipeline`. It runs as it is:
#   singer-arrow run {file} --dry-run
#   singer-arrow run {file}
# Lines that begin with `# ` and a setting are suggestions: remove the `# ` of those that are right.
tap:
  name: tap-s3-files
  config:
{config}
target:
  # Set the environment variables TARGET_BIGQUERY_PROJECT and TARGET_BIGQUERY_DATASET, or a `config:` here.
  name: target-bigquery
# state: s3://BUCKET/state.json  # otherwise a file beside this one
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
_HEADS = {"config": (_HEAD, 0), "pipeline": (_PIPELINE_HEAD, 4), "meltano": (_MELTANO_HEAD, 8)}
"""What is around the settings, by the kind of file, and how far they are indented."""
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


def with_patterns(streams: Sequence[StreamText]) -> list[StreamText]:
    """Return one stream with a placeholder in place of those whose paths differ in one folder, and which look alike.

    Alike are formats and columns. Two such folders may be so by chance.
    """
    rest = list(streams)
    for place in range(3, max(s.candidate.path.count("/") for s in streams)):  # behind `s3://bucket/`, before the name
        alike: dict[tuple[object, ...], list[StreamText]] = {}
        for s in rest:
            folders = s.candidate.path.split("/")
            if (
                not isinstance(s.found, str)
                and s.candidate.format not in TABLES
                and place < len(folders) - 1
                and re.fullmatch(r"[\w.-]+", folders[place])
            ):
                around = (*folders[:place], "", *folders[place + 1 :])
                alike.setdefault((around, s.candidate.format, frozenset(s.found.columns.names)), []).append(s)
        for some in (some for some in alike.values() if len(some) >= _LEAST_ALIKE):
            first, folders = some[0], some[0].candidate.path.split("/")
            found, above = first.found, re.sub(r"s$", "", folders[place - 1])
            assert isinstance(found, Survey)
            word = above if place > 3 and re.fullmatch(r"[A-Za-z_]\w*", above, re.ASCII) else "folder"
            base, own = stream_name(first.candidate.path), stream_name("/".join(folders[: place + 1]))
            name = f"{{{word}}}" if base == own else f"{{{word}}}_{base}"
            path = "/".join([*folders[:place], f"{{{word}}}", *folders[place + 1 :]])
            if name in (s.name for s in rest) or "{" in first.candidate.path:
                continue
            keys = found.keys if all(isinstance(s.found, Survey) and s.found.keys == found.keys for s in some) else ()
            objects = tuple(info for s in some for info in s.candidate.objects)
            merged = StreamText(name, Candidate(path, first.candidate.format, objects), replace(found, keys=keys))
            rest = [merged if s is first else s for s in rest if s is first or s not in some]
    return rest


def has_partitions(path: str) -> bool:
    """Return whether a path has folders such as `day=*`, whose values become columns."""
    return "=*/" in path


def configuration(
    streams: Sequence[StreamText], notes: Iterable[str], file: Path, *, kind: str, batch_root: str | None
) -> str:
    """Return a file of a kind, see `_HEADS`; without `batch_root`, `batch_config` is a comment."""
    lines = ["streams:", *(line for stream in streams for line in _stream_lines(stream))]
    lines += [f"  # {one_line(note)}" for note in notes]
    mark = "" if batch_root else "# "
    text = "\n".join([*lines, "", _BATCHES.format(mark=mark, root=_scalar(batch_root or "s3://BUCKET/batches"))])
    head, places = _HEADS[kind]
    project = _scalar(file.absolute().parent.name)
    return head.format(file=file, project=project, config=indent(text.rstrip(), " " * places))


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
        yield f"    # unique in these rows{' too' * bool(found.keys)}: {one_line(', '.join(found.others))}"
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


# The command `tap-s3-files init URL...`: looks at objects and writes settings for them, with comments.

MAX_OBJECTS = 20_000
"""Objects of each URL that are looked at; streams that begin later are not found."""


def write_config(
    urls: Sequence[str], config: Mapping[str, Any], *, output: Path, kind: str, batch_root: str | None
) -> list[str]:
    """Write a configuration for the objects below some URLs, and return the names of its streams.

    `config` has the settings for access, such as `aws`; `streams` in it are ignored.
    """
    if output.exists():
        raise ConfigError(f"{output} exists already; remove it, or name another file with --output")
    inspection = _Inspection(config, [Url.parse(batch_root)] if batch_root else [])
    found = [c for url in urls for c in inspection.candidates_of(Url.parse(url))]
    if not found:
        why = "; ".join(inspection.notes) or "there are no objects"
        msg = f"{', '.join(urls)}: no stream was found: {why}; name a folder of files, or a path with wildcards"
        raise NotFoundError(msg)
    streams = [inspection.stream(name, c) for name, c in zip(unique_names(found), found, strict=True)]
    streams = with_patterns(streams)
    if all(isinstance(s.found, str) for s in streams):
        raise NotFoundError(f"{', '.join(urls)}: no object can be read: {streams[0].found}")
    text = configuration(streams, inspection.notes, output, kind=kind, batch_root=batch_root)
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"{output} cannot be written: {error.strerror}; name another file with --output") from None
    return [s.name for s in streams if not isinstance(s.found, str)]


class _Inspection:
    """Finds streams below URLs, and surveys them; `notes` are about what was left out."""

    def __init__(self, config: Mapping[str, Any], own_roots: Sequence[Url]) -> None:
        self.notes: list[str] = []
        self._own_roots = own_roots
        self._config = {k: v for k, v in config.items() if k in ("aws", "schema_sample_files", "schema_sample_mb")}

    def candidates_of(self, url: Url) -> Iterator[Candidate]:
        """Yield the streams below a URL; a path with wildcards is one."""
        run = self._run("all", str(url), "auto")
        objects = list(islice(find(run.storage, [url], own=self._own_roots), MAX_OBJECTS + 1))
        if len(objects) > MAX_OBJECTS:
            self.notes.append(f"Only the first {MAX_OBJECTS:,} objects below {url} were looked at.")
        found, unknown = candidates(objects[:MAX_OBJECTS])
        if unknown:
            names = ", ".join(str(o.url) for o in unknown[:3])
            more = ", ..." if len(unknown) > 3 else ""
            self.notes.append(
                f"Left out, since their names imply no format, {counted(len(unknown), 'object')}: {names}{more}; "
                "a stream with their path and a 'format' reads them."
            )
        is_one = has_glob(url.key) or [o.url for o in objects] == [url]
        if is_one and found and not any(c.format in TABLES for c in found):
            kinds = {c.format for c in found}
            objects = [o for c in found for o in c.objects]
            yield Candidate(str(url), found[0].format if len(kinds) == 1 else "auto", tuple(objects))
            return
        for candidate in found:
            yield from self._divided(candidate)

    def stream(self, name: str, candidate: Candidate) -> StreamText:
        """Return a stream with what a sample of it shows."""
        click.echo(f"{name}: {candidate.path}", err=True)
        run = self._run(name, candidate.path, candidate.format)
        try:
            shown: Survey | str = survey(run, run.settings.streams[0], candidate.objects)
        except (ArchivedError, ConfigError, DataError, SchemaError) as error:
            shown = str(error)
        return StreamText(name, candidate, shown)

    def _divided(self, candidate: Candidate) -> Sequence[Candidate]:
        """Return the parts of a folder if their columns differ, else the folder."""
        try:
            columns = set[frozenset[str]]()
            for part in candidate.parts:
                run = self._run(stream_name(part.path), part.path, part.format)
                newest = max(part.objects, key=lambda o: o.modified)
                found = infer_schema(run, run.settings.streams[0], newest)
                if isinstance(found, ArchivedError):
                    raise found
                columns.add(frozenset([] if found is None else found.names))
        except (ArchivedError, DataError, SchemaError):
            return [candidate]
        return candidate.parts if len(columns) > 1 else [candidate]

    def _run(self, name: str, path: str, file_format: str) -> TapRun:
        streams = [{"name": name, "path": path, "format": file_format, "partition_columns": has_partitions(path)}]
        settings = Settings.from_config({**self._config, "streams": streams, "metadata_columns": False})
        return TapRun(settings, lambda _: {})


def command(read_config: Callable[[Sequence[str]], Mapping[str, Any]]) -> click.Command:
    about = "Look at a bucket or a folder, and write a commented configuration for what is there."
    output_help = "The file to write, unless it is tap-s3-files.yml, pipeline.yml or meltano.yml. It must not exist."
    pipeline_help = "Write a pipeline.yml, for singer-arrow run, instead of a file for --config."
    meltano_help = "Write a meltano.yml instead."
    root = "URL below which batch files are to be written; without it, it is a comment in the file."
    config_help = "Settings for access (aws): a file, or ENV for the environment."

    def run(
        *, urls: tuple[str, ...], output: Path | None, kind: str | None, batch_root: str | None, config: tuple[str, ...]
    ) -> None:
        file = output or Path(f"{kind or 'tap-s3-files'}.yml")
        names = write_config(urls, read_config(config), output=file, kind=kind or "config", batch_root=batch_root)
        click.echo(f"{file}: {counted(len(names), 'stream')}: {', '.join(names)}")

    return click.Command(
        "init",
        callback=run,
        help=about,
        params=[
            click.Argument(["urls"], nargs=-1, required=True, metavar="URL..."),
            click.Option(["--output"], type=click.Path(path_type=Path), help=output_help, metavar="FILE"),
            click.Option(["--pipeline", "kind"], flag_value="pipeline", help=pipeline_help),
            click.Option(["--meltano", "kind"], flag_value="meltano", help=meltano_help),
            click.Option(["--batch-root"], help=root, metavar="URL"),
            click.Option(["--config"], multiple=True, help=config_help, metavar="FILE"),
        ],
    )
