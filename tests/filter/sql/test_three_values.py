"""Expressions against a second evaluator, made of truth tables and of nothing that the first uses.

The second one walks a tree that the test draws; the first one gets the tree's text.
"""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.filter.parsing import parse_filter
from pocketmq.filter.sql.filter import SqlFilter
from pocketmq.filter.sql.grammar import tree_of
from pocketmq.filter.sql.java_values import Incomparable
from pocketmq.format.properties import encode_properties, led_by_separator

AND = {
    (True, True): True, (True, False): False, (True, None): None,
    (False, True): False, (False, False): False, (False, None): False,
    (None, True): None, (None, False): False, (None, None): None,
}  # fmt: skip
OR = {
    (True, True): True, (True, False): True, (True, None): True,
    (False, True): True, (False, False): False, (False, None): None,
    (None, True): True, (None, False): None, (None, None): None,
}  # fmt: skip
NOT = {True: False, False: True, None: None}
LESS = {"<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1)}

Tree = tuple[Any, ...]
NAMES = st.sampled_from(["a", "b", "TAGS"])
WORDS = st.sampled_from(["x", "xy", "it's", "7", "12", "-3", "true"])
NUMBERS = st.integers(0, 20)

LEAVES: st.SearchStrategy[Tree] = st.one_of(
    st.tuples(st.sampled_from(list(LESS)), NAMES, NUMBERS),
    st.tuples(st.sampled_from(["=", "<>"]), NAMES, WORDS),
    st.tuples(st.just("in"), NAMES, st.lists(WORDS, min_size=1, max_size=3), st.booleans()),
    st.tuples(st.just("null"), NAMES, st.booleans()),
    st.tuples(st.just("between"), NAMES, NUMBERS, NUMBERS, st.booleans()),
    st.tuples(st.just("contains"), NAMES, WORDS, st.booleans()),
    st.tuples(st.just("constant"), st.sampled_from(["TRUE", "FALSE", "NULL"])),
)
TREES: st.SearchStrategy[Tree] = st.recursive(
    LEAVES,
    lambda trees: st.one_of(
        st.tuples(st.sampled_from(["AND", "OR"]), trees, trees), st.tuples(st.just("NOT"), trees)
    ),
    max_leaves=12,
)
PROPERTIES = st.dictionaries(NAMES, WORDS)


class Fails(Exception):
    """The second evaluator's word for values without an order."""


def quoted(word: str) -> str:
    return "'" + word.replace("'", "''") + "'"


def text_of(tree: Tree) -> str:
    match tree:
        case ("AND" | "OR" as word, left, right):
            return f"({text_of(left)}) {word} ({text_of(right)})"
        case ("NOT", inner):
            return f"NOT ({text_of(inner)})"
        case ("in", name, words, found):
            return f"{name} {'' if found else 'NOT '}IN ({', '.join(map(quoted, words))})"
        case ("null", name, found):
            return f"{name} IS {'' if found else 'NOT '}NULL"
        case ("between", name, low, high, found):
            low, high = min(low, high), max(low, high)
            return f"{name} {'' if found else 'NOT '}BETWEEN {low} AND {high}"
        case ("contains", name, word, found):
            return f"{name} {'' if found else 'NOT '}CONTAINS {quoted(word)}"
        case ("constant", word):
            return str(word)
        case ("=" | "<>" as symbol, name, word):
            return f"{name} {symbol} {quoted(word)}"
    symbol, name, number = tree
    return f"{name} {symbol} {number}"


def sign(text: str, number: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise Fails from None
    return (value > number) - (value < number)


def compared(text: str | None, symbol: str, number: int) -> bool | None:
    return None if text is None else sign(text, number) in LESS[symbol]


def second(tree: Tree, properties: dict[str, str]) -> bool | None:
    match tree:
        case ("AND", left, right):
            one = second(left, properties)
            return False if one is False else AND[one, second(right, properties)]
        case ("OR", left, right):
            one = second(left, properties)
            return True if one is True else OR[one, second(right, properties)]
        case ("NOT", inner):
            return NOT[second(inner, properties)]
        case ("constant", word):
            return {"TRUE": True, "FALSE": False, "NULL": None}[word]
    text = properties.get(tree[1])
    match tree:
        case ("null", _, found):
            return (text is None) is bool(found)
        case ("contains", _, word, found):
            return text is not None and (word in text) is bool(found)
        case ("between", _, low, high, found):
            low, high = min(low, high), max(low, high)
            word, signs = ("AND", (">=", "<=")) if found else ("OR", ("<", ">"))
            one = compared(text, signs[0], low)
            if one is (not found):
                return one
            return {"AND": AND, "OR": OR}[word][one, compared(text, signs[1], high)]
    if text is None:
        return None
    match tree:
        case ("in", _, words, found):
            return (text in words) is bool(found)
        case ("=", _, word):
            return bool(text == word)
        case ("<>", _, word):
            return bool(text != word)
    return compared(text, tree[0], tree[2])


@given(TREES, PROPERTIES)
def test_the_truth_tables_say_the_same(tree: Tree, properties: dict[str, str]) -> None:
    block = led_by_separator(encode_properties(properties))
    expression = text_of(tree)
    try:
        wanted: bool | None = second(tree, properties)
    except Fails:
        found = parse_filter(expression, is_sql=True)
        assert isinstance(found, SqlFilter)
        assert not found.matches_block(block)
        return
    assert tree_of(expression).evaluate(block) is wanted


@given(TREES, TREES, PROPERTIES)
def test_de_morgan_holds_where_all_is_comparable(
    left: Tree, right: Tree, properties: dict[str, str]
) -> None:
    block = led_by_separator(encode_properties(properties))
    one, other = text_of(left), text_of(right)
    try:
        split = tree_of(f"NOT ({one}) OR NOT ({other})").evaluate(block)
        assert tree_of(f"NOT (({one}) AND ({other}))").evaluate(block) is split
    except Incomparable:
        assert not parse_filter(one, is_sql=True).is_everything
