"""A pipeline in one file: its description, its STATE, its run; the command `singer-arrow run`."""

from __future__ import annotations

import copy
import fnmatch
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from singer_arrow.errors import ConfigError, IdentityError, NotFoundError, SingerArrowError, with_code
from singer_arrow.load.stream_ends import ONLY
from singer_arrow.monitoring.monitor import FIGURES
from singer_arrow.monitoring.report_pages import ReportFolder, main
from singer_arrow.runtime.process import temporary_folder
from singer_arrow.sdk.settings import load_environment_file, object_file, problems, with_variables
from singer_arrow.settings import json_schema, read_settings, setting
from singer_arrow.storage.store import Storage, Version
from singer_arrow.storage.urls import Url

# The description: which tap, which target, where STATE is.


@dataclass(frozen=True, slots=True)
class Connector:
    """The tap or the target of a pipeline."""

    name: str = setting("Its executable, such as tap-s3-files.", required=True, minLength=1)
    config: Any = setting(
        "Its settings; or a file with them, beside this one. Those in variables of the environment count too, and come "
        "after them.",
        kind=str | dict,
    )
    catalog: str | None = setting("Of a tap: a file with its catalog, beside this one.")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A tap, a target, and where STATE is kept between runs."""

    tap: Connector = setting("Where rows come from.", required=True)
    target: Connector = setting("Where rows go to.", required=True)
    state: str | None = setting(
        "Where STATE is kept: a path, or a URL on S3, Google Cloud Storage or Azure. By default a file beside this "
        "one: pipeline.state.json beside pipeline.yml. One run at a time has it."
    )
    report: str | None = setting("Setting report of both, where they have none of their own.")


def read_pipeline(given: str | Path | Mapping[str, Any]) -> tuple[Pipeline, Path]:
    """Return a pipeline, and the folder that its paths are relative to; ConfigError names what is wrong in it."""
    folder, what = Path(), "The pipeline"
    if isinstance(given, Mapping):
        config: dict[str, Any] = copy.deepcopy(dict(given))
    else:
        folder, what = Path(given).absolute().parent, str(given)
        load_environment_file()
        config = object_file(str(given), what)
        config.setdefault("state", f"{Path(given).stem}.state.json")
    schema = json_schema(Pipeline)
    for name in set(config) - {"tap", "target"}:  # those of tap and target are replaced by these, by their own types
        config[name] = with_variables(config[name], schema["properties"].get(name, {}), os.environ, what)
    from singer_sdk.typing import DEFAULT_JSONSCHEMA_VALIDATOR

    for line in problems(config, schema, DEFAULT_JSONSCHEMA_VALIDATOR(schema).iter_errors(config)):
        raise ConfigError(f"{what}: {line}")
    return read_settings(Pipeline, config), folder


# STATE between runs. On object storage, each write replaces the version that this run has written or read last
# (If-Match), and the run that has it writes it again every few seconds: another run waits until that ends, or takes it
# over once that is dead; a run that slept meanwhile finds another version and ends. On a disk a lock does the same.

_OWNER = "run"
_BEAT_SECONDS = 5.0
_DEAD_SECONDS = 20.0


class StateFile:
    """The STATE of a pipeline, which one run at a time has."""

    def __init__(self, storage: Storage, url: Url) -> None:
        self._storage, self._url, self._id = storage, url, secrets.token_hex(8)
        self._known: Version | None = None
        self._state: Mapping[str, Any] = {}
        self._error: SingerArrowError | None = None
        self._changed, self._ended = threading.Event(), threading.Event()
        self._beats = 0

    @contextmanager
    def claimed(self) -> Iterator[Mapping[str, Any]]:
        """Have the file in a block, and yield its STATE; IdentityError: another run has it.

        What `save` gets is written soon, and at the end of the block, also of one that fails.
        """
        with ExitStack() as stack:
            if self._url.scheme == "file":
                stack.enter_context(self._locked(self._url.local_path()))
            self._state = self._read_free()
            self._write(owned=True)
            beat = threading.Thread(target=self._keep, name="state", daemon=True)
            beat.start()
            try:
                yield self._state
            finally:
                self._ended.set()
                self._changed.set()
                beat.join()
                self._write(owned=False)
            if self._error is not None:
                raise self._error

    def save(self, state: Mapping[str, Any]) -> None:
        """Have a STATE written; the error of an earlier write is raised."""
        if self._error is not None:
            raise self._error
        self._state = state
        self._changed.set()

    @contextmanager
    def _locked(self, path: Path) -> Iterator[None]:
        import fcntl

        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_name(f"{path.name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise self._busy() from None
            yield

    def _read_free(self) -> Mapping[str, Any]:
        """Return the STATE once no run that lives has the file."""
        seen, since = None, time.monotonic()
        while True:
            try:
                data, version = self._storage.read(self._url)
            except NotFoundError:
                return {}
            try:
                given = json.loads(data)
                owner = given.pop(_OWNER, None)
            except (AttributeError, ValueError):
                raise ConfigError(f"{self._url} is no STATE; restore it, or remove it to begin anew") from None
            if seen not in (None, version):
                raise self._busy()
            seen = self._known = version
            if owner is None or self._url.scheme == "file" or time.monotonic() - since > _DEAD_SECONDS:
                state: Mapping[str, Any] = given
                return state
            time.sleep(1)

    def _busy(self) -> IdentityError:
        return IdentityError(f"Another run has {self._url}; wait until it has ended")

    def _keep(self) -> None:
        while not self._ended.is_set():
            self._changed.wait(_BEAT_SECONDS if self._url.scheme != "file" else None)
            self._changed.clear()
            if not self._ended.is_set():
                try:
                    self._write(owned=True)
                except SingerArrowError as error:
                    self._error = error
                    return
                self._ended.wait(0.5)  # many STATEs of a moment are one write

    def _write(self, *, owned: bool) -> None:
        if self._error is not None:
            return
        self._beats += 1
        members = {**self._state, **({_OWNER: f"{self._id} {self._beats}"} if owned else {})}
        data = json.dumps(members).encode()
        if self._url.scheme == "file":
            self._storage.put(self._url, data)
            return
        version = self._storage.replace(self._url, data, self._known)
        if version is None:
            raise IdentityError(f"Another run has taken over {self._url}, as this one was silent for too long")
        self._known = version


# A run: both processes with a pipe between them, as a shell with pipefail has them.


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """What a run has loaded: for each stream what the target counted, such as `rows_written`, `loads`, `bytes`."""

    streams: Mapping[str, Mapping[str, int]]
    state: Mapping[str, Any]


class PipelineError(SingerArrowError):
    """The tap or the target of a pipeline failed; `code` is that of its own error."""

    def __init__(self, message: str, code: str, exit_code: int) -> None:
        super().__init__(message)
        self.code, self.exit_code = code, exit_code


def run(
    pipeline: str | Path | Mapping[str, Any], *, only: Sequence[str] = (), full_refresh: bool = False
) -> PipelineResult:
    """Run a pipeline once, and return what was loaded.

    Args:
        pipeline: The path of its file, or the same as a mapping; then paths in it are relative to this folder.
        only: Streams, or patterns, to run; by default all.
        full_refresh: Run without STATE, as if for the first time.

    Raises:
        ConfigError: The description is wrong, or an executable is missing.
        IdentityError: Another run has its STATE.
        PipelineError: Tap or target failed; what was loaded by then counts, and the next run continues behind it.
    """
    described, folder = read_pipeline(pipeline)
    with ExitStack() as stack:
        temporary = stack.enter_context(temporary_folder("pipeline-"))
        tap = _command(described, "tap", only, folder, temporary)
        target = _command(described, "target", only, folder, temporary)
        state: Mapping[str, Any] = {}
        file = StateFile(Storage(), _place(described.state, folder)) if described.state else None
        if file is not None:
            state = stack.enter_context(file.claimed())
        if state and not full_refresh:
            (temporary / "state.json").write_text(json.dumps(state))
            tap += ["--state", str(temporary / "state.json")]
        environment = {**os.environ, FIGURES: str(temporary / "figures"), **({ONLY: "1"} if only else {})}
        source = subprocess.Popen(tap, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment)
        sink = subprocess.Popen(target, stdin=source.stdout, stdout=subprocess.PIPE, env=environment)
        assert source.stdout is not None
        assert sink.stdout is not None
        source.stdout.close()  # so that the tap notices the end of the target
        received = stack.enter_context(_signals_to(source, sink))
        try:
            for line in sink.stdout:
                if (given := _state_in(line)) is not None:
                    state = given
                    if file is not None:
                        file.save(state)
        except BaseException:
            source.terminate()
            sink.terminate()
            raise
        finally:
            codes = sink.wait(), source.wait()
        names = described.target.name, described.tap.name
        figures = {found["run"]["connector"]: found for found in _figures(temporary)}
        for name, code in zip(names, codes, strict=True):
            if code or received:
                found = (figures.get(name) or {}).get("error") or {}
                text = found.get("message") or f"{name} ended with exit code {code}; see its own lines"
                number = 128 + received[0] if received else code if code > 0 else 128 - code
                raise PipelineError(text, found.get("code") or "failed", number)
        loaded = (figures.get(names[0]) or {}).get("streams") or []
        return PipelineResult({stream["stream"]: stream["counts"] for stream in loaded}, state)


def _command(pipeline: Pipeline, role: str, only: Sequence[str], folder: Path, temporary: Path) -> list[str]:
    """Return the command of the tap or the target, with its settings in a file."""
    part: Connector = getattr(pipeline, role)
    program = shutil.which(part.name) or shutil.which(part.name, path=str(Path(sys.executable).parent))
    if program is None:
        raise ConfigError(f"Setting '{role}.name' is {part.name!r}, which is no executable here; install its package")
    given = part.config
    config = object_file(str(folder / given), f"'{role}.config'") if isinstance(given, str) else dict(given or {})
    if pipeline.report:
        config.setdefault("report", pipeline.report)
    streams = config.get("streams")
    if only and isinstance(streams, list) and not part.catalog:
        config["streams"] = [s for s in streams if isinstance(s, dict) and _is_one_of(str(s.get("name")), only)]
        if not config["streams"]:
            raise ConfigError(f"No stream of '{role}.config' is one of {', '.join(only)}")
    path = temporary / f"{role}.json"
    path.write_text(json.dumps(config))
    prefix = f"{part.name.upper().replace('-', '_')}_"
    command = [program, *(["--config=ENV"] if any(name.startswith(prefix) for name in os.environ) else [])]
    command += ["--config", str(path)]
    if role == "tap" and part.catalog:
        command += ["--catalog", str(folder / part.catalog)]
    elif role == "tap" and only and not isinstance(streams, list):
        command += ["--catalog", _selection(command, only, temporary)]
    return command


def _selection(command: Sequence[str], only: Sequence[str], temporary: Path) -> str:
    """Return the path of a catalog of the tap in which these streams alone are selected."""
    found = subprocess.run([*command, "--discover"], stdout=subprocess.PIPE, check=False)
    if found.returncode:
        msg = "The tap could not discover its streams; see its own lines"
        raise PipelineError(msg, "failed", found.returncode)
    catalog = json.loads(found.stdout)
    for stream in catalog["streams"]:
        selected = _is_one_of(stream["tap_stream_id"], only)
        stream["selected"] = selected
        for part in stream.get("metadata", ()):
            if not part["breadcrumb"]:
                part["metadata"]["selected"] = selected
    (temporary / "catalog.json").write_text(json.dumps(catalog))
    return str(temporary / "catalog.json")


def _is_one_of(name: str, only: Sequence[str]) -> bool:
    return any(name == one or fnmatch.fnmatchcase(name, one) for one in only)


@contextmanager
def _signals_to(source: subprocess.Popen[bytes], sink: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    """Pass SIGINT and SIGTERM on in a block: to the tap, so that the target loads what came; a second one to both."""
    received: list[int] = []

    def end(number: int, frame: object) -> None:  # noqa: ARG001 - the signature of handlers
        received.append(number)
        for process in (source, *([sink] if len(received) > 1 else [])):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)

    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _state_in(line: bytes) -> dict[str, Any] | None:
    """Return the STATE in a line of a target; None: it is something else."""
    try:
        given = json.loads(line)
    except ValueError:
        return None
    return given if isinstance(given, dict) else None


def _figures(folder: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the reports that tap and target have written for this run."""
    written = ReportFolder(Storage(), Url.parse(str(folder / "figures")))
    with suppress(NotFoundError):
        yield from filter(None, map(written.read, written.names()))


def _place(text: str, folder: Path) -> Url:
    return Url.parse(text if "://" in text else str(folder / text))


# The command `singer-arrow run`.

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MOST_PAUSE = 3600.0


class _Duration(click.ParamType[float]):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        if found := re.fullmatch(r"(\d+)([smhd])", str(value), re.ASCII):
            return float(found[1]) * _UNITS[found[2]]
        raise click.BadParameter(f"{value!r} is no duration; it reads 30s, 5m, 1h or 1d", ctx, param)


@main.command("run")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--only", multiple=True, metavar="STREAM", help="Run this stream, or pattern, alone; repeatable.")
@click.option("--full-refresh", is_flag=True, help="Run without STATE, as if for the first time.")
@click.option("--dry-run", is_flag=True, help="Show what a run would read and what loading needs; reads no data.")
@click.option("--every", type=_Duration(), metavar="TIME", help="Run again after 30s, 5m, 1h or 1d, until stopped.")
@click.option("--health", type=click.Path(dir_okay=False), help="With --every: file that is written after each run.")
def run_command(
    file: str, only: Sequence[str], *, full_refresh: bool, dry_run: bool, every: float | None, health: str | None
) -> None:
    """Run the pipeline that FILE describes: tap, target, and where STATE is kept.

    The exit code is 0 if all is loaded. After a failure, run it again: it continues.
    """
    if dry_run:
        sys.exit(_show_plan(file, only))
    if every is None:
        sys.exit(_run_once(file, only, full_refresh=full_refresh)[0])
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    failures = 0
    while not stopped.is_set():
        code, line = _run_once(file, only, full_refresh=full_refresh and not failures)
        full_refresh = full_refresh and code != 0
        if code in (128 + signal.SIGINT, 128 + signal.SIGTERM):
            sys.exit(code)
        failures = failures + 1 if code else 0
        if health:
            status = {"ended_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "exit_code": code, "failures": failures}
            Storage().put(Url.parse(health), json.dumps({**status, "error": line}).encode())
        stopped.wait(every if not failures else min(max(every, _MOST_PAUSE), every * 2 ** min(failures, 12)))


def _run_once(file: str, only: Sequence[str], *, full_refresh: bool) -> tuple[int, str | None]:
    """Run a pipeline, and return its exit code and the line of its error."""
    try:
        result = run(file, only=only, full_refresh=full_refresh)
    except SingerArrowError as error:
        line = with_code(str(error), error.code)
        click.echo(f"singer-arrow: {line}", err=True)
        return getattr(error, "exit_code", 1), line
    for stream, counts in result.streams.items():
        click.echo(f"{stream}: {counts.get('rows_written', 0):,} rows", err=True)
    return 0, None


def _show_plan(file: str, only: Sequence[str]) -> int:
    """Have the tap show what a run would read, from the STATE on; the STATE file is only read."""
    try:
        described, folder = read_pipeline(file)
        with temporary_folder("pipeline-") as temporary:
            command = _command(described, "tap", only, folder, temporary)
            if described.state:
                with suppress(NotFoundError):
                    given = json.loads(Storage().read(_place(described.state, folder))[0])
                    given.pop(_OWNER, None)
                    (temporary / "state.json").write_text(json.dumps(given))
                    command += ["--state", str(temporary / "state.json")] if given else []
            kind = described.target.name.removeprefix("target-")
            command += ["--plan", *(["--target", kind] if kind in ("bigquery", "redshift") else [])]
            return subprocess.run(command, check=False).returncode
    except SingerArrowError as error:
        click.echo(f"singer-arrow: {with_code(str(error), error.code)}", err=True)
        return 1
