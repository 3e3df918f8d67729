"""Conversion of the Decimals in parsed JSON, which the SDK uses for numbers with a point or an exponent. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

_LARGEST_EXPONENT = 308


def plain_numbers(value: Any) -> Any:
    """Return parsed JSON with ints and floats instead of Decimals, except those that neither represents exactly."""
    return _converted(value, _plain)


def whole_numbers(value: Any) -> Any:
    """Return parsed JSON with ints instead of Decimals without a fraction."""
    return _converted(value, _whole)


def _plain(number: Decimal) -> int | float | Decimal:
    whole = _whole(number)
    near = float(number)
    return whole if isinstance(whole, int) else near if Decimal(repr(near)) == number else number


def _whole(number: Decimal) -> int | Decimal:
    if number.is_finite() and number.adjusted() <= _LARGEST_EXPONENT and number == number.to_integral_value():
        return int(number)
    return number


def _converted(value: Any, convert: Callable[[Decimal], Any]) -> Any:
    if isinstance(value, Decimal):
        return convert(value)
    if isinstance(value, Mapping):
        return {key: _converted(inner, convert) for key, inner in value.items()}
    if isinstance(value, list):
        return [_converted(inner, convert) for inner in value]
    return value
