"""Inheritance between a target and the SDK."""

from __future__ import annotations

import inspect
from functools import cached_property

from house.source import PACKAGES

Chain = list[type]
"""The classes of ours that a class consists of, itself first."""


def chains() -> dict[str, Chain]:
    """Return the chain of each connector's target and of its sink, down to the classes of the SDK."""
    from target_bigquery.target import TargetBigQuery
    from target_redshift.target import TargetRedshift

    kinds: list[type] = []
    for target in (TargetBigQuery, TargetRedshift):
        kinds += [target, target.default_sink_class]
    return {
        kind.__name__: [base for base in kind.__mro__ if base.__module__.split(".")[0] in PACKAGES] for kind in kinds
    }


def methods(kind: type) -> int:
    """Return how many methods and properties a class defines itself."""
    kinds = (staticmethod, classmethod, property, cached_property)
    return sum(inspect.isfunction(member) or isinstance(member, kinds) for member in vars(kind).values())
