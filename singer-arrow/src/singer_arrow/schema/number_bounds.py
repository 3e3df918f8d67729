"""Whole numbers allowed by the bounds of a JSON Schema. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_LARGEST_EXPONENT = 400
"""Maximum exponent of a bound; all columns have fewer digits."""


def finite(value: Any) -> Decimal | None:
    """Return a number as a Decimal; None if it is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    number = Decimal(str(value)) if isinstance(value, float) else Decimal(value)
    return number if number.is_finite() and number.adjusted() <= _LARGEST_EXPONENT else None


def whole_limits(prop: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the smallest and largest whole number within the bounds; None if unbounded.

    Draft 4's `exclusiveMaximum: true` excludes `maximum` itself.
    """
    low, above = _bound(prop, "minimum", "exclusiveMinimum")
    high, below = _bound(prop, "maximum", "exclusiveMaximum")
    lows = [*([] if low is None else [math.ceil(low)]), *([] if above is None else [math.floor(above) + 1])]
    highs = [*([] if high is None else [math.floor(high)]), *([] if below is None else [math.ceil(below) - 1])]
    return max(lows, default=None), min(highs, default=None)


def _bound(prop: Mapping[str, Any], inclusive: str, exclusive: str) -> tuple[Decimal | None, Decimal | None]:
    bound = finite(prop.get(inclusive))
    return (None, bound) if prop.get(exclusive) is True else (bound, finite(prop.get(exclusive)))
