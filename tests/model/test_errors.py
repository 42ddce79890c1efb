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

CODES: dict[Code, str] = {
    Code.BAD_REQUEST: (
        "RequestError IllegalAttribute QueueOutOfRange IllegalNumber IllegalPageToken"
    ),
    Code.ILLEGAL_TOPIC: "IllegalTopic SystemTopic",
    Code.TOPIC_NOT_FOUND: "TopicNotFound",
    Code.PRECONDITION_FAILED: "TopicExists GroupExists",
    Code.ILLEGAL_CONSUMER_GROUP: "IllegalGroup SystemGroup",
    Code.CONSUMER_GROUP_NOT_FOUND: "GroupNotFound",
    Code.ILLEGAL_MESSAGE_TAG: "IllegalTag",
    Code.ILLEGAL_MESSAGE_KEY: "IllegalKey",
    Code.ILLEGAL_MESSAGE_PROPERTY_KEY: "IllegalProperty",
    Code.ILLEGAL_MESSAGE_GROUP: "IllegalMessageGroup",
    Code.ILLEGAL_MESSAGE_ID: "IllegalMessageId",
    Code.MESSAGE_NOT_FOUND: "MessageNotFound",
    Code.MESSAGE_BODY_EMPTY: "BodyEmpty",
    Code.MESSAGE_BODY_TOO_LARGE: "BodyTooLarge",
    Code.MESSAGE_PROPERTIES_TOO_LARGE: "PropertiesTooLarge TooManyProperties",
    Code.PAYLOAD_TOO_LARGE: "RecordTooLarge TooManyMessages",
    Code.MESSAGE_CORRUPTED: "NoMessages MixedTopics MixedQueues",
    Code.FORBIDDEN: "TopicNotWritable TopicNotReadable BrokerReadOnly StoreDamaged",
    Code.ILLEGAL_OFFSET: "OffsetOutOfRange",
    Code.ILLEGAL_FILTER_EXPRESSION: "IllegalFilter",
    Code.UNSUPPORTED: "UnsupportedFeature",
    Code.TOO_MANY_REQUESTS: "StoreBusy TransientPoolEmpty TooManyRequests DiskSlow",
}
"""What is not here is the broker's: INTERNAL_SERVER_ERROR."""

TEXTS: dict[BrokerError, str] = {
    errors.SystemTopic(
        topic="TBW102", why="write"
    ): "topic 'TBW102' belongs to the broker; clients may not write it",
    errors.TopicExists(topic="T", queue_count=4): "topic 'T' exists already with 4 queues",
    errors.IllegalGroup(
        group="", why="it is empty"
    ): "consumer group '' is not allowed: it is empty",
    errors.SystemGroup(
        group="CID_RMQ_SYS_X", why="change"
    ): "consumer group 'CID_RMQ_SYS_X' belongs to the broker; nobody may change it",
    errors.GroupNotFound(
        group="G"
    ): "consumer group 'G' does not exist; create it: pocketmq group create 'G'",
    errors.GroupExists(group="G"): "consumer group 'G' exists already with other settings",
    errors.IllegalAttribute(
        name="queue.type", why="it cannot be changed"
    ): "attribute 'queue.type' is not allowed: it cannot be changed",
    errors.IllegalTag(tag="a|b", why="it holds |"): "tag 'a|b' is not allowed: it holds |",
    errors.IllegalKey(
        key="a b", why="it holds a space"
    ): "key 'a b' is not allowed: it holds a space",
    errors.IllegalProperty(
        name="KEYS", why="the name belongs to the broker"
    ): "property 'KEYS' is not allowed: the name belongs to the broker",
    errors.IllegalMessageGroup(
        group=" ", why="it is blank"
    ): "message group ' ' is not allowed: it is blank",
    errors.IllegalMessageId(
        message_id="\t", why="it is blank"
    ): "message id '\\t' is malformed: it is blank",
    errors.MessageNotFound(topic="T", message_id="id"): "topic 'T' holds no message with id 'id'",
    errors.BodyEmpty(position=2): "the body of message 2 is empty; send at least one byte",
    errors.BodyTooLarge(
        size_bytes=11, limit_bytes=10
    ): "bodies of 11 bytes exceed the limit of 10; send less at once or raise maxMessageSize",
    errors.PropertiesTooLarge(
        size_bytes=40_000, limit_bytes=32_767
    ): "properties of 40000 bytes exceed the limit of 32767, those the broker adds included",
    errors.TooManyProperties(count=129, limit=128): "129 properties exceed the limit of 128",
    errors.NoMessages(): "the request holds no message; send at least one",
    errors.TooManyMessages(count=3, limit=2): "3 messages in one request exceed the limit of 2",
    errors.MixedTopics(
        topic="a", other="b"
    ): "a batch goes to one topic, this one names 'a' and 'b'; send a request for each",
    errors.MixedQueues(
        why="message groups"
    ): "a batch goes to one queue, this one names two message groups; send a request for each",
    errors.QueueOutOfRange(
        topic="T", queue_id=4, count=4
    ): "queue 4 of topic 'T' does not exist: it has 4",
    errors.TopicNotWritable(topic="T", permission=4): "topic 'T' may not be written (permission 4)",
    errors.TopicNotReadable(topic="T", permission=2): "topic 'T' may not be read (permission 2)",
    errors.IllegalNumber(
        field="max_messages", value=0, lower=1, upper=32
    ): "max_messages is 0, allowed is 1 to 32",
    errors.OffsetOutOfRange(
        queue_offset=9, min_offset=1, max_offset=5
    ): "offset 9 is outside the queue: it reaches from 1 to 5",
    errors.IllegalFilter(
        expression="||", why="it names no tag"
    ): "filter '||' is not allowed: it names no tag",
    errors.IllegalPageToken(
        token="t"
    ): "page token 't' is not one of this query; start without a token",
    errors.UnsupportedFeature(
        feature="delayed messages"
    ): "this version does not serve delayed messages",
    errors.NotAccepting(
        accept_from_ms=1_700_000_000_000
    ): "sends are accepted from 1700000000000 (epoch ms) on",
    errors.BrokerReadOnly(
        why="brokerPermission is 4"
    ): "the broker takes no messages: brokerPermission is 4",
    errors.StoreBusy(
        held_ms=1200, limit_ms=1000
    ): "a write has held the store for 1200 ms (limit 1000); try again",
    errors.TooManyRequests(
        field="send", limit=256
    ): "256 requests of class send are in progress; try again",
    errors.Draining(): "the broker is stopping; try again elsewhere or later",
    errors.DiskFull(
        path="/store"
    ): "the disk under /store is full; free space, sends resume by themselves",
    errors.Corruption(
        path="/s/f", file_position=3, physical_offset=1027, why="bad magic"
    ): "/s/f is damaged at byte 3 (physical offset 1027): bad magic",
    errors.StoreLocked(
        path="/store"
    ): "/store is in use by another process; stop it or use another directory",
    errors.NotAStore(
        path="/home", why="it holds other files"
    ): "/home is not a store: it holds other files; name an empty or a store directory",
    errors.StoreTooNew(
        path="/store", found=2, known=1
    ): "/store has format version 2, this broker knows up to 1; use a later one",
    errors.StoreGap(
        path="/s/2048", expected=1024, found=2048
    ): "/s/2048 starts at 2048, expected 1024: a file is missing before it; "
    "bring it back from a copy",
    errors.WrongFileSize(
        path="/s/0", expected_bytes=1024, found_bytes=1000, key_names="size"
    ): "/s/0 has 1000 bytes, expected 1024; set size as the writer had it, or restore the file",
    errors.UnknownGeometry(
        path="/s/index", why="two sizes fit", key_names="maxIndexNum"
    ): "/s/index: two sizes fit; set maxIndexNum",
    errors.IllegalConfig(field="flush", why="sync or async"): "setting flush: sync or async",
    errors.ViewFailed(
        path="/s/q", tries=30, why="EIO"
    ): "/s/q could not be written after 30 tries: EIO",
    errors.StoreFailed(why="EIO"): "the store has stopped: EIO",
    errors.FsyncFailed(why="EIO"): "the disk refused to keep written bytes (EIO); the broker ends",
    errors.AllocationFailed(why="EPERM"): "a file could not be made (EPERM); the broker ends",
    errors.WriteFailed(why="EROFS"): "the disk could not be written to (EROFS)",
    errors.ReadFailed(path="/s/0", why="EIO"): "/s/0 cannot be read (EIO); look at the disk",
    errors.TopicNotFound(
        topic="orders"
    ): "topic 'orders' does not exist; create it: pocketmq topic create 'orders'",
    errors.RecordTooLarge(
        size_bytes=70_000, limit_bytes=65_528
    ): "70000 bytes of records do not fit one commit-log file (limit 65528); "
    "send a smaller batch or raise mappedFileSizeCommitLog",
}

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
    assert all(getattr(errors, kind.__name__) is kind for kind in TREE)


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


def test_every_class_has_the_code_that_clients_act_on() -> None:
    named = {name: code for code, names in CODES.items() for name in names.split()}
    own = {kind.__name__: kind.code for kind in TREE}
    assert own == {**dict.fromkeys(own, Code.INTERNAL_SERVER_ERROR), **named}
    assert set(CODES) == set(Code) - {Code.INTERNAL_SERVER_ERROR, Code.HA_NOT_AVAILABLE}


@pytest.mark.parametrize("error", TEXTS, ids=lambda error: type(error).__name__)
def test_an_error_tells_what_happened_which_limit_and_what_next(error: BrokerError) -> None:
    assert str(error) == TEXTS[error]


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


def test_what_ends_the_store_is_told_as_it_is() -> None:
    lost = errors.FsyncFailed(why="EIO")
    assert StoreFailed.by(lost) is lost
    other = StoreFailed.by(KeyError("orders"))
    assert (type(other), other.why) == (StoreFailed, "'orders'")


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
