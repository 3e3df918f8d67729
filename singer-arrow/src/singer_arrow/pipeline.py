"""A pipeline in one file: its description, its STATE, its run; the command `singer-arrow run`."""

from __future__ import annotations

import copy
import fnmatch
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from singer_arrow.errors import (
    ConfigError,
    DataError,
    NotFoundError,
    SingerArrowError,
    UnfinishedStreamError,
    one_line,
    with_code,
)
from singer_arrow.load.stream_ends import ONLY
from singer_arrow.monitoring.alerts import UNITS, Alerts, MetricsSettings, NotifySettings
from singer_arrow.monitoring.monitor import report_folder
from singer_arrow.monitoring.report import FAILED, INTERRUPTED, SUCCEEDED, Report, RunIdentity, RunOutcome, error_of
from singer_arrow.monitoring.report_pages import ReportFolder, main, run_page
from singer_arrow.naming import counted
from singer_arrow.runtime.children import KILL_SECONDS, Children, kill
from singer_arrow.runtime.process import FIGURES, PIPELINE, temporary_folder
from singer_arrow.sdk.settings import json_object, load_environment_file, object_file, problems, with_variables
from singer_arrow.settings import json_schema, read_settings, setting
from singer_arrow.state_file import OWNER, TARGET, StateFile, no_state
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url

logger = logging.getLogger("singer-arrow")

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
        "Where STATE is kept: a path, or a URL on S3, Google Cloud Storage or Azure, with the credentials of the "
        "environment. By default a file beside this one: pipeline.state.json beside pipeline.yml. One run at a time "
        "has it."
    )
    name: str = setting(
        "Its name in reports, messages and metrics; by default that of its file, without `.yml`.",
        default="pipeline",
        pattern=r"^[\w.-]+$",
    )
    report: str | None = setting("Setting report of both, where they have none of their own.")
    notify: NotifySettings | None = setting("Messages at the end of a run.")
    metrics: MetricsSettings | None = setting("Metrics at the end of a run.")


def read_pipeline(given: str | Path | Mapping[str, Any]) -> tuple[Pipeline, Path]:
    """Return a pipeline, and the folder that its paths are relative to; ConfigError names what is wrong in it."""
    folder, what = Path(), "The pipeline"
    if isinstance(given, Mapping):
        config: dict[str, Any] = copy.deepcopy(dict(given))
    else:
        folder, what = Path(given).absolute().parent, str(given)
        load_environment_file(folder)
        config = object_file(str(given), what)
        config.setdefault("state", f"{Path(given).stem}.state.json")
        config.setdefault("name", re.sub(r"[^\w.-]", "_", Path(given).stem))
    schema = json_schema(Pipeline)
    for name in set(config) - {"tap", "target"}:  # those of tap and target are replaced by these, by their own types
        config[name] = with_variables(config[name], schema["properties"].get(name, {}), os.environ, what)
    from singer_sdk.typing import DEFAULT_JSONSCHEMA_VALIDATOR

    for line in problems(config, schema, DEFAULT_JSONSCHEMA_VALIDATOR(schema).iter_errors(config)):
        raise ConfigError(f"{what}: {line}")
    return read_settings(Pipeline, config), folder


# A run: both processes with a pipe between them, as a shell with pipefail has them.


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """What a run has loaded.

    Attributes:
        streams: For each stream what the target counted, such as `rows_written`, `batches` and `bytes`.
        state: The last STATE of the target.
    """

    streams: Mapping[str, Mapping[str, int]]
    state: Mapping[str, Any]


class PipelineError(SingerArrowError):
    """The tap or the target of a pipeline failed.

    Attributes:
        code: That of its own error; `failed` if it has none.
        exit_code: That of the pipeline, as a shell with pipefail has it.
    """

    code = "failed"

    def __init__(self, message: str, code: str | None = None, exit_code: int = 1) -> None:
        super().__init__(message)
        self.code, self.exit_code = code or self.code, exit_code


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
    signals = _Signals()
    with signals.handled():
        return _run(pipeline, only, signals, set(), full_refresh=full_refresh)


def _run(
    pipeline: str | Path | Mapping[str, Any],
    only: Sequence[str],
    signals: _Signals,
    under_way: set[tuple[str, str]],
    *,
    full_refresh: bool,
) -> PipelineResult:
    described, folder = read_pipeline(pipeline)
    alerts = Alerts(described.name, folder, described.notify, described.metrics, is_partial=bool(only))
    identity = RunIdentity(connector=described.name, version="", host="", started_at=datetime.now(UTC))
    with ExitStack() as stack:
        # both commands; the STATE of the tap
        temporary = stack.enter_context(temporary_folder("pipeline-"))
        children = stack.enter_context(Children())
        stack.enter_context(_reported(identity, temporary, signals, alerts, under_way))
        tap = _command(described, "tap", only, folder, temporary)
        target = _command(described, "target", only, folder, temporary)
        file = None
        if described.state:

            def loads(stream: str) -> bool:
                return not (only and stream) or _is_one_of(stream, only)

            file = StateFile(
                Storage(),
                _place(described.state, folder),
                _tables_of(described.target, temporary),
                loads=loads,
                is_anew=lambda stream: full_refresh and loads(stream),
            )
        clean_up = _clean_up(tap, temporary)
        if clean_up and file is None:
            raise ConfigError("Setting 'after_load' needs 'state': what was loaded is known by STATE alone")
        claim = stack.enter_context(ExitStack())
        state: Mapping[str, Any] = claim.enter_context(file.claimed()) if file is not None else {}
        others = {n: b for n, b in state.get("bookmarks", {}).items() if only and not _is_one_of(n, only)}
        if full_refresh:  # the file has the former STATE until the target writes one
            state = {"bookmarks": others} if others else {}
        if state:
            (temporary / "state.json").write_text(json.dumps(state))
            tap += ["--state", str(temporary / "state.json")]

        # both processes, until the target closes its output
        environment = {**os.environ, FIGURES: str(temporary / "figures"), PIPELINE: f"{described.name} {identity.name}"}
        environment |= {ONLY: "1"} if only else {}
        lock = file.lock if file is not None else ()  # also of the target, which may outlive this process
        processes = list[subprocess.Popen[bytes]]()
        signals.processes = processes
        try:
            # in groups of their own: Ctrl-C is for this process, which lets the target load what came
            source = children.start(tap, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment)
            processes.append(source)
            sink = children.start(target, stdin=source.stdout, stdout=subprocess.PIPE, env=environment, pass_fds=lock)
            processes.append(sink)
            assert source.stdout is not None
            assert sink.stdout is not None
            source.stdout.close()  # so that the tap notices the end of the target
            if file is not None:
                file.processes = processes
                file.check()
            for line in sink.stdout:
                if (given := _state_in(line)) is not None:
                    state = {**given, "bookmarks": {**others, **given.get("bookmarks", {})}} if others else given
                    if file is not None:
                        file.save(state)
        except BaseException:
            for process in processes:
                process.terminate()
                if process.stdout is not None:
                    process.stdout.close()  # else it would wait for its reader
            for process in processes:
                try:
                    process.wait(KILL_SECONDS)
                except subprocess.TimeoutExpired:
                    kill(process)
            raise
        finally:
            codes = [process.wait() for process in reversed(processes)]

        # what they have counted, or the error of the target, else of the tap
        names = Path(described.target.name).name, Path(described.tap.name).name
        figures = {found["run"]["connector"]: found for found in _figures(temporary).values()}
        failed = [(name, code) for name, code in zip(names, codes, strict=True) if code]
        if failed:
            errors = [(figures.get(name) or {}).get("error") or {} for name, _ in failed]
            if len(errors) > 1 and errors[0].get("code") == UnfinishedStreamError.code:
                errors.reverse()  # the tap's is the cause: a stream is not whole
            name, code = failed[0]
            text = errors[0].get("message") or f"{name} ended with exit code {code}; see its own lines"
            number = code if code > 0 else 128 - code
            if signals.received:
                number = 128 + signals.received[0]
                text = f"Interrupted ({signal.Signals(signals.received[0]).name}); run it again, and it continues"
            raise PipelineError(text, errors[0].get("code"), number)

        # what becomes of the loaded objects, once the STATE that has passed them is durable; a run of some streams
        # would not know what others read
        claim.close()
        if clean_up and state and not only and not signals.received:
            (temporary / "state.json").write_text(json.dumps(state))
            with children.start(clean_up, stdin=subprocess.DEVNULL, env=environment) as process:
                signals.processes = (process,)
            if code := process.returncode:
                msg = f"All is loaded, but {names[1]} could not do all that after_load asks for; see its own lines"
                raise PipelineError(msg, None, code if code > 0 else 128 - code)
        loaded = (figures.get(names[0]) or {}).get("streams") or []
        return PipelineResult({stream["stream"]: stream["counts"] for stream in loaded}, state)


def _command(pipeline: Pipeline, role: str, only: Sequence[str], folder: Path, temporary: Path) -> list[str]:
    """Return the command of the tap or the target, with its settings in a file."""
    part: Connector = getattr(pipeline, role)
    name = str(folder / part.name) if os.sep in part.name else part.name
    program = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if program is None:
        raise ConfigError(f"Setting '{role}.name' is {part.name!r}, which is no executable here; install its package")
    given = part.config
    config = object_file(str(folder / given), f"'{role}.config'") if isinstance(given, str) else dict(given or {})
    if pipeline.report:
        config.setdefault("report", str(_place(pipeline.report, folder)))
    streams = config.get("streams")
    # names with a bracket are found in the bucket; other taps may have other streams
    has_names = isinstance(streams, list) and all(
        isinstance(s, dict) and "{" not in str(s.get("name", "{")) for s in streams
    )
    if streams and role == "tap" and only and has_names and not part.catalog:
        config["streams"] = [stream for stream in streams if _is_one_of(str(stream["name"]), only)]
        if not config["streams"]:
            raise ConfigError(f"No stream of 'tap.config' is one of {', '.join(only)}")
    path = temporary / f"{role}.json"
    path.write_text(json.dumps(config))
    is_set = any(variable.startswith(_prefix(part)) for variable in os.environ)
    command = [program, *(["--config=ENV"] if is_set else [])]
    command += ["--config", str(path)]
    if role == "tap" and (part.catalog or (only and not has_names)):
        catalog = str(folder / part.catalog) if part.catalog else None
        command += ["--catalog", _selection(command, catalog, only, temporary) if only else str(catalog)]
    return command


def _prefix(part: Connector) -> str:
    return f"{Path(part.name).name.upper().replace('-', '_')}_"


def _tables_of(target: Connector, temporary: Path) -> Callable[[str], dict[str, str]]:
    """Return a function from a stream to the settings of a target that decide which table it is loaded into."""
    config = json.loads((temporary / "target.json").read_text())
    names = "project", "dataset", "host", "dbname", "default_target_schema", "table_prefix"
    found = {name: config.get(name) or os.environ.get(f"{_prefix(target)}{name.upper()}") for name in names}
    texts = {name: str(value) for name, value in found.items() if value}
    of_all = {"name": Path(target.name).name, **with_variables(texts, {}, os.environ, "'target.config'")}
    of_streams, tables = (given if isinstance(given := config.get(n), dict) else {} for n in ("streams", "tables"))
    named = {name: s["table"] for name, s in of_streams.items() if isinstance(s, dict) and s.get("table")}
    named, tables = (with_variables(given, {}, os.environ, "'target.config'") for given in (named, tables))

    def exactness(name: str) -> int:
        return len(re.sub(r"[*?]|\[.*?\]", "", name))

    def target_of(stream: str) -> dict[str, str]:
        patterns = sorted(named, key=exactness, reverse=True), list(tables)  # in the order of `LoadSettings`
        for given, ordered in zip((named, tables), patterns, strict=True):
            for name in [stream, *ordered]:
                if name in given and (name == stream or fnmatch.fnmatchcase(stream, name)):
                    return {**of_all, "table": str(given[name])}
        return of_all

    return target_of


def _clean_up(tap: Sequence[str], temporary: Path) -> list[str]:
    """Return the command by which a tap does what its setting `after_load` asks for; [] if it has none."""
    state = str(temporary / "state.json")
    return [*tap, "--after-load", "--state", state] if _sets(tap, "after_load", temporary) else []


def _sets(tap: Sequence[str], name: str, temporary: Path) -> bool:
    """Return whether tap-s3-files has a setting, at any depth."""
    texts = f"{(temporary / 'tap.json').read_text()} {os.environ}"
    return f'"{name}"' in texts and Path(tap[0]).name == "tap-s3-files"  # as JSON has a key


def _selection(command: Sequence[str], given: str | None, only: Sequence[str], temporary: Path) -> str:
    """Return the path of a catalog, the given one or what the tap discovers, in which these streams alone are selected.

    Those that the catalog deselects stay so.
    """
    if given:
        catalog = object_file(given, "'tap.catalog'")
    else:
        command = [*command, "--discover"]
        with (
            Children() as children,
            children.start(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process,
        ):
            try:
                found, _ = process.communicate()
            except BaseException:
                kill(process)
                raise
        if code := process.returncode:
            msg = "The tap could not discover its streams; see its own lines"
            raise PipelineError(msg, None, code if code > 0 else 128 - code)
        catalog = json_object(found, "What the tap discovers")
    try:
        any_selected = _select(catalog, only)
    except (AttributeError, KeyError, TypeError):
        where = "'tap.catalog'" if given else "What the tap discovers"
        raise ConfigError(f"{where} is not a Singer catalog; correct it, or the tap, or leave out --only") from None
    if not any_selected:
        raise ConfigError(f"No stream of the tap's catalog is one of {', '.join(only)}")
    (temporary / "catalog.json").write_text(json.dumps(catalog))
    return str(temporary / "catalog.json")


def _select(catalog: Mapping[str, Any], only: Sequence[str]) -> bool:
    """Select some streams of a catalog in place, and return whether there is one; those that it deselects stay so.

    AttributeError, KeyError or TypeError: it is not a catalog.
    """
    any_selected = False
    for stream in catalog["streams"]:
        stream["metadata"] = parts = list(stream.get("metadata") or ())  # taps also write null
        roots = [part["metadata"] for part in parts if not part["breadcrumb"]]
        if not roots:
            roots = [{}]
            parts.append({"breadcrumb": [], "metadata": roots[0]})
        name = stream["tap_stream_id"] if "tap_stream_id" in stream else stream["stream"]
        selected = _is_one_of(name, only) and roots[0].get("selected") is not False
        stream["selected"] = roots[0]["selected"] = selected
        any_selected = any_selected or selected
    return any_selected


def _is_one_of(name: str, only: Sequence[str]) -> bool:
    return any(name == one or fnmatch.fnmatchcase(name, one) for one in only)


class _Signals:
    """SIGINT and SIGTERM while a pipeline runs.

    The first one ends the tap, so that the target loads what came; a second one ends both, and `KILL_SECONDS` later
    what has not ended by then is killed. Without processes, it ends this one.
    """

    def __init__(self) -> None:
        self.received = list[int]()
        self.processes: Sequence[subprocess.Popen[bytes]] = ()

    def _end(self, number: int, frame: object) -> None:  # noqa: ARG002 - the signature of handlers
        self.received.append(number)
        if not self.processes:
            raise SystemExit(128 + number)
        for process in self.processes[: len(self.received)]:
            process.terminate()
        if len(self.received) == 2:
            timer = threading.Timer(KILL_SECONDS, self._kill)
            timer.daemon = True
            timer.start()

    def _kill(self) -> None:
        for process in self.processes:
            kill(process)

    @contextmanager
    def handled(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._end) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _state_in(line: bytes) -> dict[str, Any] | None:
    """Return the STATE in a line of a target; None: it is something else.

    Raises:
        DataError: Its bookmarks are no object, or it is nested too deeply, so that the next run could not use it.
    """
    try:
        given = json.loads(line)
    except ValueError:
        return None
    except RecursionError:
        raise DataError("The target wrote a STATE that is nested too deeply; correct it in the tap") from None
    if not isinstance(given, dict):
        return None
    if not isinstance(given.get("bookmarks", {}), dict):
        raise DataError("The target wrote a STATE whose 'bookmarks' is no object; correct it in the tap")
    return given


def _figures(folder: Path) -> dict[str, Report]:
    """Return the reports that tap and target have written for this run, by their names."""
    written = ReportFolder(Storage(), Url.parse(str(folder / "figures")))
    with suppress(NotFoundError):
        return {name: found for name in written.names() if (found := written.read(name)) is not None}
    return {}


@contextmanager
def _reported(
    identity: RunIdentity, folder: Path, signals: _Signals, alerts: Alerts, under_way: set[tuple[str, str]]
) -> Iterator[None]:
    """Make one page of the reports of tap and target, and send alerts; what fails here is a warning."""
    outcome = RunOutcome(status=SUCCEEDED, exit_code=0)
    try:
        yield
    except BaseException as error:
        status = INTERRUPTED if signals.received else FAILED
        described = type(error).__name__, str(error), getattr(error, "code", None)
        code = getattr(error, "exit_code", 128 + signals.received[0] if signals.received else 1)
        outcome = RunOutcome(status=status, exit_code=code, error=described)
        raise
    finally:
        end = {"status": outcome.status, "exit_code": outcome.exit_code, "error": error_of(outcome)}
        reports = _figures(folder)
        for report in reports.values():
            report["pipeline"] = {"name": identity.connector, "run": identity.name, **end}
        for where in {where for report in reports.values() if (where := report["settings"].get("report"))}:
            try:
                texts = [json.loads((folder / f"{role}.json").read_text()) for role in ("tap", "target")]
                configs = [with_variables({"aws": c.get("aws")}, {}, os.environ, "'aws'") for c in texts]
                written = report_folder(where, next(filter(None, (config.get("aws") for config in configs)), None))
                for name, report in reports.items():
                    if report["settings"].get("report") == where:
                        written.write(name, report, page=False)
                written.write_page(f"{identity.name}.html", run_page(*reports.values()))
            except Exception as error:  # noqa: BLE001 - the observation is no reason for a run to fail
                logger.warning("The page of this run could not be written: %s", one_line(str(error)))
        alerts.send(identity.started_at, outcome, list(reports.values()), under_way)


def _place(text: str, folder: Path) -> Url:
    return Url.parse(text if "://" in text else str(folder / text))


# The command `singer-arrow run`.

_MOST_PAUSE = 3600.0
LEAST_PAUSE_SECONDS = 60.0
"""Between runs that messages of a queue start: BigQuery has a limit of loads of a table, 1,500 a day."""


class _Duration(click.ParamType[float]):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        if found := re.fullmatch(r"(\d+)([smhd])", str(value), re.ASCII):
            return float(found[1]) * UNITS[found[2]]
        raise click.BadParameter(f"{value!r} is no duration; it reads 30s, 5m, 1h or 1d", ctx, param)


@main.command("run")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--only", multiple=True, metavar="STREAM", help="Run this stream, or pattern, alone; repeatable.")
@click.option("--full-refresh", is_flag=True, help="Run without STATE, as if for the first time.")
@click.option("--dry-run", is_flag=True, help="Show what a run would read and what loading needs; reads no data.")
@click.option("--every", type=_Duration(), metavar="TIME", help="Run again after 30s, 5m, 1h or 1d, until stopped.")
@click.option("--health", type=click.Path(dir_okay=False), help="File that is written after each run.")
def run_command(
    file: str, only: Sequence[str], *, full_refresh: bool, dry_run: bool, every: float | None, health: str | None
) -> None:
    """Run the pipeline that FILE describes: tap, target, and where STATE is kept.

    The exit code is 0 if all is loaded, else that of the target, or of the tap. After a failure, run it again: it
    continues. With --every it is 0 if it was stopped between two runs.
    """
    if dry_run:
        sys.exit(_show_plan(file, only))
    if every is not None and full_refresh:
        raise click.UsageError("--full-refresh is for one run: leave out --every, and start that afterwards")
    signals, failures, under_way = _Signals(), 0, set[tuple[str, str]]()
    with signals.handled():
        while True:
            code, line = _run_once(file, only, signals, under_way, full_refresh=full_refresh)
            signals.processes = ()  # from here on, a signal ends this process
            if signals.received:
                sys.exit(code)
            failures = failures + 1 if code else 0
            if health:
                status = {"ended_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "exit_code": code}
                text = json.dumps({**status, "failures": failures, "error": line})
                try:
                    Storage().put(Url.parse(health), text.encode())
                except SingerArrowError as error:
                    click.echo(f"singer-arrow: {with_code(str(error), error.code)}", err=True)
            if every is None:
                sys.exit(code)
            pause = every if not failures else min(max(every, _MOST_PAUSE), every * 2 ** min(failures, 12))
            if failures:
                click.echo(
                    f"singer-arrow: {counted(failures, 'failure')} in a row; next run in {pause:,.0f} s", err=True
                )
            try:
                _pause(file, pause, signals, listens=not failures)
            except SystemExit:
                sys.exit(0)


def _pause(file: str, seconds: float, signals: _Signals, *, listens: bool) -> None:
    """Wait; a tap that reads a queue may end that once a message is there, `LEAST_PAUSE_SECONDS` after a run."""
    end = time.monotonic() + seconds
    time.sleep(min(seconds, LEAST_PAUSE_SECONDS))
    with suppress(SingerArrowError), temporary_folder("pipeline-") as temporary, Children() as children:
        described, folder = read_pipeline(file)  # an error is also that of the next run
        tap = _command(described, "tap", (), folder, temporary)
        if listens and _sets(tap, "queue_url", temporary) and (left := round(end - time.monotonic())) > 0:
            with children.start([*tap, "--wait", str(left)], stdin=subprocess.DEVNULL) as process:
                signals.processes = (process,)
            signals.processes = ()
            end = end if process.returncode else 0.0
    if signals.received:
        sys.exit(0)
    time.sleep(max(0.0, end - time.monotonic()))


def _run_once(
    file: str, only: Sequence[str], signals: _Signals, under_way: set[tuple[str, str]], *, full_refresh: bool
) -> tuple[int, str | None]:
    """Run a pipeline, and return its exit code and the line of its error."""
    try:
        result = _run(file, only, signals, under_way, full_refresh=full_refresh)
    except (SingerArrowError, OSError) as error:
        line = with_code(str(error), getattr(error, "code", "disk"))
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
            if Path(described.tap.name).name != "tap-s3-files":
                raise ConfigError(f"--dry-run shows the plans of tap-s3-files alone; {described.tap.name} has none")
            command = _command(described, "tap", only, folder, temporary)
            _command(described, "target", only, folder, temporary)  # an error names what is wrong
            clean_up = _clean_up(command, temporary)
            if described.state:
                with suppress(NotFoundError):
                    place = _place(described.state, folder)
                    try:
                        given = json.loads(Storage().read(place)[0])
                        given.pop(OWNER, None), given.pop(TARGET, None)
                    except (AttributeError, TypeError, ValueError):
                        raise no_state(place) from None
                    (temporary / "state.json").write_text(json.dumps(given))
                    command += ["--state", str(temporary / "state.json")] if given else []
            kind = Path(described.target.name).name.removeprefix("target-")
            code = 0
            if clean_up and "--state" in command and not only:
                code = subprocess.run([*clean_up, "--dry-run"], check=False).returncode
            command += ["--plan", *(["--target", kind] if kind in ("bigquery", "redshift") else [])]
            return subprocess.run(command, check=False).returncode or code
    except (SingerArrowError, OSError) as error:
        click.echo(f"singer-arrow: {with_code(str(error), getattr(error, 'code', 'disk'))}", err=True)
        return 1
