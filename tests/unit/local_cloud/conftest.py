"""Helpers for the tests of COPY: files in memory, and rows as PostgreSQL would read them."""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from local_cloud.redshift import copy
from local_cloud.redshift.copy.sources import File

PREFIX = "s3://bucket/data/"
ROLE = "IAM_ROLE 'arn:aws:iam::123456789012:role/reader'"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}


@dataclass
class Memory:
    """Objects in memory."""

    objects: Mapping[str, bytes]
    opens: list[str] = field(default_factory=list)

    def listed(self, url: str) -> Iterator[File]:
        return (File(name, len(data)) for name, data in sorted(self.objects.items()) if name.startswith(url))

    def size(self, url: str) -> int | None:
        return len(self.objects[url]) if url in self.objects else None

    def opened(self, url: str) -> io.BufferedIOBase:
        self.opens.append(url)
        return io.BytesIO(self.objects[url])


@dataclass(frozen=True)
class Copied:
    """The result of a COPY.

    Attributes:
        rows: The values as text, None for NULL.
        failed: The error, if any.
    """

    rows: list[tuple[str | None, ...]]
    plan: copy.CopyPlan
    failed: copy.RedshiftError | None

    @property
    def reasons(self) -> list[tuple[int, str, int]]:
        """The invalid records: line, column, code."""
        return [(error.line, error.column, error.code) for error in self.plan.errors]


def _cell(text: str) -> str | None:
    """Parse a value of PostgreSQL's text format."""
    if text == "\\N":
        return None
    out, characters = "", iter(text)
    for character in characters:
        out += _ESCAPES[next(characters)] if character == "\\" else character
    return out


def read_payload(payload: bytes) -> list[tuple[str | None, ...]]:
    """Return the rows of a payload in PostgreSQL's text format."""
    lines = payload.decode().split("\n")
    assert lines.pop() == ""
    return [tuple(_cell(cell) for cell in line.split("\t")) for line in lines]


@pytest.fixture(scope="session")
def copied() -> Callable[..., Copied]:
    """Runs a COPY of files in memory: `copied("CSV", columns, b"...")`; more objects by URL as `others`."""

    def _copied(
        options: str,
        columns: Sequence[copy.Column],
        *files: bytes,
        others: Mapping[str, bytes] | None = None,
        source: str = PREFIX,
        slices: int = 2,
        names: str = "",
    ) -> Copied:
        objects = {f"{PREFIX}{index}": data for index, data in enumerate(files)} | dict(others or {})
        command = copy.parse(f"COPY t {names} FROM '{source}' {ROLE} {options}")
        plan = copy.run(command, columns, slices=slices, objects=Memory(objects))
        payload, failed = b"", None
        try:
            for chunk in plan.chunks:
                payload += chunk
        except copy.RedshiftError as error:
            failed = error
        return Copied(read_payload(payload), plan, failed)

    return _copied
