"""Errors end as one line and exit code 1; bugs keep their traceback; --version imports nothing."""

import errno
import logging
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from singer_sdk.exceptions import ConfigValidationError, InvalidRecord

from singer_arrow.errors import DataError, ServiceError
from singer_arrow.runtime.process import Terminated
from singer_arrow.sdk import cli


def failing(error: Exception) -> Callable[[], Callable[[], object]]:
    def command() -> None:
        raise error

    return lambda: command


@pytest.fixture(autouse=True)
def plain_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["tap-x"])
    monkeypatch.delenv("LOGLEVEL", raising=False)
    monkeypatch.delenv("LOG_LEVEL", raising=False)


def run(error: Exception) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging.getLogger(), "handlers", [])  # pytest's own; a process has none before the SDK sets one
        with pytest.raises(SystemExit) as ended:
            cli.run_connector("tap-x", failing(error))
    return int(str(ended.value.code))


def test_an_expected_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(DataError("it is\nno number", url="s3://b/a.csv", line=3)) == 1
    assert capsys.readouterr() == ("", "tap-x: s3://b/a.csv, line 3: it is no number [bad-row]\n")


def test_an_error_of_the_sdk_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(InvalidRecord("no record", {})) == 1
    assert capsys.readouterr().err.endswith(" [sdk]\n")


@pytest.mark.parametrize("options", [[], ["--version"]])
def test_a_closed_output_is_one_line(monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["tap-x", *options])
    monkeypatch.setattr(sys, "stdout", None)  # as Python has it when the descriptor is closed
    with pytest.raises(SystemExit, match="tap-x: Standard output is closed; pipe it into a target"):
        cli.run_connector("tap-x", failing(ServiceError("is not run")), package="singer-arrow")


def test_a_full_disk_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(OSError(errno.ENOSPC, "No space left on device", "/tmp/x")) == 1
    line = capsys.readouterr().err
    assert line.startswith("tap-x: The local disk refuses a file: No space left on device (/tmp/x); make room")
    assert line.endswith(" [disk]\n")
    assert line.count("\n") == 1


def test_no_folder_for_temporary_files_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", refuse)
    assert run(FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")) == 1
    line = capsys.readouterr().err
    assert line.startswith(
        "tap-x: The local disk refuses a file: No usable temporary directory found in ['/tmp']; make"
    )
    assert line.count("\n") == 1


@pytest.mark.parametrize(
    "error", [MemoryError(), pa.ArrowMemoryError("malloc"), RuntimeError("can't start new thread")]
)
def test_no_memory_and_no_threads_are_one_line(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(error) == 1
    line = capsys.readouterr().err
    assert line.startswith(
        f"tap-x: This process cannot get more memory or threads: {str(error) or 'out of memory'}; lower"
    )
    assert line.endswith(" [memory]\n")
    assert line.count("\n") == 1


def test_a_signal_that_a_library_made_another_error_of_ends_as_a_signal() -> None:
    def command() -> None:
        try:
            raise Terminated(15)
        except SystemExit as error:
            raise ServiceError(str(error)) from None

    with pytest.raises(SystemExit) as ended:
        cli.run_connector("tap-x", lambda: command)
    assert ended.value.code == 143


INTERRUPTED = """
import atexit, signal, sys, time
from singer_arrow.sdk import cli

class Finalized:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)

def command():
    Finalized()
    time.sleep(20)

at_end = sys.argv[1] == "at the end"
if at_end:
    atexit.register(command)
cli.run_connector("tap-x", lambda: dict if at_end else command)
"""


@pytest.mark.full
def test_a_signal_within_a_finalizer_ends_the_run() -> None:
    argv = [sys.executable, "-c", INTERRUPTED, "in the run"]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=25, check=False)
    assert (ran.returncode, ran.stderr) == (143, "")


RAISED_SINCE = """
import signal, time
from singer_arrow.runtime.process import Terminated
from singer_arrow.sdk import cli

class Finalized:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)

def command():
    Finalized()
    try:
        raise Terminated(signal.SIGTERM)  # as a line does that would begin
    finally:
        time.sleep(0.5)
        print("unwound")

cli.run_connector("tap-x", lambda: command)
"""


@pytest.mark.full
def test_a_signal_within_a_finalizer_that_took_effect_since_is_not_sent_again() -> None:
    argv = [sys.executable, "-c", RAISED_SINCE]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=25, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (143, "unwound\n", "")


@pytest.mark.full
def test_a_signal_within_a_finalizer_at_the_end_shows_no_traceback() -> None:
    argv = [sys.executable, "-c", INTERRUPTED, "at the end"]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=25, check=False)
    assert ran.returncode in (0, 143, -signal.SIGTERM)
    assert ran.stderr == ""


def test_each_problem_of_the_settings_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(ConfigValidationError("failed", errors=["one", "two"])) == 1
    assert capsys.readouterr().err == "tap-x: one\ntap-x: two\n"


def test_where_logging_is_set_up_the_line_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SystemExit):
        cli.run_connector("tap-x", failing(DataError("bad")))
    assert [(r.levelname, r.name, r.message) for r in caplog.records] == [("ERROR", "tap-x", "bad [data]")]


@pytest.mark.parametrize("variable", ["LOG_LEVEL", "LOGLEVEL", "TAP_X_LOGLEVEL"])
def test_debug_adds_the_traceback(
    variable: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "DEBUG")
    assert run(DataError("bad")) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.endswith("tap-x: bad [data]\n")


def test_a_bug_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        cli.run_connector("tap-x", failing(ZeroDivisionError()))


def test_version_does_not_load_the_connector(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["tap-s3-files", "--version"])
    cli.run_connector("tap-s3-files", failing(AssertionError()))
    assert capsys.readouterr().out.startswith("tap-s3-files v")


@pytest.mark.full
def test_version_imports_neither_the_sdk_nor_pyarrow() -> None:
    code = (
        "import sys; sys.argv = ['tap-s3-files', '--version']; "
        "from tap_s3_files.__main__ import main; main(); "
        "assert not {'singer_sdk', 'pyarrow', 'polars', 'obstore', 'boto3'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=30)


def test_windows_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit, match="^tap-x: Windows is not supported: run it in WSL or in a container$"):
        cli.run_connector("tap-x", failing(AssertionError("the connector was loaded")))


FULL = """
import resource, sys
from pathlib import Path
from singer_arrow.sdk import cli
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url

def put():
    Storage().put(Url.parse(sys.argv[1]), b"x" * 100_000)

def put_file():  # another file system than that of temporary files, which has room
    Path.replace = lambda self, target: (_ for _ in ()).throw(OSError(18, "Invalid cross-device link"))
    Storage().put_file(Url.parse(sys.argv[1]), Path(sys.argv[2]))

Path(sys.argv[2]).write_bytes(b"x" * 100_000)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
cli.run_connector("tap-x", lambda: globals()[sys.argv[3]])
"""


@pytest.mark.parametrize("how", ["put", "put_file"])
@pytest.mark.full
def test_a_full_disk_is_named_where_it_is(how: str, tmp_path: Path) -> None:
    target = tmp_path / "root" / "a.parquet"
    (tmp_path / "temporary").mkdir()
    env = {"TMPDIR": str(tmp_path / "temporary"), "PYTHONDONTWRITEBYTECODE": "1"}  # bytecode would be cut off too
    argv = [sys.executable, "-c", FULL, str(target), str(tmp_path / "source"), how]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env=env)
    reason = f"tap-x: The local disk refuses a file: File too large ({target}); make room or raise the limit, or name"
    assert (ran.returncode, ran.stderr) == (1, f"{reason} another place [disk]\n")


UNCLOSED = """
import resource, sys, time
from singer_arrow.sdk import cli

def leave():
    open(sys.argv[1], "wb", 1 << 20).write(b"x" * 100_000)  # its finalizer writes what is buffered
    time.sleep(0.5)
    raise OSError(27, "File too large", sys.argv[1])

resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
cli.run_connector("tap-x", lambda: leave)
"""


@pytest.mark.full
def test_a_file_that_its_finalizer_cannot_write_shows_no_traceback(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", UNCLOSED, str(tmp_path / "a")]
    env = {"PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert ran.returncode == 1
    assert [line.partition(":")[0] for line in ran.stderr.splitlines()] == ["tap-x", "tap-x"]
    assert all(line.endswith("[disk]") for line in ran.stderr.splitlines()), ran.stderr
