"""The measurements of `make house` count correctly."""

from __future__ import annotations

from pathlib import Path

import pytest

from house import circles, folders, pages, private, source, words
from house.source import Module

WORD, GIVEN = "nob" + "ody", "te" + "ll"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty workspace."""
    monkeypatch.setattr(source, "ROOT", tmp_path)
    monkeypatch.setattr(words, "ROOT", tmp_path)
    return tmp_path


def add(monkeypatch: pytest.MonkeyPatch, **texts: str) -> None:
    """Write modules of singer_arrow and tests as the content of the workspace."""
    paths = {}
    for name, text in texts.items():
        path = Path("tests" if name.startswith("test_") else "singer-arrow/src/singer_arrow", f"{name}.py")
        paths[path] = text
        (source.ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (source.ROOT / path).write_text(text)
    every = tuple(Module(path) for path in paths)
    ours = tuple(module for module in every if module.area == "singer_arrow")
    for user in (circles, folders, private, words):
        monkeypatch.setattr(user, "modules", lambda: every, raising=False)
        monkeypatch.setattr(user, "product", lambda: ours, raising=False)
    monkeypatch.setattr(words, "files", lambda: tuple(paths))


@pytest.mark.usefixtures("workspace")
def test_a_type_checking_circle_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from singer_arrow.a import A\n"
    add(monkeypatch, a="from singer_arrow import b\nimport singer_arrow.c\n", b=typed, c="")
    assert circles.circles() == [["singer_arrow.a", "singer_arrow.b"]]


@pytest.mark.parametrize(
    "text",
    [
        f'"""Text with {WORD}."""',
        f"x = 1  # {WORD}",
        f'x = f"{{1}} {WORD.title()}"',
        f"def find_{WORD}(): ...",
        f"def f({WORD}_else): ...",
        f"class Find{WORD.title()}: ...",
        f"x = 1\nx.{WORD} = 1",
    ],
)
@pytest.mark.usefixtures("workspace")
def test_an_excluded_word_is_found(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, a=f"y = 0\n{text}\n")
    (line,) = words.found()["singer_arrow"]
    assert line.lower().endswith(f": {WORD}")


@pytest.mark.usefixtures("workspace")
def test_a_standard_method_and_names_of_others_are_no_excluded_words(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, a=f"class Standard:\n    def {GIVEN}(self): ...\n\n\ny = open.{WORD}()\n")
    assert words.found()["singer_arrow"] == []


@pytest.mark.usefixtures("workspace")
def test_a_map_lists_every_module_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, __init__='"""Everything.\n\na      What is in it\ngone  Nothing\n"""', a="", b="")
    assert [fault.rpartition(": ")[2] for fault in folders.map_faults()] == [
        "the map misses b",
        "the map lists gone, which is gone",
    ]


@pytest.mark.usefixtures("workspace")
def test_private_members_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    test = "from singer_arrow.a import _b, c\nc._d = 1\nc._replace()\nx = 'singer_arrow.a._b'\nself._d\n"
    add(monkeypatch, a="def _b(): ...\n\n\nself._d = 0\n", test_a=test)
    assert sorted(private.uses()["tests/test_a.py"]) == ["1: _b", "2: _d", "4: _b"]


def test_words_that_programs_write_do_not_count(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "a.md": "# One two\n\n<!-- sources: x.py writes them -->\nthree four\n<!-- end of the sources -->\n\nfive\n",
        "b.md": "# One\n\nWritten by `docs/b.py`.\n",
        "c.py": "x = 1\n",
    }
    for name, text in texts.items():
        (workspace / name).write_text(text)
    monkeypatch.setattr(pages, "ROOT", workspace)
    monkeypatch.setattr(pages, "files", lambda: tuple(map(Path, texts)))
    pages.words.cache_clear()
    try:
        assert pages.words() == {"a.md": 4}
    finally:
        pages.words.cache_clear()
