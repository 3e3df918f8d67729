"""What a COPY reads, and how long it takes: text as it is, under gzip, in one file or one for each slice; our default.

{rows:,} events of 21 columns, 516 bytes each as JSON and 205 between delimiters, forty of a session together. All are
loaded into temporary tables of the same columns, as target-redshift does, in a local Redshift of {slices} slices, with
COMPUPDATE and STATUPDATE off where they can be. "Ours" are the very files that target-redshift with its defaults staged
for these events when they came as a gzip JSON Lines batch on local disk: Parquet. Wall and CPU seconds are those of the
client, a Python process that connects and waits.

The local Redshift is PostgreSQL with COPY in front of it: most of its seconds are PostgreSQL's, and the same for every
format, where a real cluster is limited by the bytes that it reads. So bytes count more than seconds here.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.connectors import expect
from benchmarks.generators import events
from benchmarks.harness import Command, Measured
from benchmarks.redshift import Staged, slices, staged, staged_by_target
from benchmarks.workbench import Workbench, program
from local_cloud.s3 import setup

SEED = 3
BUCKET = "events"
OURS, RAW = "ours", "JSON"
_OFF = "COMPUPDATE OFF STATUPDATE OFF"
_JSON, _DELIMITED = f"FORMAT AS JSON 'auto' TIMEFORMAT 'auto' {_OFF}", f"DELIMITER '|' TIMEFORMAT 'auto' {_OFF}"


@dataclass(frozen=True)
class _Form:
    """One way to stage the events."""

    name: str
    settings: str
    options: str
    staged: Staged


def build_10k(bench: Workbench) -> Case:
    """A load every quarter of an hour, of 11 events a second."""
    return _build(bench, "redshift-copy-10k", 10_000, rounds=9)


def build_100k(bench: Workbench) -> Case:
    """Of 111 events a second."""
    return _build(bench, "redshift-copy-100k", 100_000, rounds=5)


def build_1m(bench: Workbench) -> Case:
    """Of 1,111 events a second."""
    return _build(bench, "redshift-copy-1m", 1_000_000, rounds=3)


def _build(bench: Workbench, name: str, full: int, *, rounds: int) -> Case:
    rows = bench.rows(full)
    bench.cloud("redshift")
    parts = slices(bench.env)
    forms = _forms(bench, name, rows, parts)
    others = [form.name for form in forms if form.name != OURS]
    return Case(
        name=name,
        about=(__doc__ or "").format(rows=rows, slices=parts),
        contenders=[
            Contender(f.name, f.settings, _commands(bench, f), _facts(f, rows), 1 if _is_slow(f, full) else None)
            for f in forms
        ],
        goals=[
            Goal("bytes staged, ours over raw JSON", "bytes", OURS, RAW, at_most=1 / 25),
            Goal("COPY seconds, ours over the fastest other", "copy_s", OURS, others, at_most=1.1),
        ],
        columns=(("copy_s", "COPY s"), ("files", "files"), ("rows_per_copy_s", "rows / COPY s")),
        rounds=rounds,
        picture="bytes",
    )


def _is_slow(form: _Form, rows: int) -> bool:
    """A million JSON objects take too long, by far, for more than one round."""
    return rows >= 1_000_000 and form.name.startswith(RAW)


def _commands(bench: Workbench, form: _Form) -> Callable[[Path], Sequence[Command]]:
    manifest = " MANIFEST" if form.staged.files > 1 else ""
    options = f"{form.options}{manifest}"
    return lambda _: [Command([*program("copy_redshift"), form.staged.url, options], bench.env)]


def _facts(form: _Form, rows: int) -> Callable[[Path, Measured], Facts]:
    def facts(_: Path, measured: Measured) -> Facts:
        printed: Facts = json.loads(measured.stdout.read_text())
        expect(rows, int(printed["rows"]))
        sizes: Facts = {"bytes": form.staged.bytes, "files": form.staged.files}
        return printed | sizes | {"rows_per_copy_s": rows / printed["copy_s"]}

    return facts


def _forms(bench: Workbench, name: str, rows: int, parts: int) -> list[_Form]:
    """The events, put into S3 in every form."""
    s3 = setup.client("s3", bench.cloud("redshift").s3_url)
    s3.create_bucket(Bucket=BUCKET)
    tables = list(events.chunks(rows, SEED))
    found = []
    with tempfile.TemporaryDirectory(dir=bench.data) as folder:
        for kind, options, write in (
            (RAW, _JSON, events.write_json),
            ("delimited", _DELIMITED, events.write_delimited),
        ):
            path = Path(folder) / f"events-{kind}"
            write(path, iter(tables))
            whole = path.read_bytes()
            path.unlink()
            for title, more, count, pack in (
                (kind, "", 1, bytes),
                (f"{kind}, {parts} files", "", parts, bytes),
                (f"{kind}, gzip", " GZIP", 1, _gzip),
                (f"{kind}, gzip, {parts} files", " GZIP", parts, _gzip),
            ):
                files = [(f"{n:03d}", pack(part)) for n, part in enumerate(_cut(whole, count))]
                place = f"{name}/{title.replace(', ', '-').replace(' ', '-')}"
                found.append(_Form(title, f"`{options}{more}`", options + more, staged(s3, BUCKET, place, files)))
                if title == f"{RAW}, gzip":
                    batch = Path(folder) / "events.jsonl.gz"
                    batch.write_bytes(files[0][1])
        ours = staged_by_target(bench, s3, _messages(batch, Path(folder)), Path(folder) / "run")
        options = "FORMAT AS PARQUET STATUPDATE OFF"
        settings = f"what `target-redshift`, all defaults, stages: `{options}`"
        found.append(_Form(OURS, settings, options, staged(s3, BUCKET, f"{name}/ours", ours)))
    return found


def _messages(batch: Path, folder: Path) -> Path:
    lines = [
        {"type": "SCHEMA", "stream": events.STREAM, "schema": events.schema(), "key_properties": []},
        {
            "type": "BATCH",
            "stream": events.STREAM,
            "encoding": {"format": "jsonl", "compression": "gzip"},
            "manifest": [batch.as_uri()],
        },
    ]
    path = folder / "messages.singer"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _gzip(content: bytes) -> bytes:
    return gzip.compress(content, 6, mtime=0)


def _cut(content: bytes, parts: int) -> list[bytes]:
    """About equal parts of whole lines."""
    ends = [content.index(b"\n", len(content) * n // parts - 1) + 1 for n in range(1, parts + 1)]
    return [content[start:end] for start, end in zip([0, *ends], ends, strict=False)]
