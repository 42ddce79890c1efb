"""Names: whatever could lead elsewhere, or would be read back as another, is refused."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.model.errors import (
    BrokerError,
    IllegalGroup,
    IllegalKey,
    IllegalMessageGroup,
    IllegalMessageId,
    IllegalNumber,
    IllegalProperty,
    IllegalTag,
    IllegalTopic,
)
from pocketmq.model.message import RESERVED_PROPERTIES
from pocketmq.model.names import (
    check_group,
    check_key,
    check_message_group,
    check_message_id,
    check_number,
    check_property,
    check_tag,
    check_topic,
)

GOOD_NAMES = [
    "a", "Z", "0", "-", "_", "|", "%", "orders", "Orders_2-b|c%d", "%DLQ%group", "TBW102",
    "x" * 120,
]  # fmt: skip
BAD_NAMES = [
    "", " ", ".", "..", "../orders", "..\\orders", "a/../b", "/etc/passwd", "a/b", "a\\b", "C:",
    "a.b", "~", "a b", " a", "a ", "a\x00", "\x00", "a\n", "\na", "a\r\nb", "a\tb", "a\x1bb",
    "a\x7f", "a\x85b", "тема", "主题", "a\u0301", "ａ", "²", "٣", "a\u200bb", "a\u202eb", "\ufeffa",
    "😀", "\ud800", "a#b", "a@b", "a*", "$a", "a;b", "%2e%2e%2f!",
]  # fmt: skip
CONTROLS = ["\x00", "\x01", "\x02", "\t", "\n", "\r", "\x1b", "\x1f", "\x7f"]
BLANKS = ["", " ", "\t", " \n ", "\u00a0", "\u3000"]

Check = Callable[[str], None]


def limit_of(check: Check) -> int:
    """Finds the largest count of letters that a check lets pass."""
    count = 0
    while count < 1_000 and passes(check, "x" * (count + 1)):
        count += 1
    return count


def passes(check: Check, text: str) -> bool:
    try:
        check(text)
    except BrokerError:
        return False
    return True


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_a_plain_name_is_a_topic_and_a_group(name: str) -> None:
    check_topic(name)
    check_group(name)


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_could_mislead_is_neither(name: str) -> None:
    with pytest.raises(IllegalTopic):
        check_topic(name)
    with pytest.raises(IllegalGroup):
        check_group(name)


@pytest.mark.parametrize(
    ("topic", "passing"),
    [
        ("x" * 127, True), ("x" * 128, False), ("%RETRY%" + "x" * 120, True),
        ("%RETRY%" + "x" * 121, True), ("%RETRY%" + "x" * 248, True),
        ("%RETRY%" + "x" * 249, False), ("%DLQ%" + "x" * 122, True), ("%DLQ%" + "x" * 123, False),
        ("%retry%" + "x" * 121, False), ("x" * 1_000_000, False),
    ],
    ids=lambda value: f"{value[:7]}-{len(value)}" if isinstance(value, str) else None,
)  # fmt: skip
def test_only_a_retry_topic_may_be_longer_than_127(topic: str, passing: bool) -> None:
    assert passes(check_topic, topic) is passing


@pytest.mark.parametrize("topic", ["%RETRY%../x", "%RETRY%a/b", "%RETRY%a\n", "%DLQ%a\x00"])
def test_a_prefix_opens_no_door(topic: str) -> None:
    with pytest.raises(IllegalTopic, match="only letters, digits and"):
        check_topic(topic)


@pytest.mark.parametrize(
    ("check", "limit"),
    [(check_topic, 127), (check_group, 120), (check_message_group, 63), (check_message_id, 255)],
)
def test_each_kind_of_name_has_its_limit(check: Check, limit: int) -> None:
    assert limit_of(check) == limit


def test_a_refusal_names_the_length_and_the_limit() -> None:
    with pytest.raises(IllegalTopic, match="it has 128 characters, limit 127"):
        check_topic("x" * 128)
    with pytest.raises(IllegalGroup, match="it has 121 characters, limit 120"):
        check_group("x" * 121)
    with pytest.raises(IllegalTopic, match="it is empty"):
        check_topic("")


@pytest.mark.parametrize(
    ("check", "error"),
    [
        (check_tag, IllegalTag),
        (check_key, IllegalKey),
        (check_message_group, IllegalMessageGroup),
        (check_message_id, IllegalMessageId),
    ],
)
@pytest.mark.parametrize("text", [*BLANKS, *(f"a{control}b" for control in CONTROLS), "a\n"])
def test_blank_text_and_control_characters_are_refused_everywhere(
    check: Check, error: type[BrokerError], text: str
) -> None:
    with pytest.raises(error):
        check(text)


@pytest.mark.parametrize("text", ["TagA", "*", "a-b.c/d", "T#x", "标签", "a\u00a0b", "x" * 1_000])
def test_a_tag_and_a_key_may_be_almost_anything(text: str) -> None:
    check_tag(text)
    check_key(text)
    check_tag(f"a {text}")
    check_key(f"a|{text}")


def test_a_tag_with_a_bar_could_not_be_asked_for_and_a_key_with_a_space_would_be_two() -> None:
    assert not any(passes(check_tag, tag) for tag in ["a|b", "|", "a||b", "TagA ||"])
    assert not any(passes(check_key, key) for key in ["a b", " a", "a "])


@pytest.mark.parametrize(
    ("check", "text", "passing"),
    [
        (check_message_group, "é" * 31, True),
        (check_message_group, "é" * 32, False),
        (check_message_id, "é" * 127, True),
        (check_message_id, "é" * 128, False),
    ],
    ids=["group of 62", "group of 64", "id of 254", "id of 256"],
)
def test_length_of_text_is_counted_in_bytes(check: Check, text: str, passing: bool) -> None:
    assert passes(check, text) is passing


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("colour", "red"), ("属性", "价格 😀"), ("a.b-c/d e", " "),
        ("keys", "lower case is another name"), ("note", "two\nlines\tand \x7f"), ("TIMER", "x"),
    ],
)  # fmt: skip
def test_a_property_of_the_users_own(name: str, value: str) -> None:
    check_property(name, value)


@pytest.mark.parametrize("name", [*sorted(RESERVED_PROPERTIES), "TIMER_", "TIMER_DELIVER_MS"])
def test_a_property_of_the_broker_is_not_the_users(name: str) -> None:
    with pytest.raises(IllegalProperty, match="the name belongs to the broker"):
        check_property(name, "x")


def test_a_property_needs_a_printable_name_and_a_value_that_can_be_read_back() -> None:
    names = [*BLANKS, *(f"a{control}b" for control in CONTROLS), "a\n"]
    values = ["", "\x00", "a\x01b", "a\x02", "\x02b\x01c"]
    for name, value in [*((name, "x") for name in names), *(("a", value) for value in values)]:
        with pytest.raises(IllegalProperty):
            check_property(name, value)


@given(st.text())
def test_a_name_that_passes_is_one_plain_word_of_a_path(name: str) -> None:
    if passes(check_topic, name):
        assert name.isascii()
        assert name.isprintable()
        assert name
        assert not set(name) & set("./\\: ")


@given(st.lists(st.text(), min_size=1))
def test_keys_that_pass_are_split_off_again(keys: list[str]) -> None:
    passing = [key for key in keys if passes(check_key, key)]
    assert [key for key in " ".join(passing).split(" ") if key] == passing


def test_numbers_have_bounds() -> None:
    check_number("x", 0)
    check_number("x", 2**63 - 1)
    for value in (-1, 2**63):
        with pytest.raises(IllegalNumber):
            check_number("x", value)
