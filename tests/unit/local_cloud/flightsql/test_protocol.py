"""Messages and faults of the local Flight SQL server."""

from __future__ import annotations

import pytest

from local_cloud.flightsql.faults import Faults, Rule
from local_cloud.flightsql.protocol import handle_of, parse, ticket


@pytest.mark.parametrize("size", [0, 1, 127, 128, 300, 70000])
def test_a_ticket_keeps_its_handle(size: int) -> None:
    handle = bytes(n % 256 for n in range(size))
    message = ticket(handle)
    assert handle_of(message) == handle
    assert parse(message).name == "TicketStatementQuery"


def test_other_messages_are_refused() -> None:
    with pytest.raises(ValueError, match="no message of Flight SQL"):
        parse(b"\x0a\x03abc")


def test_rules_are_counted() -> None:
    faults = Faults([{"action": "lost", "match": "t", "endpoint": 1, "skip": 1, "times": 2}])
    assert [faults.of("get", "t", 0).action, faults.of("get", "u", 1).action, faults.of("info", "t", 1).action] == [
        "none"
    ] * 3
    assert [faults.of("get", "t", 1).action for _ in range(4)] == ["none", "lost", "lost", "none"]
    assert faults.report()[0]["fired"] == 2
    assert Faults().of("get", "t") == Rule()


@pytest.mark.parametrize("rule", [{"what": 1}, {"action": "explode"}, {"call": "put"}])
def test_unknown_rules_are_refused(rule: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="unknown"):
        Faults([rule])
