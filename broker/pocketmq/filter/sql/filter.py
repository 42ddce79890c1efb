"""A SQL expression as a filter."""

from functools import lru_cache
from typing import Final, final

from pocketmq.filter.sql.grammar import tree_of
from pocketmq.filter.sql.java_values import Incomparable
from pocketmq.filter.sql.nodes import Evaluate
from pocketmq.format.named_properties import properties_size, property_block

KEPT_MAX: Final = 256
"""Upper limit of cached filters: a consumer sends its expression with every pull."""
WEIGHT_KEPT_MAX: Final = 24_000
"""Upper limit of the total weight of cached parsed expressions.

Long expressions consist of many objects, which each full garbage collection visits: with 256
expressions of 60 LIKEs, a collection took 200 ms.
"""
BASE_WEIGHT: Final = 8
"""Weight of each expression in addition to its comparisons."""
RECORD_NS: Final = 2_000
"""Cost of a record in addition to its properties."""


@final
class Parsed:
    """Cache of parsed expressions; evicts the least recently used.

    weight   total weight of the cached expressions
    """

    __slots__ = ("_evaluate", "_found", "_last", "_weight_max", "weight")

    def __init__(self, weight_max: int) -> None:
        self._weight_max = weight_max
        self._found: dict[str, tuple[Evaluate, int]] = {}
        self._last = ""
        self._evaluate: Evaluate = _nothing
        self.weight = 0

    def weight_of(self, expression: str) -> int:
        """Parses an expression; returns its weight: estimated ns per byte of properties.

        Errors   IllegalFilter
        """
        whole = tree_of(expression)
        self._keep(expression, whole.evaluate, whole.weight + BASE_WEIGHT)
        return whole.weight

    def evaluate(self, expression: str) -> Evaluate:
        """Returns the evaluator of an expression that was parsed before.

        Cost     0.1 µs for the last used expression; an evicted expression is parsed again
        """
        if expression is self._last:
            return self._evaluate
        found = self._found.get(expression)
        if found is None:
            whole = tree_of(expression)
            found = whole.evaluate, whole.weight + BASE_WEIGHT
        self._keep(expression, *found)
        return found[0]

    def _keep(self, expression: str, evaluate: Evaluate, weight: int) -> None:
        self._last, self._evaluate = expression, evaluate
        before = self._found.pop(expression, None)
        self.weight += weight - (before[1] if before is not None else 0)
        self._found[expression] = (evaluate, weight)
        while self.weight > self._weight_max and len(self._found) > 1:
            self.weight -= self._found.pop(next(iter(self._found)))[1]
        assert self.weight >= weight, "the newest expression was evicted"


def _nothing(_: bytes) -> None:
    """Returns null. `Parsed` has this evaluator until it has parsed an expression."""


_PARSED: Final = Parsed(WEIGHT_KEPT_MAX)


class SqlFilter:
    """A SQL92 filter; filters of the same expression are equal and share one parsed form."""

    __slots__ = ("_weight", "expression")

    is_everything: Final = False
    reads_records: Final = True

    def __init__(self, expression: str, weight: int = 0) -> None:
        self.expression = expression
        self._weight = weight
        assert weight >= 0, "the weight is negative"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SqlFilter) and other.expression == self.expression

    def __hash__(self) -> int:
        return hash(self.expression)

    def cost_ns(self, record: bytes) -> int:
        """Returns the estimated cost of `matches` for a record, in ns."""
        return RECORD_NS + self._weight * properties_size(record)

    def matches_code(self, code: int) -> bool:
        """Returns True, as a tags code does not show the properties."""
        return True

    def matches(self, record: bytes) -> bool:
        """Returns whether a stored record matches."""
        return self.matches_block(property_block(record))

    def matches_block(self, block: bytes) -> bool:
        """Returns whether the expression is true (not false or null) for these properties.

        A comparison of incomparable values ends the evaluation without a match.
        """
        try:
            return _PARSED.evaluate(self.expression)(block) is True
        except Incomparable:
            return False


@lru_cache(maxsize=KEPT_MAX)
def parse(expression: str) -> SqlFilter:
    """Returns the filter of an expression.

    Errors   IllegalFilter
    """
    return SqlFilter(expression, _PARSED.weight_of(expression))
