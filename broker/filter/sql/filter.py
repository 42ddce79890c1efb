"""A SQL expression as a filter."""

from functools import lru_cache
from typing import Final

from broker.filter.sql.grammar import tree_of
from broker.filter.sql.java_values import Incomparable
from broker.filter.sql.nodes import Evaluate
from broker.format.named_properties import properties_size, property_block

KEPT_MAX: Final = 256
"""Expressions that are kept in their parsed form; a consumer sends its own with every pull."""

RECORD_NS: Final = 2_000
"""What a record costs beside its properties."""


class SqlFilter:
    """A parsed expression over the properties of a message."""

    __slots__ = ("_evaluate", "_weight", "expression")

    is_everything: Final = False
    reads_records: Final = True

    def __init__(self, expression: str, evaluate: Evaluate, weight: int = 0) -> None:
        self.expression = expression
        self._evaluate = evaluate
        self._weight = weight
        assert weight >= 0, "an evaluation takes time"

    def cost_ns(self, record: bytes) -> int:
        """Return how long `matches` takes for a record at most, as counted, not as measured."""
        return RECORD_NS + self._weight * properties_size(record)

    def matches_code(self, code: int) -> bool:
        """Return True: only the message tells."""
        return True

    def matches(self, record: bytes) -> bool:
        """Return whether a stored record matches."""
        return self.matches_block(property_block(record))

    def matches_block(self, block: bytes) -> bool:
        """Return whether the expression is true of these properties: neither false nor null.

        Values that cannot be compared make no match, whatever stands around them.
        """
        try:
            return self._evaluate(block) is True
        except Incomparable:
            return False


@lru_cache(maxsize=KEPT_MAX)
def parse(expression: str) -> SqlFilter:
    """Return the filter of an expression.

    Errors   IllegalFilter
    """
    whole = tree_of(expression)
    return SqlFilter(expression, whole.evaluate, whole.weight)
