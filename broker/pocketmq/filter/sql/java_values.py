"""Values of expressions, compared as in Java.

    str    String      of properties and literals
    int    Integer     literals up to 2**31 - 1
    Long   Long        larger literals
    float  Double
    bool   Boolean
    None   null

A text that is compared with a number is parsed as a number of that type. A text that is no number,
or is out of the type's range, is incomparable. That ends the evaluation of the whole expression,
and the message does not match. Doubles are ordered as by Double.compareTo: NaN equals itself and is
above everything, -0.0 is below 0.0.
Source: ComparisonExpression, Integer.valueOf, Double.valueOf.
"""

import re
from collections.abc import Callable
from math import copysign
from typing import Final

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
_WHOLE = re.compile(r"[+-]?\d+")
_DOUBLE = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]++\.?+[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[fFdD]?)"
)
_HEX_DOUBLE = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]++\.?+[0-9a-fA-F]*+|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++)[fFdD]?"
)
# Possessive quantifiers: backtracking over 31,000 digits took minutes.
_JAVA_BLANKS: Final = "".join(map(chr, range(33)))
_BASIC_PLANE_MAX: Final = "\uffff"


class Long(int):
    """An integer of Java's type Long; a text that is compared with it is parsed as a Long."""

    __slots__ = ()


Value = str | int | float | None


class Incomparable(Exception):
    """Error of two values that cannot be compared; the message does not match."""


def integer_of(text: str) -> int:
    """Parses an Integer.

    Errors   Incomparable
    """
    number = _whole(text)
    if not -INT_MAX - 1 <= number <= INT_MAX:
        raise Incomparable
    return number


def long_of(text: str) -> int:
    """Parses a Long.

    Errors   Incomparable
    """
    number = _whole(text)
    if not -LONG_MAX - 1 <= number <= LONG_MAX:
        raise Incomparable
    return number


def double_of(text: str) -> float:
    """Parses a Double; blanks around the number and a trailing f or d are allowed.

    Errors   Incomparable
    """
    text = text.strip(_JAVA_BLANKS)
    if _DOUBLE.fullmatch(text):
        return float(text if text[-1] in "yN" else text.rstrip("fFdD"))
    found = _HEX_DOUBLE.fullmatch(text)
    if found is None:
        raise Incomparable
    try:
        return float.fromhex(found[1])
    except OverflowError:
        return copysign(float("inf"), -1 if text[0] == "-" else 1)


def boolean_of(text: str) -> bool:
    """Parses a Boolean: "true" in any case is true, every other text is false."""
    return text.lower() == "true"


def _whole(text: str) -> int:
    # Digits of any script count, as in Character.digit, except those outside the basic plane.
    if len(text) > 64:
        text = _short(text)
    if text.isdecimal() or _WHOLE.fullmatch(text):
        if text.isascii() or max(text) <= _BASIC_PLANE_MAX:
            return int(text)
    raise Incomparable


def _short(text: str) -> str:
    """Returns a long text without leading zeros, as int() takes quadratic time.

    Errors   Incomparable: more than 64 digits remain
    """
    sign = text[0] if text[0] in "+-" else ""
    digits = text[len(sign) :].lstrip("0") or "0"
    if len(digits) > 64:
        raise Incomparable
    return sign + digits


READERS: Final[dict[type, Callable[[str], int | float]]] = {
    int: integer_of,
    Long: long_of,
    float: double_of,
    bool: boolean_of,
}
"""Parsers by type."""


def order(left: Value, right: Value) -> int:
    """Returns the sign of left - right; also -1 for a boolean and a number.

    Errors   Incomparable
    """
    assert left is not None
    assert right is not None
    kind, other = type(left), type(right)
    if kind is not other:
        if (kind is bool or other is bool) and str not in (kind, other):
            return -1
        if isinstance(left, str):
            left = READERS[other](left)
        elif isinstance(right, str):
            right = READERS[kind](right)
        elif float in (kind, other):
            left, right = float(left), float(right)
    if isinstance(left, float) and isinstance(right, float):
        return double_order(left, right)
    return (left > right) - (left < right)  # type: ignore[operator]  # of one type by now


def double_order(left: float, right: float) -> int:
    """Returns the sign of left - right by the rules of Double.compareTo."""
    if left < right:
        return -1
    if left > right:
        return 1
    if left == right and left != 0.0:
        return 0
    mine, other = (left != left, copysign(1, left)), (right != right, copysign(1, right))
    if mine[0] or other[0]:
        return mine[0] - other[0]
    return (mine[1] > other[1]) - (mine[1] < other[1])


def equal(left: Value, right: Value) -> bool | None:
    """Compares two values for equality; null equals null, null = x is null, x = null is false.

    Errors   Incomparable
    """
    if left is None or right is None:
        if left is right:
            return True
        return None if left is None else False
    return order(left, right) == 0
