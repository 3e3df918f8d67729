"""Faults on request: rules for statements, and the log of clients' statements. Pure."""

import json
import re
import threading
from collections import deque
from dataclasses import dataclass, fields
from typing import Any, Literal

from local_cloud.redshift.errors import RedshiftError

RuleDict = dict[str, Any]
_LOG_LENGTH = 20_000  # statements
_LOGGED = 20_000  # characters of each
_SECRET = re.compile(
    r"(?is)\b(access_key_id|secret_access_key|session_token|credentials|password|master_symmetric_key)"
    r"(\s+(?:as\s+)?)'(?:[^'\\]|''|\\.)*'"
)


def masked(text: str) -> str:
    """Return a statement without its credentials."""
    return _SECRET.sub(r"\1\2'***'", text)


@dataclass(frozen=True)
class Rule:
    """A fault of statements."""

    match: str = ""  # regular expression, searched for in the statement as the client sent it, case-insensitive
    # `kill` ends the session of PostgreSQL and resets the client's connection; `none` only waits.
    action: Literal["kill", "error", "none"] = "none"
    # `before` the statement is executed; `middle`, during it (a COPY then has sent half of its rows); `after` it was
    # executed but before the client gets its answer, which for COMMIT means that it is committed. `error` in the middle
    # is for COPY only, and like `before` for other statements.
    at: Literal["before", "middle", "after"] = "before"
    message: str = "1023"  # of an `error`; by default the serialization error
    code: str = "XX000"  # SQLSTATE
    detail: str = ""
    delay_s: float = 0.0  # first, unless the client disconnects; in the middle, time for the statement to run
    skip: int = 0  # number of matching statements that pass first
    times: int | None = None  # maximum number of uses; None: no limit

    def error(self) -> RedshiftError:
        """Return the error for the client."""
        detail = self.detail or ("Serializable isolation violation on table" if self.message == "1023" else "")
        return RedshiftError(self.message, self.code, detail)


def parse(text: str) -> list[Rule]:
    """Return the rules of a JSON text."""
    try:
        found = json.loads(text)
        if not isinstance(found, list) or not all(isinstance(rule, dict) for rule in found):
            raise ValueError("a list of objects is expected")
        rules = [_rule(rule) for rule in found]
    except (ValueError, TypeError, re.error) as error:
        raise RedshiftError(f"wrong faults: {error}", "22023") from None
    return rules


def _rule(given: RuleDict) -> Rule:
    if unknown := set(given) - {field.name for field in fields(Rule)}:
        raise ValueError(f"unknown key {', '.join(sorted(unknown))}")
    rule = Rule(**given)
    re.compile(rule.match)
    if rule.action not in ("kill", "error", "none"):
        raise ValueError(f"unknown action {rule.action}")
    if rule.at not in ("before", "middle", "after"):
        raise ValueError(f"unknown moment {rule.at}")
    return rule


class Faults:
    """The rules in force, with counts. The first rule that matches a statement applies, except to `LOCAL CLOUD ...`."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []
        self._seen: list[int] = []
        self._applied: list[int] = []
        self._lock = threading.Lock()

    def set(self, rules: list[Rule]) -> list[int]:
        """Replace the rules and return how often each former one applied."""
        with self._lock:
            applied, self._applied = self._applied, [0] * len(rules)
            self._rules, self._seen = rules, [0] * len(rules)
        return applied

    def of(self, statement: str) -> Rule | None:
        """Return the rule that applies to a statement, and count its use."""
        if statement[:11].upper() == "LOCAL CLOUD":
            return None
        with self._lock:
            for index, rule in enumerate(self._rules):
                if not re.search(rule.match, statement, re.IGNORECASE | re.DOTALL):
                    continue
                self._seen[index] += 1
                used = self._seen[index] - rule.skip
                if used > 0 and (rule.times is None or used <= rule.times):
                    self._applied[index] += 1
                    return rule
        return None


class Statements:
    """The clients' statements, the newest last, up to a maximum number."""

    def __init__(self) -> None:
        self._texts: deque[str] = deque(maxlen=_LOG_LENGTH)

    def add(self, text: str) -> None:
        """Add a statement without its credentials. A very long one is cut."""
        self._texts.append(masked(text)[:_LOGGED])

    def all(self) -> list[str]:
        """Return all statements of the log."""
        return list(self._texts)
