"""Selection of the fault for each request."""

import pytest

from local_cloud.faults.rules import Rule, RuleError, Rules, Verdict, parse


def test_a_list_or_a_document() -> None:
    rule = {"match": "GET", "action": "error", "times": 2}
    assert parse([rule]) == ([Rule(match="GET", action="error", times=2)], 0)
    assert parse({"seed": 7, "rules": [rule]}) == ([Rule(match="GET", action="error", times=2)], 7)
    assert parse([]) == ([], 0)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"rule": []}, "unknown key 'rule'"),
        ("GET", "rules must be a list"),
        ([[]], "rule 1 must be an object"),
        ([{}, {"probabilty": 1}], "rule 2: unknown key 'probabilty'"),
        ([{"action": "explode"}], "rule 1: unknown action 'explode'"),
        ([{"match": "("}], "rule 1: match is no regular expression"),
    ],
)
def test_what_cannot_be_understood(document: object, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        parse(document)


def test_without_rules_nothing_happens() -> None:
    assert Rules().judge("GET /b/k") == Verdict()


def test_delays_add_up_and_the_lowest_rate_holds() -> None:
    rules = Rules([Rule(delay_ms=10, mb_per_s=8), Rule(match="^PUT", delay_ms=500), Rule(delay_ms=5, mb_per_s=2)])
    assert rules.judge("GET /b/k") == Verdict(delay_s=0.015, bytes_per_s=2e6)


def test_the_first_action_that_fires_decides() -> None:
    first, second = Rule(match="GET", action="reset", times=1), Rule(action="error")
    rules = Rules([first, second])
    fired = [rules.judge(request).rule for request in ("PUT /b/k", "GET /b/k", "GET /b/k")]
    assert fired == [second, first, second]
    assert [(entry["matched"], entry["fired"]) for entry in rules.report()] == [(2, 1), (3, 2)]


def test_skip_and_times_count_what_matches() -> None:
    rules = Rules([Rule(match="GET", action="error", skip=1, times=2)])
    requests = ["GET /a", "PUT /a", "GET /a", "GET /a", "GET /a"]
    assert [rules.judge(request).rule is not None for request in requests] == [False, False, True, True, False]


def test_chances_and_jitter_repeat_with_the_seed() -> None:
    def verdicts(seed: int) -> list[Verdict]:
        rules = Rules([Rule(action="error", probability=0.5, jitter_ms=10)], seed)
        return [rules.judge("GET /a") for _ in range(20)]

    assert verdicts(1) == verdicts(1) != verdicts(2)
    assert {verdict.rule is None for verdict in verdicts(1)} == {True, False}
    assert all(0 <= verdict.delay_s <= 0.01 for verdict in verdicts(1))
