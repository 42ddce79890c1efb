"""The error tree: every class has a code and a message that renders, whatever a client sent."""

import re
from collections.abc import Iterator
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.model import errors
from broker.model.errors import BrokerError, Code, RequestError, shown
from broker.model.errors.code import SHOWN_LENGTH_MAX
from broker.model.errors.storage import BrokerReadOnly, StorageError, StoreFailed, Unavailable

MESSAGE_LENGTH_MAX = 800
"""Three pieces of client text, each cut, and our own words around them."""


def subclasses(root: type[BrokerError]) -> Iterator[type[BrokerError]]:
    """Walk the product's classes below a class, whoever else made some of their own."""
    for found in root.__subclasses__():
        if found.__module__.startswith("broker.model.errors"):
            yield found
            yield from subclasses(found)


TREE: list[type[BrokerError]] = [BrokerError, *subclasses(BrokerError)]
LEAVES = [found for found in TREE if fields(found)]
every_class = pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
every_leaf = pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.__name__)


def family(root: type[BrokerError]) -> set[type[BrokerError]]:
    return {root, *subclasses(root)}


def made(kind: type[BrokerError], text: str = "Text", number: int = 70_000) -> BrokerError:
    """Make an error with a text in every str field and numbers that differ in the others."""
    numbers = iter(range(number, number + 10))
    return kind(**{f.name: text if f.type is str else next(numbers) for f in fields(kind)})


def placeholders(kind: type[BrokerError]) -> set[str]:
    return set(re.findall(r"{(\w+)}", kind.message))


def tree_of_docstring() -> dict[str, str]:
    """Read the picture in the package's docstring: class name to name of its parent."""
    parents: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    picture = (errors.__doc__ or "").split("\n\n")[1]
    for line in picture.splitlines():
        indent = len(line) - len(line.lstrip())
        names = re.split(r"  +", line.strip())[0].split(" · ")
        path = [(depth, name) for depth, name in path if depth < indent]
        parents |= dict.fromkeys(names, path[-1][1] if path else "Exception")
        path.append((indent, names[0]))
    return parents


def test_the_docstring_draws_the_tree_as_it_is() -> None:
    assert tree_of_docstring() == {kind.__name__: kind.__bases__[0].__name__ for kind in TREE}


def test_the_package_hands_out_the_whole_tree() -> None:
    assert set(errors.__all__) == {kind.__name__ for kind in TREE} | {"Code", "shown"}


def test_names_are_handed_out_in_order() -> None:
    assert errors.__all__ == sorted(errors.__all__)


@every_class
def test_a_class_says_what_it_is(kind: type[BrokerError]) -> None:
    assert isinstance(kind.code, Code)
    assert isinstance(kind.retryable, bool)
    assert kind.message
    assert kind.__doc__
    assert made(kind).reason == kind.__name__


@every_class
def test_a_message_renders_with_all_its_fields(kind: type[BrokerError]) -> None:
    error = made(kind)
    assert placeholders(kind) == {field.name for field in fields(kind)}
    assert all(str(value) in str(error) for value in vars(error).values())
    assert not re.search(r"[{}]", str(error))


@every_class
def test_a_message_is_one_line_that_goes_on_behind_other_words(kind: type[BrokerError]) -> None:
    text = str(made(kind))
    assert "\n" not in text
    assert not text.endswith(".")


@every_leaf
def test_long_client_text_is_cut(kind: type[BrokerError]) -> None:
    error = made(kind)
    for name in vars(error).keys() - kind.plain:
        setattr(error, name, "x" * 1_000_000)
    assert len(str(error)) < MESSAGE_LENGTH_MAX


@every_leaf
def test_client_text_cannot_write_lines_of_its_own(kind: type[BrokerError]) -> None:
    error = made(kind)
    for name in vars(error).keys() - kind.plain:
        setattr(error, name, "a\r\n\x00\x1b[31m\u202e{why}{nothing}\ud800")
    assert str(error).isprintable()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", "''"),
        ("orders", "'orders'"),
        ("主题 😀", "'主题 😀'"),
        ("it's", '"it\'s"'),
        ("a\nb\x00c\x7f", r"'a\nb\x00c\x7f'"),
        ("a\u200bb\u202ec", r"'a\u200bb\u202ec'"),
        ("\ud800", r"'\ud800'"),
        (-1, "-1"),
        (None, "None"),
        ("x" * (SHOWN_LENGTH_MAX - 2), f"'{'x' * (SHOWN_LENGTH_MAX - 2)}'"),
        ("x" * (SHOWN_LENGTH_MAX - 1), f"'{'x' * (SHOWN_LENGTH_MAX - 1)}…'"),
        ("x" * 10_000, f"'{'x' * (SHOWN_LENGTH_MAX - 1)}…'"),
    ],
)
def test_text_is_shown_quoted_and_cut(value: object, text: str) -> None:
    assert shown(value) == text


def test_our_own_words_are_shown_without_quotes() -> None:
    assert str(errors.IllegalTopic(topic="a'b", why="it isn't")) == (
        "topic \"a'b\" is not allowed: it isn't; choose another name"
    )


def test_only_passing_troubles_ask_for_a_retry() -> None:
    assert {kind for kind in TREE if kind.retryable} == family(Unavailable) - family(BrokerReadOnly)


def test_codes_of_requests_and_of_troubles_lie_apart() -> None:
    requests = {kind.code.value for kind in family(RequestError)}
    storage = {kind.code.value for kind in family(StorageError)}
    assert all(40_000 <= number < 50_000 for number in requests - {Code.UNSUPPORTED.value})
    assert all(50_000 <= number < 60_000 for number in storage)


def test_codes_have_the_numbers_of_the_protocol() -> None:
    assert {code.name: code.value for code in Code} == {
        "BAD_REQUEST": 40000,
        "ILLEGAL_TOPIC": 40002,
        "ILLEGAL_CONSUMER_GROUP": 40003,
        "ILLEGAL_MESSAGE_TAG": 40004,
        "ILLEGAL_MESSAGE_KEY": 40005,
        "ILLEGAL_MESSAGE_GROUP": 40006,
        "ILLEGAL_MESSAGE_PROPERTY_KEY": 40007,
        "ILLEGAL_MESSAGE_ID": 40009,
        "ILLEGAL_FILTER_EXPRESSION": 40010,
        "MESSAGE_CORRUPTED": 40016,
        "ILLEGAL_OFFSET": 40019,
        "FORBIDDEN": 40300,
        "MESSAGE_NOT_FOUND": 40401,
        "TOPIC_NOT_FOUND": 40402,
        "CONSUMER_GROUP_NOT_FOUND": 40403,
        "PAYLOAD_TOO_LARGE": 41300,
        "MESSAGE_BODY_TOO_LARGE": 41301,
        "MESSAGE_BODY_EMPTY": 41302,
        "PRECONDITION_FAILED": 42800,
        "TOO_MANY_REQUESTS": 42900,
        "MESSAGE_PROPERTIES_TOO_LARGE": 43101,
        "INTERNAL_SERVER_ERROR": 50001,
        "HA_NOT_AVAILABLE": 50002,
        "UNSUPPORTED": 50500,
    }


def test_an_error_is_caught_by_its_family_and_keeps_its_cause() -> None:
    cause = OSError(5, "Input/output error")
    with pytest.raises(StoreFailed) as caught:
        raise errors.FsyncFailed(why=str(cause)) from cause
    assert caught.value.__cause__ is cause
    assert "Input/output error" in str(caught.value)


def test_errors_are_told_apart_by_identity() -> None:
    first, second = errors.TopicNotFound(topic="T"), errors.TopicNotFound(topic="T")
    assert first != second
    assert len({first, second}) == 2


def test_a_note_does_not_disturb_the_message() -> None:
    error = errors.TopicNotFound(topic="T")
    error.add_note("while {it} was raining")
    assert str(error) == "topic 'T' does not exist; create it: pocketmq topic create 'T'"


def test_every_class_belongs_to_one_family() -> None:
    families = [family(kind) for kind in (RequestError, Unavailable, StorageError)]
    assert {BrokerError}.union(*families) == set(TREE)
    assert 1 + sum(map(len, families)) == len(TREE)


@given(st.text())
def test_whatever_is_shown_is_printable_and_short(text: str) -> None:
    assert shown(text).isprintable()
    assert len(shown(text)) <= SHOWN_LENGTH_MAX + 2
