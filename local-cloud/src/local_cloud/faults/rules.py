"""The rules of the fault proxy, and the decision on each request. Pure."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

Action = Literal["none", "error", "reset", "truncate", "stall", "hang"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. The default values have no effect; delays and stalls end when other rules are set."""

    match: str = ""  # regular expression searched for in "METHOD /path?query"
    # `error` answers with `status` and `code`; `reset` ends the connection by RST; `truncate` sends the headers and
    # the first `keep` of the body, then closes; `stall` sends as much and then nothing for `stall_s`; `hang` sends
    # nothing at all for `stall_s`, then closes; `none` only delays.
    action: Action = "none"
    forward: bool = False  # with `error`, `reset`, `hang`: the service executes the request, only its answer is lost
    status: int = 503  # of an `error`
    code: str = "SlowDown"  # such as InvalidAccessKeyId, ExpiredToken, or a reason of BigQuery
    message: str = "A fault made by the fault proxy."
    keep: float = 0.5  # share of the body (0 to 1)
    stall_s: float = 3600.0
    probability: float = 1.0  # of the action, for each matching request (0 to 1)
    skip: int = 0  # number of matching requests that pass first
    times: int | None = None  # maximum number of actions; absent: no limit
    delay_ms: float = 0.0  # before the first byte of every matching request
    jitter_ms: float = 0.0  # maximum of a random further delay
    mb_per_s: float = 0.0  # maximum rate of one connection in million bytes a second; 0 is no limit


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on one request: a delay in seconds, bytes a second (0: any), and the rule whose action fires."""

    delay_s: float = 0.0
    bytes_per_s: float = 0.0
    rule: Rule | None = None


class RuleError(ValueError):
    """A document of rules is invalid. The message names the rule and the key."""


def parse(document: Any) -> tuple[list[Rule], int]:
    """Return the rules of `[rule, ...]` or `{"seed": 0, "rules": [rule, ...]}`, and the seed of random numbers."""
    if isinstance(document, Mapping):
        if unknown := set(document) - {"seed", "rules"}:
            raise RuleError(f"unknown key {min(unknown)!r}; there are seed and rules")
        seed, listed = document.get("seed", 0), document.get("rules", [])
    else:
        seed, listed = 0, document
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not isinstance(seed, int):
        raise RuleError("rules must be a list, and seed a whole number")
    return [_rule(number, given) for number, given in enumerate(listed, 1)], seed


def _rule(number: int, given: Any) -> Rule:
    if not isinstance(given, Mapping):
        raise RuleError(f"rule {number} must be an object")
    known = {field.name for field in fields(Rule)}
    if unknown := set(given) - known:
        raise RuleError(f"rule {number}: unknown key {min(unknown)!r}; there are {', '.join(sorted(known))}")
    rule = Rule(**given)
    if rule.action not in get_args(Action):
        raise RuleError(f"rule {number}: unknown action {rule.action!r}; there are {', '.join(get_args(Action))}")
    try:
        re.compile(rule.match)
    except re.error as error:
        raise RuleError(f"rule {number}: match is no regular expression: {error}") from None
    return rule


class Rules:
    """The rules in force, with their counts and random numbers."""

    def __init__(self, rules: Sequence[Rule] = (), seed: int = 0) -> None:
        self._rules = list(rules)
        self._matched = [0] * len(self._rules)
        self._fired = [0] * len(self._rules)
        self._random = random.Random(seed)  # noqa: S311 - repeatable chances are the point

    def judge(self, request: str) -> Verdict:
        """Decide on "METHOD /path?query": delays add up; the lowest rate and the first action that fires apply."""
        delay, rate, decided = 0.0, 0.0, None
        for number, rule in enumerate(self._rules):
            if re.search(rule.match, request) is None:
                continue
            self._matched[number] += 1
            delay += rule.delay_ms + self._random.uniform(0, rule.jitter_ms)
            if rule.mb_per_s:
                rate = min(rate or rule.mb_per_s, rule.mb_per_s)
            if decided is None and self._fires(number, rule):
                self._fired[number] += 1
                decided = rule
        return Verdict(delay / 1e3, rate * 1e6, decided)

    def _fires(self, number: int, rule: Rule) -> bool:
        return (
            rule.action != "none"
            and self._matched[number] > rule.skip
            and (rule.times is None or self._fired[number] < rule.times)
            and self._random.random() < rule.probability
        )

    def report(self) -> list[dict[str, Any]]:
        """Return each rule with counts of its matches and firings."""
        counts = zip(self._rules, self._matched, self._fired, strict=True)
        return [asdict(rule) | {"matched": matched, "fired": fired} for rule, matched, fired in counts]
