"""What is to fail in the local Flight SQL server. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

Call = Literal["info", "get", "schema"]
Action = Literal["none", "lost", "expired", "restart", "hang", "error", "twice", "skip_rows", "slow"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A fault of calls."""

    # `info`: a query is run; `get`: the rows of one of its endpoints are sent; `schema`: its columns are asked for.
    call: Call = "get"
    match: str = ""  # regular expression, searched for in the text of the query
    endpoint: int | None = None  # number of the endpoint, from 0; absent: any
    # `lost`: the connection is lost (UNAVAILABLE); `expired`: the ticket is not known any more; `restart`: the process
    # that answers is killed and started again; `hang`: no answer for `delay_s`; `error`: an error with `message`;
    # `twice`: each endpoint is listed twice; `skip_rows`: the last batch of rows is left out; `slow`: rows are sent at
    # `mb_per_s`; `none`: nothing fails.
    action: Action = "none"
    after_batches: int = 0  # for `get`: how many batches of rows are sent before
    message: str = "A fault made by the local cloud."
    delay_s: float = 3600.0
    mb_per_s: float = 25.0  # megabytes a second
    then: str = ""  # a statement that runs after the call, such as an INSERT: rows change between two calls
    skip: int = 0  # number of matching calls that pass first
    times: int | None = None  # maximum number of faults; absent: no limit


class Faults:
    """The rules in force, and how often each has met a call."""

    def __init__(self, rules: Iterable[Mapping[str, Any]] = ()) -> None:
        known = {field.name for field in fields(Rule)}
        for rule in (given := list(rules)):
            if unknown := rule.keys() - known:
                raise ValueError(f"unknown key {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
        self._rules = [Rule(**rule) for rule in given]
        for rule_ in self._rules:
            if rule_.call not in get_args(Call) or rule_.action not in get_args(Action):
                raise ValueError(f"unknown call or action: {rule_.call}, {rule_.action}")
        self._met = [0] * len(self._rules)

    def of(self, call: Call, query: str, endpoint: int | None = None) -> Rule:
        """Return the rule for a call, and count it; the rule of no effect if there is none."""
        for number, rule in enumerate(self._rules):
            is_of_endpoint = rule.endpoint is None or rule.endpoint == endpoint
            if rule.call != call or not is_of_endpoint or not re.search(rule.match, query):
                continue
            self._met[number] += 1
            count = self._met[number] - rule.skip
            if count > 0 and (rule.times is None or count <= rule.times):
                return rule
        return Rule()

    def report(self) -> list[dict[str, Any]]:
        """Return the rules with the number of faults of each."""
        counts = (max(0, met - rule.skip) for met, rule in zip(self._met, self._rules, strict=True))
        return [
            asdict(rule) | {"fired": count if rule.times is None else min(count, rule.times)}
            for count, rule in zip(counts, self._rules, strict=True)
        ]
