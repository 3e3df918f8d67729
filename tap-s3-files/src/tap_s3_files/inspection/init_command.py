"""The command `tap-s3-files init URL...`: looks at objects and writes settings for them, with comments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click

from singer_arrow.errors import ArchivedError, ConfigError, DataError, NotFoundError, SchemaError
from singer_arrow.naming import counted
from singer_arrow.storage.urls import Url, has_glob
from tap_s3_files.command_line import stream_name
from tap_s3_files.discovery import infer_schema
from tap_s3_files.inspection.config_text import StreamText, config_file, has_partitions, meltano_file
from tap_s3_files.inspection.folders import Candidate, candidates, unique_names
from tap_s3_files.inspection.survey import Survey, survey
from tap_s3_files.listing.path_match import find
from tap_s3_files.run import TapRun
from tap_s3_files.settings import Settings

MAX_OBJECTS = 20_000
"""Objects of each URL that are looked at; streams that begin later are not found."""


def write_config(
    urls: Sequence[str], config: Mapping[str, Any], *, output: Path, meltano: bool, batch_root: str | None
) -> list[str]:
    """Write a configuration for the objects below some URLs, and return the names of its streams.

    `config` has the settings for access, such as `aws`; `streams` in it are ignored.
    """
    if output.exists():
        msg = f"{output} exists already; remove it, or name another file with --output"
        raise ConfigError(msg)
    inspection = _Inspection(config, [Url.parse(batch_root)] if batch_root else [])
    found = [c for url in urls for c in inspection.candidates_of(Url.parse(url))]
    if not found:
        why = "; ".join(inspection.notes) or "there are no objects"
        msg = f"{', '.join(urls)}: no stream was found: {why}; name a folder of files, or a path with wildcards"
        raise NotFoundError(msg)
    streams = [inspection.stream(name, c) for name, c in zip(unique_names(found), found, strict=True)]
    if all(isinstance(s.found, str) for s in streams):
        msg = f"{', '.join(urls)}: no object can be read: {streams[0].found}"
        raise NotFoundError(msg)
    if meltano:
        text = meltano_file(streams, inspection.notes, project=output.absolute().parent.name, batch_root=batch_root)
    else:
        text = config_file(streams, inspection.notes, file=str(output), batch_root=batch_root)
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        msg = f"{output} cannot be written: {error.strerror}; name another file with --output"
        raise ConfigError(msg) from None
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
        if (has_glob(url.key) or [o.url for o in objects] == [url]) and found:
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
        except (ArchivedError, DataError, SchemaError) as error:
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
    output_help = "The file to write; tap-s3-files.yml, or meltano.yml with --meltano, unless given. It must not exist."
    meltano_help = "Write a meltano.yml instead of a file for --config."
    root = "URL below which batch files are to be written; without it, it is a comment in the file."
    config_help = "Settings for access (aws): a file, or ENV for the environment."

    def run(
        *, urls: tuple[str, ...], output: Path | None, meltano: bool, batch_root: str | None, config: tuple[str, ...]
    ) -> None:
        file = output or Path("meltano.yml" if meltano else "tap-s3-files.yml")
        names = write_config(urls, read_config(config), output=file, meltano=meltano, batch_root=batch_root)
        click.echo(f"{file}: {counted(len(names), 'stream')}: {', '.join(names)}")

    return click.Command(
        "init",
        callback=run,
        help=about,
        params=[
            click.Argument(["urls"], nargs=-1, required=True, metavar="URL..."),
            click.Option(["--output"], type=click.Path(path_type=Path), help=output_help, metavar="FILE"),
            click.Option(["--meltano"], is_flag=True, help=meltano_help),
            click.Option(["--batch-root"], help=root, metavar="URL"),
            click.Option(["--config"], multiple=True, help=config_help, metavar="FILE"),
        ],
    )
