"""What a benchmark case consists of: contenders that do the same work, and the goals set for them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Command, Measured

Facts = dict[str, float]
"""What a contender's output amounts to, by name with its unit: rows, bytes, seconds that the harness cannot see."""


@dataclass(frozen=True)
class Contender:
    """One way of doing the work of a case.

    Attributes:
        name: how the table calls it.
        settings: what runs, with which settings; shown below the table.
        commands: the pipeline to run, given a new empty folder.
        facts: checks what came out and counts it, given that folder and what was measured; raises BenchmarkError if
            the output is wrong. `rows` and `bytes` are shown in every table.
        rounds: in how many rounds it takes part; all if None. For contenders that take minutes.
    """

    name: str
    settings: str
    commands: Callable[[Path], Sequence[Command]]
    facts: Callable[[Path, Measured], Facts]
    rounds: int | None = None


@dataclass(frozen=True)
class Goal:
    """A figure to reach: the median of `metric` of one contender.

    It is divided by that of another if `against` is given. If that names several, it is the best of them: the least for
    `at_most`, the greatest for `at_least`. With `turned` the other's, the least of several, is divided by this one's:
    how many times as fast it is.
    """

    text: str
    metric: str
    of: str
    against: str | Sequence[str] | None = None
    at_most: float | None = None
    at_least: float | None = None
    turned: bool = False


@dataclass(frozen=True)
class Case:
    """A comparison.

    Attributes:
        name: what the command line calls it.
        about: what is compared, in Markdown.
        contenders: the first one is what the table's ratios refer to.
        goals: shown with what was reached.
        columns: facts shown as columns of their own, by name, with the title of the column.
        rounds: how often each contender runs by default.
        picture: the figure that the bars of its picture show; by default CPU seconds, or rows per CPU second where
            contenders have different numbers of rows, or seconds where they have none.
        discard: input data that is too large to keep; removed when the case has run.
    """

    name: str
    about: str
    contenders: Sequence[Contender]
    goals: Sequence[Goal] = ()
    columns: tuple[tuple[str, str], ...] = ()
    rounds: int = 5
    picture: str | None = None
    discard: Sequence[Path] = ()
