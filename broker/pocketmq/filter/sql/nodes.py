"""Compiles an expression into closures over a property block.

    evaluate(block) -> value     block as format/named_properties.property_block returns it
    truth(block) -> bool         or None, which is null

Logic is three-valued. AND is false if a side is false, OR is true if a side is true; otherwise the
result is null if a side is null. NOT null is null. Sides are evaluated from the left until the
result is known, so a comparison of incomparable values may remain unevaluated.
Source: LogicExpression, ComparisonExpression, UnaryExpression.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Final

from pocketmq.filter.sql.java_values import READERS, Value, double_of, double_order, equal, order
from pocketmq.format.named_properties import property_key, property_text

Evaluate = Callable[[bytes], Value]
Truth = Callable[[bytes], "bool | None"]
ORDERS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def constant(value: Value) -> Evaluate:
    """Compiles a constant."""
    return lambda block: value


def text_of(name: str) -> Callable[[bytes], str | None]:
    """Returns a reader of one property."""
    key = property_key(name)

    def read(block: bytes) -> str | None:
        return property_text(block, key)

    return read


def property_ordered(read: Callable[[bytes], str | None], symbol: str, limit: float) -> Truth:
    """Compiles `property < number`, or another order; parses the property as the number's type."""
    holds, number_of = ORDERS[symbol], READERS[type(limit)]
    if type(limit) is float:

        def ordered_double(block: bytes) -> bool | None:
            text = read(block)
            return None if text is None else holds(double_order(number_of(text), limit), 0)

        return ordered_double

    def ordered(block: bytes) -> bool | None:
        text = read(block)
        return None if text is None else holds(number_of(text), limit)

    return ordered


def values_ordered(left: Evaluate, symbol: str, right: Evaluate) -> Truth:
    """Compiles `value < value`, or another order; two texts are both parsed as doubles."""
    holds = ORDERS[symbol]

    def ordered(block: bytes) -> bool | None:
        mine = left(block)
        other = None if mine is None else right(block)
        if mine is None or other is None:
            return None
        if isinstance(mine, str) and isinstance(other, str):
            return holds(double_order(double_of(mine), double_of(other)), 0)
        return holds(order(mine, other), 0)

    return ordered


def property_is(read: Callable[[bytes], str | None], wanted: str) -> Truth:
    """Compiles `property = 'text'`."""

    def is_wanted(block: bytes) -> bool | None:
        text = read(block)
        return None if text is None else text == wanted

    return is_wanted


def property_equals(read: Callable[[bytes], str | None], wanted: int) -> Truth:
    """Compiles `property = integer`."""
    number_of = READERS[type(wanted)]

    def is_equal(block: bytes) -> bool | None:
        text = read(block)
        return None if text is None else number_of(text) == wanted

    return is_equal


def values_equal(left: Evaluate, right: Evaluate) -> Truth:
    """Compiles `value = value`."""
    return lambda block: equal(left(block), right(block))


def property_in(read: Callable[[bytes], str | None], texts: frozenset[str], found: bool) -> Truth:
    """Compiles `property IN (…)`; `found` is the result for a member of `texts`."""

    def is_in(block: bytes) -> bool | None:
        text = read(block)
        return None if text is None else (text in texts) is found

    return is_in


def text_tested(value: Evaluate, test: Callable[[str], bool], found: bool) -> Truth:
    """Compiles CONTAINS, STARTSWITH or ENDSWITH; if `found` is False, the negation.

    Both are false for a value that is no text.
    """

    def is_so(block: bytes) -> bool | None:
        text = value(block)
        return isinstance(text, str) and test(text) is found

    return is_so


def fits(value: Evaluate, test: Callable[[str], bool], found: bool) -> Truth:
    """Compiles LIKE; if `found` is False, NOT LIKE.

    Both are null for null, and false for any other value that is no text.
    """

    def is_fit(block: bytes) -> bool | None:
        text = value(block)
        if text is None:
            return None
        return isinstance(text, str) and test(text) is found

    return is_fit


def truth_of(value: Evaluate) -> Truth:
    """Compiles a property used as a condition: null if the property is missing, else false."""
    return lambda block: None if value(block) is None else False


def inverted(truth: Truth) -> Truth:
    """Compiles NOT."""

    def is_not(block: bytes) -> bool | None:
        found = truth(block)
        return None if found is None else not found

    return is_not


def nothing_after(truth: Evaluate) -> Evaluate:
    """Compiles the minus sign before a value that is no literal number: always null."""

    def nothing(block: bytes) -> None:
        truth(block)

    return nothing


def all_of(truths: Sequence[Truth]) -> Truth:
    """Compiles AND of two or more conditions."""
    return _joined(truths, False)


def any_of(truths: Sequence[Truth]) -> Truth:
    """Compiles OR of two or more conditions."""
    return _joined(truths, True)


def _joined(truths: Sequence[Truth], deciding: bool) -> Truth:
    if len(truths) == 2:
        first, second = truths

        def of_two(block: bytes) -> bool | None:
            one = first(block)
            if one is deciding:
                return deciding
            other = second(block)
            if other is deciding:
                return deciding
            return None if one is None or other is None else not deciding

        return of_two

    def of_many(block: bytes) -> bool | None:
        is_known = True
        for truth in truths:
            found = truth(block)
            if found is deciding:
                return deciding
            if found is None:
                is_known = False
        return not deciding if is_known else None

    return of_many
