"""Refused expressions and their messages; corners of the language that no other test covers."""

from time import process_time

import pytest

from pocketmq.filter import tag
from pocketmq.filter.parsing import parse_filter
from pocketmq.filter.sql.building import DEPTH_MAX, TERM_WEIGHT, TERMS_MAX
from pocketmq.filter.sql.filter import SqlFilter
from pocketmq.filter.sql.grammar import LENGTH_MAX, NESTING_MAX
from pocketmq.format.properties import encode_properties, led_by_separator
from pocketmq.model.errors import IllegalFilter
from tests.kit.records import record


def matches(expression: str, **properties: str) -> bool:
    found = parse_filter(expression, is_sql=True)
    assert isinstance(found, SqlFilter)
    return found.matches_block(led_by_separator(encode_properties(properties)))


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("a >", "at its end, expected (, NOT, NULL, a number, a property, a text in single"),
        ("a LIK 'x'", "at character 3: found LIK, expected <, <=, >, >=, <>, =, AND, BETWEEN"),
        ("(a = 1", "at its end, expected )"),
        ("a = 1 )", "at character 7: found ), expected the end"),
        ("a = 'x", "at character 5: the text that begins here does not end"),
        ("a = 007", "at character 6: found 0"),
        ("a IN (5)", "at character 7: found 5, expected a text in single quotes"),
        ("a ? 5", "at character 3: found ?"),
        ("a = NULL", "at character 5: NULL is equal to nothing; write IS NULL"),
        ("a < 'x'", "at character 5: < compares only numbers and properties"),
        ("a > 1 > 0", "at character 1: > compares only numbers and properties"),
        ("b = 'x' AND 5", "at character 13: a literal is no condition"),
        ("-a", "at character 2: a negated value is no condition"),
        ("a BETWEEN 5 AND 1", "at character 11: BETWEEN 5 AND 1 is empty"),
        ("TRUE = 5", "at character 8: TRUE and FALSE are compared with each other only"),
        ("5 IN ('x')", "at character 1: IN takes a property on its left side"),
        ("a = 9223372036854775808", "at character 5: 9223372036854775808 is above"),
        ("a = 1e999", "at character 5: 1e999 is out of a double's range"),
        ("a LIKE 'x' ESCAPE 'yy'", "at character 19: ESCAPE takes one character"),
        ("a LIKE 'x!' ESCAPE '!'", "at character 8: the pattern ends with its escape character"),
    ],
)
def test_an_error_says_where_it_is_and_what_was_expected(expression: str, why: str) -> None:
    with pytest.raises(IllegalFilter) as caught:
        parse_filter(expression, is_sql=True)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("a = 'x'" + " " * LENGTH_MAX, f"of at most {LENGTH_MAX}"),
        ("(" * (NESTING_MAX + 1) + "a" + ")" * (NESTING_MAX + 1), f"more than {NESTING_MAX} deep"),
        ("(" * LENGTH_MAX, f"more than {NESTING_MAX} deep"),
        ("NOT " * (DEPTH_MAX + 1) + "a", f"more than {DEPTH_MAX} deep"),
        ("a" + " = a" * (DEPTH_MAX + 1), f"more than {DEPTH_MAX} deep"),
        ("- " * (DEPTH_MAX + 1) + "a = 1", f"more than {DEPTH_MAX} deep"),
        (" OR ".join(["a=1"] * (TERMS_MAX + 1)), f"more than {TERMS_MAX} comparisons"),
    ],
)
def test_what_is_long_or_deep_is_refused(expression: str, why: str) -> None:
    with pytest.raises(IllegalFilter, match=why):
        parse_filter(expression, is_sql=True)


def test_what_is_within_the_bounds_is_evaluated() -> None:
    assert matches("(" * NESTING_MAX + "a = 1" + ")" * NESTING_MAX, a="1")
    assert matches(" OR ".join(["a=1"] * TERMS_MAX), a="1")
    assert matches("NOT " * (DEPTH_MAX - 2) + "(a = 1)", a="1")
    assert matches("a = '" + "(" * (NESTING_MAX + 1) + "'", a="(" * (NESTING_MAX + 1))
    assert matches("- " * 7 + "5 < a", a="3")


@pytest.mark.parametrize("expression", ["", "*", " * "])
def test_everything_is_everything_in_both_languages(expression: str) -> None:
    assert parse_filter(expression, is_sql=True) is parse_filter(expression) is tag.EVERYTHING


def test_an_expression_is_parsed_once() -> None:
    assert parse_filter("a = 1", is_sql=True) is parse_filter("a = 1", is_sql=True)


def test_comments_and_blanks_are_passed_over() -> None:
    assert matches("a /* one\n*/ =\t1 -- and the rest", a="1")


def test_keywords_have_any_case_and_names_have_theirs() -> None:
    assert matches("a BeTwEeN 1 aNd 3 and index = 5 and notes is null", a="2", index="5")
    assert not matches("A = 1", a="1")
    assert matches("like LIKE 'x' AND escape = 'y'", like="x", escape="y")


@pytest.mark.parametrize(
    ("expression", "value", "is_match"),
    [
        ("a LIKE 'x%'", "xyz", True),
        ("a LIKE 'x_z'", "xyz", True),
        ("a LIKE 'x_'", "xyz", False),
        ("a NOT LIKE 'x%'", "xyz", False),
        ("a NOT LIKE 'y%'", "xyz", True),
        ("a LIKE '50!%' ESCAPE '!'", "50%", True),
        ("a LIKE '50!%' ESCAPE '!'", "500", False),
        ("a LIKE 'it''s%'", "it's me", True),
        ("b LIKE '%'", "x", False),
        ("b NOT LIKE 'x'", "x", False),
        ("(a = 'x') LIKE 'x'", "x", False),
    ],
)
def test_like(expression: str, value: str, is_match: bool) -> None:
    assert matches(expression, a=value) is is_match


@pytest.mark.parametrize(
    ("expression", "value", "is_match"),
    [
        ("TRUE = a", "true", True),
        ("TRUE = a", "TRUE", True),
        ("TRUE = a", "false", False),
        ("FALSE = a", "false", True),
        ("FALSE = a", "true", False),
        ("TRUE <> a", "false", True),
        ("TRUE <> a", "true", False),
        ("(b = 'x') = a", "true", False),
    ],
)
def test_a_boolean_may_stand_before_a_property_as_behind_it(
    expression: str, value: str, is_match: bool
) -> None:
    assert matches(expression, a=value) is is_match
    left, symbol, right = expression.rpartition(" <> " if "<>" in expression else " = ")
    assert matches(f"{right}{symbol}{left}", a=value) is is_match


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("order-id", '"order-id"'),
        ("a.b/c d", '"a.b/c d"'),
        ("größe", '"größe"'),
        ("尺寸", '"尺寸"'),
        ('say "hi"', '"say ""hi"""'),
        ("plain", '"plain"'),
        ("NOT", '"NOT"'),
        ("((((", '"(((("'),
        ("5", '"5"'),
    ],
)
def test_a_name_in_double_quotes_may_have_any_characters(name: str, quoted: str) -> None:
    assert matches(f"{quoted} = 'x'", **{name: "x"})
    assert matches(f"{quoted} BETWEEN 1 AND 5 AND {quoted} IS NOT NULL", **{name: "3"})
    assert matches(f"{quoted} LIKE '3%' OR {quoted} IN ('x')", **{name: "3"})
    assert not matches(f"{quoted} = 'x'", other="x")


@pytest.mark.parametrize("expression", ['"" = 1', '"a = 1', '"a" "b" = 1'])
def test_a_name_that_is_empty_or_does_not_end_is_refused(expression: str) -> None:
    with pytest.raises(IllegalFilter):
        parse_filter(expression, is_sql=True)


def test_a_text_of_many_digits_is_no_number_at_once() -> None:
    # Where digits were read again, this took minutes for one message.
    for text in ("1" * 9_000 + "x", "1" * 9_000 + "." + "1" * 9_000 + "x", "0x" + "1" * 9_000):
        begin = process_time()
        assert not matches("a > 5.0", a=text)
        assert process_time() - begin < 1


@pytest.mark.parametrize("text", ["5", "5.", ".5", "5.5e+1", "5.5f", "-0x1.8p1", "0x.8P1d", "NaN"])
def test_every_form_of_a_double_is_read(text: str) -> None:
    assert matches("a > -4.0", a=text)


def test_a_filter_that_would_take_long_for_one_message_is_refused() -> None:
    costly = " OR ".join(["a LIKE '%_x_%_'"] * 190)
    with pytest.raises(IllegalFilter, match="LIKEs with _ take too long"):
        parse_filter(costly, is_sql=True)
    assert matches(" OR ".join(["a LIKE '%_x_%_'"] * 100), a="-x--")
    assert matches(" OR ".join(["a LIKE '%x%y%'"] * 190), a="-x-y-")


def test_what_a_filter_costs_grows_with_the_properties_and_the_comparisons() -> None:
    def cost(expression: str, size: int) -> int:
        block = encode_properties({"a": "x" * size})
        return parse_filter(expression, is_sql=True).cost_ns(record(0, bytes(9), properties=block))

    small, large = cost("a = 'x'", 10), cost("a = 'x'", 1_010)
    assert large - small == TERM_WEIGHT * 1_000
    assert cost("a = 'x' OR a = 'y'", 1_010) > large
    assert cost("a LIKE '%_x_%'", 1_010) > cost("a LIKE '%x%'", 1_010) > large
    assert parse_filter("a").cost_ns(record(0, b"")) == 0
