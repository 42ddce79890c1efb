"""How many expressions are kept in their parsed form, however many filters wait."""

from pocketmq.filter.sql.building import TERM_WEIGHT
from pocketmq.filter.sql.filter import BASE_WEIGHT, Parsed, SqlFilter, parse
from pocketmq.format.properties import encode_properties, led_by_separator

ONE_OR_TWO = "a = 1 OR a = 2"
TWO_WEIGHT = 2 * TERM_WEIGHT + BASE_WEIGHT


def block(**properties: str) -> bytes:
    return led_by_separator(encode_properties(properties))


def test_as_many_are_kept_as_have_so_much_weight_together() -> None:
    parsed = Parsed(3 * TWO_WEIGHT)
    for number in range(100):
        parsed.weight_of(f"a = {number} OR b = {number}")
        assert parsed.weight <= 3 * TWO_WEIGHT
    assert parsed.weight == 3 * TWO_WEIGHT


def test_one_that_was_dropped_is_parsed_again_and_the_one_used_last_stays() -> None:
    parsed = Parsed(2 * TWO_WEIGHT)
    for text in (ONE_OR_TWO, "b = 1 OR b = 2"):
        parsed.weight_of(text)
    first = parsed.evaluate(ONE_OR_TWO)
    parsed.weight_of("c = 1 OR c = 2")
    assert parsed.evaluate(ONE_OR_TWO) is first
    for number in range(4):
        parsed.weight_of(f"d = {number}")
    again = parsed.evaluate(ONE_OR_TWO)
    assert again is not first
    assert (again(block(a="2")), again(block(a="3"))) == (True, False)
    assert parsed.weight <= 2 * TWO_WEIGHT


def test_a_large_one_is_kept_alone() -> None:
    parsed = Parsed(TWO_WEIGHT)
    large = " OR ".join(f"a = {number}" for number in range(20))
    parsed.weight_of(ONE_OR_TWO)
    parsed.weight_of(large)
    assert parsed.evaluate(large)(block(a="19")) is True
    assert parsed.weight == 20 * TERM_WEIGHT + BASE_WEIGHT


def test_filters_of_the_same_expression_are_equal() -> None:
    assert parse(ONE_OR_TWO) == SqlFilter(ONE_OR_TWO) != parse("a = 3")
    assert len({parse(ONE_OR_TWO), SqlFilter(ONE_OR_TWO)}) == 1
    assert parse(ONE_OR_TWO) != ONE_OR_TWO
