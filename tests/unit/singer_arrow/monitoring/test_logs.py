"""Lines on standard error: JSON on request, also of a bug; metrics only where they are asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import Any

import pytest

SECRET = 'very "secret" value'
BROKEN = """
import sys, threading
from singer_arrow.sdk import cli
def load():
    from tap_s3_files.tap import TapS3Files
    class Broken(TapS3Files):
        def discover_streams(self):
            thread = threading.Thread(target=lambda: 1 / 0)
            thread.start()
            thread.join()
            raise RuntimeError(f"a bug with {self.config['aws']['secret_access_key']}")
    return Broken.cli
sys.argv[0] = "tap-s3-files"
cli.run_connector("tap-s3-files", load)
"""


class Runs:
    """Runs of the tap on a local file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "rows.csv").write_text("id\n1\n2\n")

    def __call__(self, *command: str, env: dict[str, str] | None = None, **settings: Any) -> tuple[int, list[str]]:
        config = {
            "streams": [{"name": "rows", "path": str(self.folder / "rows.csv")}],
            "aws": {"access_key_id": "AKIA-very-secret", "secret_access_key": SECRET},
            **settings,
        }
        file = self.folder / "config.json"
        file.write_text(json.dumps(config))
        line = [*(command or [str(Path(sys.executable).parent / "tap-s3-files")]), "--config", str(file)]
        ran = subprocess.run(line, capture_output=True, env={"PATH": "/usr/bin:/bin", **(env or {})}, check=False)
        return ran.returncode, ran.stderr.decode().splitlines()


@pytest.fixture
def run(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


@pytest.mark.full
def test_each_line_is_json(run: Runs) -> None:
    code, lines = run(log_format="json")
    logged = [json.loads(line) for line in lines]
    assert (code, {line["app_name"] for line in logged}) == (0, {"tap-s3-files"})
    (closing,) = [line for line in logged if "2 rows" in line["message"]]
    assert closing["stream_name"] == "rows"
    counts = [line["metric_info"] for line in logged if line["message"] == "METRIC"]
    assert [m["value"] for m in counts if m["metric"] == "record_count"] == [2]


@pytest.mark.full
def test_an_error_is_json(run: Runs) -> None:
    code, lines = run(log_format="json", streams=[{"name": "x", "path": str(run.folder / "nothing*")}])
    logged = [json.loads(line) for line in lines]
    assert (code, logged[-1]["level"]) == (1, "error")
    code, lines = run(log_format="json", stream=[])
    assert (code, json.loads(lines[-1])["message"].split(";")[0]) == (1, "Setting 'stream' does not exist")


@pytest.mark.parametrize("level", ["INFO", "debug"])
@pytest.mark.full
def test_the_traceback_of_a_bug_is_json_without_secrets(run: Runs, level: str) -> None:
    code, lines = run(sys.executable, "-c", BROKEN, log_format="json", env={"LOGLEVEL": level})
    logged = [json.loads(line) for line in lines]
    assert code == 1
    of_thread, of_run = [line["exception"] for line in logged if "exception" in line]
    assert (of_thread["type"], of_run["type"]) == ("ZeroDivisionError", "RuntimeError")
    assert of_run["traceback"][-1]["function"] == "discover_streams"
    assert of_run["message"] == "a bug with ***"
    assert not [line for line in lines if "secret" in line.replace("secret_access_key", "")]


@pytest.mark.full
def test_people_see_no_metrics_unless_they_ask(run: Runs) -> None:
    def metrics(**given: Any) -> int:
        code, lines = run(**given)
        assert code == 0
        return sum("METRIC" in line for line in lines)

    assert metrics() == 0
    assert metrics(log_metrics=True) == 5
    assert metrics(log_metrics=False, log_format="json") == 0


@pytest.mark.full
def test_a_logging_configuration_takes_precedence(run: Runs, tmp_path: Path) -> None:
    formatter = {"plain": {"format": "OWN %(message)s"}}
    handlers = {"out": {"class": "logging.StreamHandler", "formatter": "plain", "stream": "ext://sys.stderr"}}
    config = {"version": 1, "disable_existing_loggers": False, "formatters": formatter, "handlers": handlers}
    file = tmp_path / "logging.json"
    file.write_text(json.dumps(config | {"root": {"level": "INFO", "handlers": ["out"]}}))
    code, lines = run(log_format="json", env={"SINGER_SDK_LOG_CONFIG": str(file)})
    assert (code, {line[:4] for line in lines}) == (0, {"OWN "})
    assert sum("METRIC" in line for line in lines) == 5


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.full
def test_secrets_are_masked_by_value_also_in_tracebacks_of_bugs(log_format: str, run: Runs) -> None:
    token = "from-the-environment"
    streams = [{"name": f"rows {token}", "path": "/none/*.csv"}, {"name": SECRET, "path": "/none/*.csv"}]
    env = {"SOME_TOKEN": token}
    for command in ((), (sys.executable, "-c", BROKEN)):
        code, lines = run(*command, env=env, log_format=log_format, streams=streams, report=str(run.folder / "reports"))
        text = "\n".join(lines)
        assert code == 1
        assert "***" in text
        assert [s for s in (token, SECRET, json.dumps(SECRET)[1:-1]) if s in text] == []
    for file in (run.folder / "reports").iterdir():
        text = file.read_text()
        assert "***" in text
        assert [s for s in (token, SECRET, json.dumps(SECRET)[1:-1], escape(SECRET)) if s in text] == []


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.full
def test_control_characters_of_names_do_not_reach_a_terminal_or_a_page(log_format: str, run: Runs) -> None:
    name = "a\x1b[31m\u202eb\x9b"
    streams = [{"name": name, "path": str(run.folder / "rows.csv")}]
    code, lines = run(log_format=log_format, streams=streams, report=str(run.folder / "reports"))
    assert code == 0
    (page,) = (run.folder / "reports").glob("*.html")
    for text in ("".join(lines), page.read_text()):
        assert not {"\x1b", "\u202e", "\x9b"} & {*text}
        assert "31m" in text


@pytest.mark.full
def test_what_is_written_to_local_disks_is_for_the_user_alone(run: Runs) -> None:
    batch = {"encoding": {"format": "parquet"}, "storage": {"root": str(run.folder / "batches")}}
    code, _ = run(batch_config=batch, report=str(run.folder / "reports"))
    assert code == 0
    written = [p for name in ("batches", "reports") for p in (run.folder / name).rglob("*")]
    assert {p.suffix for p in written} >= {".parquet", ".html", ".json"}
    assert [p for p in written if p.stat().st_mode & 0o077] == []
