"""Builds nodes from the grammar's rules, and rejects combinations that RocketMQ rejects.

Source: SelectorParser, ComparisonExpression.checkLessThanOperand, checkEqualOperand, createBetween.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from lark import Token, Transformer, v_args

from pocketmq.filter.sql import nodes
from pocketmq.filter.sql.java_values import INT_MAX, LONG_MAX, Long, Value, order
from pocketmq.filter.sql.like import matcher, weight_of
from pocketmq.filter.sql.nodes import Evaluate, Truth

DEPTH_MAX: Final = 64
"""Upper limit of nested nodes: evaluation makes a nested call for each level."""
TERMS_MAX: Final = 256
"""Upper limit of comparisons in an expression: each may scan all properties of a message."""
TERM_WEIGHT: Final = 2
"""Weight of a comparison, which scans the properties and reads one value."""
WEIGHT_MAX: Final = 2_000
"""Largest weight of an expression: 65 ms for the largest property block, 32 KiB."""
TEXT_TESTS: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": str.__contains__, "STARTSWITH": str.startswith, "ENDSWITH": str.endswith,
}  # fmt: skip


class NotAllowed(Exception):
    """Error of a grammatical expression that breaks a rule; `place` is a character's index."""

    def __init__(self, place: int, why: str) -> None:
        super().__init__(why)
        self.place = place
        self.why = why


class NodeKind(Enum):
    """Kinds of nodes that the rules distinguish."""

    PROPERTY = "a property"
    LITERAL = "a literal"
    CONDITION = "a condition"
    NEGATED = "a negated value"


class Node(NamedTuple):
    """A part of an expression.

    place     position of the part in the expression, from 0
    value     value of a literal or negated literal
    name      name of a property
    depth     depth of nested nodes
    terms     number of comparisons
    weight    estimated nanoseconds per byte of a message's properties
    """

    kind: NodeKind
    evaluate: Evaluate
    place: int
    value: Value = None
    name: str = ""
    depth: int = 1
    terms: int = 0
    weight: int = 0

    @property
    def is_number(self) -> bool:
        """Whether the node is a literal number."""
        return type(self.value) in (int, Long, float)


@v_args(inline=True)
class Builder(Transformer[Token, Node]):
    """Builds a node for each rule that the parser reduces.

    Errors   of all methods: NotAllowed
    """

    def start(self, whole: Node) -> Node:
        """The whole expression, which must be a condition."""
        return whole._replace(evaluate=_truth(whole))

    def any_of(self, *sides: Node) -> Node:
        """One or more sides joined by OR."""
        if len(sides) == 1:
            return sides[0]
        return _condition(nodes.any_of([_truth(side) for side in sides]), *sides)

    def all_of(self, *sides: Node) -> Node:
        """One or more sides joined by AND."""
        if len(sides) == 1:
            return sides[0]
        return _condition(nodes.all_of([_truth(side) for side in sides]), *sides)

    def inverted(self, side: Node) -> Node:
        """NOT."""
        return _condition(nodes.inverted(_truth(side)), side)

    def equal(self, left: Node, right: Node) -> Node:
        """Equality of two values."""
        for side in (left, right):
            if side.kind is NodeKind.LITERAL and side.value is None:
                raise NotAllowed(side.place, "NULL is equal to nothing; write IS NULL")
        if left.kind is right.kind is NodeKind.LITERAL:
            if type(left.value) is bool and type(right.value) is not bool:
                raise NotAllowed(right.place, "TRUE and FALSE are compared with each other only")
        return _condition(_equal(left, right), left, right, terms=1)

    def unequal(self, left: Node, right: Node) -> Node:
        """Inequality (<>) of two values."""
        return self.inverted(self.equal(left, right))

    def is_null(self, side: Node, null: Token) -> Node:
        """IS NULL."""
        truth = nodes.values_equal(side.evaluate, nodes.constant(None))
        return _condition(truth, side, terms=1)

    def is_not_null(self, side: Node, null: Token) -> Node:
        """IS NOT NULL."""
        return self.inverted(self.is_null(side, null))

    def ordered(self, left: Node, symbol: Token, right: Node) -> Node:
        """Order of two values by <, <=, > or >=."""
        return _ordered(left, str(symbol), right)

    def between(self, side: Node, low: Node, high: Node) -> Node:
        """BETWEEN."""
        if low.kind is high.kind is NodeKind.LITERAL and low.is_number and high.is_number:
            if order(high.value, low.value) < 0:
                raise NotAllowed(low.place, f"BETWEEN {low.value} AND {high.value} is empty")
        return self.all_of(_ordered(side, ">=", low), _ordered(side, "<=", high))

    def not_between(self, side: Node, low: Node, high: Node) -> Node:
        """NOT BETWEEN."""
        return self.any_of(_ordered(side, "<", low), _ordered(side, ">", high))

    def text_test(self, side: Node, test: Token, part: Token, found: bool = True) -> Node:
        """CONTAINS, STARTSWITH, ENDSWITH; false if the text in quotes is empty, also after NOT."""
        text, holds = _unquoted(part), TEXT_TESTS[test.upper()]
        if not text:
            return _condition(lambda block: False, side)
        truth = nodes.text_tested(side.evaluate, lambda value: holds(value, text), found)
        return _condition(truth, side, terms=1)

    def not_text_test(self, side: Node, test: Token, part: Token) -> Node:
        """NOT CONTAINS, NOT STARTSWITH, NOT ENDSWITH."""
        return self.text_test(side, test, part, False)

    def like(self, side: Node, pattern: Token, escape: Token | None = None) -> Node:
        """LIKE."""
        return _like(side, pattern, escape, True)

    def not_like(self, side: Node, pattern: Token, escape: Token | None = None) -> Node:
        """NOT LIKE."""
        return _like(side, pattern, escape, False)

    def is_in(self, side: Node, *texts: Token) -> Node:
        """IN."""
        return _in(side, texts, True)

    def is_not_in(self, side: Node, *texts: Token) -> Node:
        """NOT IN."""
        return _in(side, texts, False)

    def negated(self, side: Node) -> Node:
        """A value with a minus sign."""
        if side.is_number:
            value = -side.value  # type: ignore[operator]
            value = Long(value) if type(side.value) is Long else value
            return side._replace(
                kind=NodeKind.NEGATED,
                evaluate=nodes.constant(value),
                value=value,
                depth=side.depth + 1,
            )
        return Node(
            NodeKind.NEGATED, nodes.nothing_after(side.evaluate), side.place,
            depth=_deeper(side.place, side), terms=side.terms, weight=side.weight,
        )  # fmt: skip

    def text(self, token: Token) -> Node:
        """A text in quotes."""
        return _literal(token, _unquoted(token))

    def whole(self, token: Token) -> Node:
        """An Integer, or a Long if it is too large for an Integer."""
        digits = token.rstrip("lL")
        value = int(digits) if len(digits) <= 19 else LONG_MAX + 1
        if value > LONG_MAX:
            raise NotAllowed(_place(token), f"{digits} is above {LONG_MAX}")
        return _literal(token, Long(value) if value > INT_MAX else value)

    def double(self, token: Token) -> Node:
        """A Double."""
        value = float(token)
        if value == float("inf"):
            raise NotAllowed(_place(token), f"{token} is out of a double's range")
        return _literal(token, value)

    def true(self, token: Token) -> Node:
        """TRUE."""
        return _literal(token, True)

    def false(self, token: Token) -> Node:
        """FALSE."""
        return _literal(token, False)

    def null(self, token: Token) -> Node:
        """NULL."""
        return _literal(token, None)

    def property(self, token: Token) -> Node:
        """The name of a property, in double quotes if it is no identifier."""
        name = token[1:-1].replace('""', '"') if token.type == "QUOTED" else str(token)
        return Node(NodeKind.PROPERTY, nodes.text_of(name), _place(token), name=name)


def _place(token: Token) -> int:
    return token.start_pos or 0


def _unquoted(token: Token) -> str:
    return token[1:-1].replace("''", "'")


def _literal(token: Token, value: Value) -> Node:
    return Node(NodeKind.LITERAL, nodes.constant(value), _place(token), value)


def _deeper(place: int, *parts: Node) -> int:
    depth = max(part.depth for part in parts) + 1
    if depth > DEPTH_MAX:
        raise NotAllowed(place, f"conditions are nested more than {DEPTH_MAX} deep")
    return depth


def _condition(truth: Truth, *parts: Node, terms: int = 0, weight: int = TERM_WEIGHT) -> Node:
    place = parts[0].place
    weight = weight * terms + sum(part.weight for part in parts)
    if weight > WEIGHT_MAX:
        why = "its LIKEs with _ take too long for large messages; use fewer, or without _"
        raise NotAllowed(place, why)
    terms += sum(part.terms for part in parts)
    if terms > TERMS_MAX:
        raise NotAllowed(place, f"there are more than {TERMS_MAX} comparisons")
    depth = _deeper(place, *parts)
    return Node(NodeKind.CONDITION, truth, place, depth=depth, terms=terms, weight=weight)


def _truth(node: Node) -> Truth:
    if node.kind is NodeKind.CONDITION or (
        node.kind is NodeKind.LITERAL and (node.value is None or type(node.value) is bool)
    ):
        return node.evaluate  # type: ignore[return-value]  # a condition, TRUE, FALSE or NULL
    if node.kind is NodeKind.PROPERTY:
        return nodes.truth_of(node.evaluate)
    raise NotAllowed(node.place, f"{node.kind.value} is no condition")


def _equal(left: Node, right: Node) -> Truth:
    if left.kind is NodeKind.PROPERTY and right.kind is NodeKind.LITERAL:
        read = nodes.text_of(left.name)
        if isinstance(right.value, str):
            return nodes.property_is(read, right.value)
        if isinstance(right.value, int) and right.is_number:
            return nodes.property_equals(read, right.value)
    return nodes.values_equal(left.evaluate, right.evaluate)


def _ordered(left: Node, symbol: str, right: Node) -> Node:
    for side in (left, right):
        is_number = side.kind is not NodeKind.LITERAL or side.is_number
        if side.kind is NodeKind.CONDITION or not is_number:
            raise NotAllowed(side.place, f"{symbol} compares only numbers and properties")
    if left.kind is NodeKind.PROPERTY and right.is_number:
        truth = _bounded(left, symbol, right)
    elif right.kind is NodeKind.PROPERTY and left.is_number:
        truth = _bounded(right, nodes.MIRRORED[symbol], left)
    else:
        truth = nodes.values_ordered(left.evaluate, symbol, right.evaluate)
    return _condition(truth, left, right, terms=1)


def _bounded(side: Node, symbol: str, limit: Node) -> Truth:
    assert isinstance(limit.value, int | float)
    return nodes.property_ordered(nodes.text_of(side.name), symbol, limit.value)


def _like(side: Node, pattern: Token, escape: Token | None, found: bool) -> Node:
    character = "" if escape is None else _unquoted(escape)
    if escape is not None and len(character) != 1:
        raise NotAllowed(_place(escape), "ESCAPE takes one character")
    try:
        test = matcher(_unquoted(pattern), character)
        weight = weight_of(_unquoted(pattern), character)
    except ValueError as error:
        raise NotAllowed(_place(pattern), str(error)) from None
    truth = nodes.fits(side.evaluate, test, found)
    return _condition(truth, side, terms=1, weight=TERM_WEIGHT + weight)


def _in(side: Node, texts: tuple[Token, ...], found: bool) -> Node:
    if side.kind is not NodeKind.PROPERTY:
        raise NotAllowed(side.place, "IN takes a property on its left side")
    wanted = frozenset(_unquoted(text) for text in texts)
    return _condition(nodes.property_in(nodes.text_of(side.name), wanted, found), side, terms=1)
