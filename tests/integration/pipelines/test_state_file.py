"""The file of STATE of `singer-arrow run` is what it was where it should be, and refused where it is something else.

Tap and target are shell scripts, as of other authors.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from forked_programs import ForkedPrograms

STATE = {"bookmarks": {"s": {"n": 1}}}
KEEPS_ITS_STATE = """#!/bin/sh
while [ $# -gt 0 ]; do case $1 in --state) cp "$2" given.json;; esac; shift; done
"""


class Scripts:
    """A pipeline of two scripts in a folder, which is the working directory; its STATE is in state.json."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._run = folder, ForkedPrograms(os.environ, folder)
        self.state = folder / "state.json"
        self.tap("#!/bin/sh\n")

    def tap(self, text: str) -> None:
        self._write("tap-script", text)

    def target(self, state: str) -> None:
        """Let the target write a STATE once it has read all."""
        (self.folder / "written").write_text(f"{state}\n")
        self._write("target-script", "#!/bin/sh\ncat > /dev/null\ncat written\n")

    def run(self, code: int = 0, *options: str, **settings: object) -> list[str]:
        """Run the pipeline and return the lines on standard error; `settings` are those of the target."""
        tap = {"name": "./tap-script", "config": {"streams": [{"name": "a"}, {"name": "b"}]}}
        described = {"tap": tap, "target": {"name": "./target-script", "config": settings}, "state": "state.json"}
        (self.folder / "pipeline.yml").write_text(json.dumps(described))
        ran = self._run("singer-arrow", "run", self.folder / "pipeline.yml", *options, timeout=60)
        assert (ran.code, "Traceback" in ran.stderr) == (code, False), ran.stderr
        return ran.stderr.splitlines()

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scripts:
    monkeypatch.chdir(tmp_path)
    made = Scripts(tmp_path)
    made.target(json.dumps(STATE))
    return made


def test_a_link_is_followed_and_stays(scripts: Scripts) -> None:
    (scripts.folder / "kept").mkdir()
    scripts.state.symlink_to("kept/orders.json")
    scripts.run()
    assert scripts.state.is_symlink()
    assert json.loads((scripts.folder / "kept/orders.json").read_text())["bookmarks"] == STATE["bookmarks"]


def test_a_lock_that_is_a_link_is_refused_and_what_is_behind_it_stays(scripts: Scripts) -> None:
    (scripts.folder / "precious").write_text("kept")
    Path(f"{scripts.state}.lock").symlink_to("precious")
    assert "state.json.lock is no regular file; remove it [config]" in scripts.run(1)[-1]
    assert (scripts.folder / "precious").read_text() == "kept"


@pytest.mark.parametrize("name", ["state.json", "state.json.lock"])
def test_a_pipe_is_refused_instead_of_waited_for(scripts: Scripts, name: str) -> None:
    os.mkfifo(scripts.folder / name)
    assert "is no regular file" in scripts.run(1)[-1]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ('{"bookmarks": null}', "'bookmarks' is no object"),
        ('{"bookmarks": []}', "'bookmarks' is no object"),
        (f'{{"bookmarks": {{"s": {"[" * 100_000}{"]" * 100_000}}}}}', "nested too deeply"),
    ],
    ids=["null", "a list", "deep"],
)
def test_a_state_that_the_next_run_could_not_use_is_refused_at_once(scripts: Scripts, state: str, words: str) -> None:
    scripts.run()
    before = scripts.state.read_text()
    scripts.target(state)
    assert words in scripts.run(1)[-1]
    assert json.loads(scripts.state.read_text()) == json.loads(before)


def test_a_file_that_is_nested_deeply_is_no_state(scripts: Scripts) -> None:
    scripts.state.write_text(f'{{"bookmarks": {"[" * 100_000}{"]" * 100_000}}}')
    assert "is no STATE" in scripts.run(1)[-1]


def test_members_of_a_state_are_kept_whatever_their_names(scripts: Scripts) -> None:
    given: dict[str, Any] = {**STATE, "run": "mine", "target": "mine", "state": {"x": 1}, "currently_syncing": "s"}
    scripts.target(json.dumps(given))
    scripts.tap(KEEPS_ITS_STATE)
    for _ in range(2):
        scripts.run()
    assert json.loads((scripts.folder / "given.json").read_text()) == given


def test_the_target_of_a_state_is_kept_for_each_stream(scripts: Scripts) -> None:
    scripts.target(json.dumps({"bookmarks": {"a": {"n": 1}, "b": {"n": 1}}}))
    scripts.run(dataset="old")
    line = scripts.run(1, dataset="new")[-1]
    assert "belongs to a target with dataset 'old', and the pipeline's target now has dataset 'new'" in line
    assert "run it with --full-refresh. " in line
    scripts.target(json.dumps({"bookmarks": {"a": {"n": 2}}}))
    scripts.run(0, "--full-refresh", "--only", "a", dataset="new")
    kept = json.loads(scripts.state.read_text())
    assert kept["bookmarks"] == {"a": {"n": 2}, "b": {"n": 1}}
    assert {name: target["dataset"] for name, target in kept["target"].items()} == {"a": "new", "b": "old"}
    scripts.run(0, "--only", "a", dataset="new")
    (line,) = scripts.run(1, dataset="new")
    assert "The STATE of stream 'b' in" in line
    assert "run it with --full-refresh --only b. " in line
    scripts.target(json.dumps({"bookmarks": {"b": {"n": 3}}}))
    scripts.run(0, "--full-refresh", "--only", "b", dataset="new")
    scripts.run(dataset="new")


@pytest.mark.parametrize(
    "given", [{"streams": {"a": {"table": "x"}}}, {"streams": {"a*": {"table": "x"}}}, {"tables": {"a": "x"}}]
)
def test_a_table_that_is_named_concerns_only_its_stream(scripts: Scripts, given: dict[str, object]) -> None:
    scripts.target(json.dumps({"bookmarks": {"a": {"n": 1}, "b": {"n": 1}}}))
    scripts.run()
    (line,) = scripts.run(1, **given)
    assert "The STATE of stream 'a' in" in line
    assert "belongs to a target with no table, and the pipeline's target now has table 'x'" in line
    scripts.run(0, "--only", "b", **given)


def test_a_state_without_bookmarks_belongs_to_its_target(scripts: Scripts) -> None:
    scripts.target(json.dumps({"offset": 7}))
    scripts.run(dataset="old")
    assert "belongs to a target with dataset 'old'" in scripts.run(1, dataset="new")[-1]
    scripts.run(0, "--full-refresh", dataset="new")


def test_a_state_that_was_put_there_gets_the_target_of_the_first_run(scripts: Scripts) -> None:
    """Also its streams that this run does not load."""
    scripts.state.write_text(json.dumps({"bookmarks": {"a": {"n": 1}, "b": {"n": 1}}}))
    scripts.target(json.dumps({"bookmarks": {"a": {"n": 2}}}))
    scripts.run(0, "--only", "a", dataset="old")
    assert "The STATE of stream 'b' in" in scripts.run(1, "--only", "b", dataset="new")[-1]
