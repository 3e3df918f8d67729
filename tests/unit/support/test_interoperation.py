"""Storage and comparison of source values, and pins of public taps and targets."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from interoperation import captures, environments
from interoperation.captures import Facts
from interoperation.taps import TAPS
from interoperation.targets import TARGETS
from interoperation.values import differences, from_json, same, to_json

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)


def test_values_are_kept_as_json() -> None:
    row = {"d": Decimal("1.10"), "t": MOMENT, "day": date(2026, 1, 2), "c": time(1), "b": b"\x00", "l": [{"a": None}]}

    assert from_json(to_json([row])) == [row]


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        (Decimal("1.10"), Decimal("1.1")),
        (1.5, Decimal("1.5")),
        (MOMENT, MOMENT.replace(tzinfo=None)),
        ({"a": [1, None]}, '{"a": [1.0, null], "b": null}'),
        (None, None),
    ],
)
def test_same(expected: Any, found: Any) -> None:
    assert same(expected, found)


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        (Decimal("1.10"), 1.1),
        (2**63 - 1, float(2**63 - 1)),
        (1, True),
        (1, "1"),
        ("", None),
        (MOMENT, MOMENT.isoformat()),
        (date(2026, 1, 2), MOMENT),
        ({"a": 1}, {"a": True}),
        ([1], [1, 2]),
    ],
)
def test_not_same(expected: Any, found: Any) -> None:
    assert not same(expected, found)


def test_the_first_difference_is_named() -> None:
    rows = [{"id": 1, "A": "x"}, {"id": 2, "A": None}]

    assert differences(rows, [{"id": 2, "a": None}, {"id": 1, "a": "x", "_sdc_b": 1}], "id") == ""
    assert differences(rows, [{"id": 2, "a": None}, {"id": 1, "a": "y"}], "id") == "A of row 1 is 'y' instead of 'x'"
    assert differences(rows, [{"id": 2, "a": None}, {"id": 3, "a": "y"}], "id") == "row 1 is missing"
    assert differences(rows, [{"id": 2}], "id") == "1 rows instead of 2"


def test_a_capture_can_be_loaded_from_another_folder(tmp_path: Path) -> None:
    made, there = tmp_path / "made", tmp_path / "there"
    made.mkdir()
    there.mkdir()
    (made / "1.parquet").write_bytes(b"rows")
    facts = Facts("tap-x", "1.0", "singer-sdk 1", "3.11", "BATCH, Parquet", 1, "things", "id", "")
    message = f'{{"type": "BATCH", "manifest": ["{(made / "1.parquet").as_uri()}"]}}'
    captures.write(tmp_path / "captures" / "x", facts, message.encode(), made, [{"id": 1, "a": Decimal(2)}])

    (capture,) = captures.captures(tmp_path / "captures")
    assert capture.facts == facts
    assert capture.expected() == [{"id": 1, "a": Decimal(2)}]
    assert capture.messages(there).decode() == message.replace(made.as_uri(), there.as_uri())
    assert (there / "1.parquet").read_bytes() == b"rows"


@pytest.mark.parametrize("known", [TAPS, TARGETS], ids=["taps", "targets"])
def test_all_are_pinned(known: Any) -> None:
    for each in known.values():
        lines = (environments.PINS / f"{each.peer.package}.txt").read_text().splitlines()
        assert each.peer.package in environments.versions(each.peer.package)
        assert all("==" in line for line in lines)


def test_nothing_else_is_pinned() -> None:
    packages = {each.peer.package for each in [*TAPS.values(), *TARGETS.values()]}
    assert {path.stem.removesuffix(environments.ARROW_SUFFIX) for path in environments.PINS.glob("*.txt")} == packages
