"""Words that the vocabulary excludes from names, docstrings, comments, messages and pages."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from house.source import PUBLISHED, ROOT, Module, area_of, files, modules

_VOCABULARY = tomllib.loads(Path(__file__).with_name("vocabulary.toml").read_text())
_GIVEN = frozenset(_VOCABULARY["given_names"])
_CLASS_NAMES = frozenset(_VOCABULARY["classes"])
_WORDS = "|".join(_VOCABULARY["words"])
_EXCLUDED = re.compile(rf"\b(?:{_WORDS})\b", re.IGNORECASE)
_CANDIDATE = re.compile(rf"{_WORDS}|{'|'.join(_CLASS_NAMES)}", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_TEXT_TOKENS = frozenset({"STRING", "COMMENT", "FSTRING_MIDDLE"})
NOT_CHECKED = frozenset({"docs/api.md"})
"""What is generated from docstrings."""

Findings = dict[str, list[str]]
"""`path:line: word` by area."""


def found() -> Findings:
    """Return the lines that contain an excluded word, by area, a line once."""
    result: Findings = defaultdict(list)
    for module in modules():
        result[module.area] += [
            f"{module.path}:{number}: {word}" for number, word in sorted(_in_module(module).items())
        ]
    for path in files():
        if path.suffix == ".md" and str(path) not in NOT_CHECKED:
            result[area_of(path)] += [f"{path}:{n}: {word}" for n, word in sorted(_in_page(path).items())]
    return result


def _in_page(path: Path) -> dict[int, str]:
    lines = (ROOT / path).read_text().splitlines()
    return {number: word for number, line in enumerate(lines, 1) if (word := _word_in(line))}


def _in_module(module: Module) -> dict[int, str]:
    words: dict[int, str] = {}
    if not _CANDIDATE.search(f"{module.path.stem} {module.text}".replace("_", " ")):
        return words
    if word := _word_in(module.path.stem.replace("_", " ")):
        words[1] = word
    for number, name in _definitions(module):
        if word := _word_in_name(name, published=module.area in PUBLISHED):
            words[number] = word
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if tokenize.tok_name[token.type] in _TEXT_TOKENS and token.string.strip("\"'") not in _GIVEN:
            for offset, line in enumerate(token.string.splitlines()):
                if word := _word_in(line):
                    words[token.start[0] + offset] = word
    return words


def _word_in(text: str) -> str | None:
    match = _EXCLUDED.search(text)
    return match[0] if match else None


def _word_in_name(name: str, *, published: bool) -> str | None:
    if name in _GIVEN:
        return None
    if published and name in _CLASS_NAMES:
        return name
    return _word_in(_CAMEL.sub(" ", name).replace("_", " "))


def _definitions(module: Module) -> Iterator[tuple[int, str]]:
    """Return the names that a module gives, not those that it uses: functions, classes, parameters, variables."""
    for node in module.nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
