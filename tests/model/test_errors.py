"""The error tree: every class has a code and a message that renders, whatever a client sent."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.model import errors
from pocketmq.model.errors import BrokerError, Code, RequestError, shown
from pocketmq.model.errors.code import SHOWN_LENGTH_MAX, shown_room
from pocketmq.model.errors.storage import BrokerReadOnly, StorageError, StoreFailed, Unavailable

CODES: dict[Code, str] = {
    Code.BAD_REQUEST: (
        "RequestError IllegalAttribute IllegalBegin QueueOutOfRange IllegalNumber IllegalPageToken "
        "IllegalRecallHandle IllegalSettings IllegalUser UserNotFound IllegalGrant GrantNotFound "
        "ClientNotFound ClientSilent TooManyElements"
    ),
    Code.ILLEGAL_TOPIC: "IllegalTopic SystemTopic",
    Code.TOPIC_NOT_FOUND: "TopicNotFound",
    Code.PRECONDITION_FAILED: (
        "TopicExists GroupExists GroupInUse OriginUnknown UserExists WrongRole FollowersBehind "
        "ReplicaNotFound LastAdmin"
    ),
    Code.ILLEGAL_CONSUMER_GROUP: "IllegalGroup SystemGroup",
    Code.CONSUMER_GROUP_NOT_FOUND: "GroupNotFound",
    Code.ILLEGAL_MESSAGE_TAG: "IllegalTag",
    Code.ILLEGAL_MESSAGE_KEY: "IllegalKey",
    Code.ILLEGAL_MESSAGE_PROPERTY_KEY: "IllegalProperty",
    Code.ILLEGAL_MESSAGE_GROUP: "IllegalMessageGroup",
    Code.ILLEGAL_MESSAGE_ID: "IllegalMessageId",
    Code.MESSAGE_NOT_FOUND: "MessageNotFound NotWaiting",
    Code.MESSAGE_BODY_EMPTY: "BodyEmpty",
    Code.MESSAGE_BODY_TOO_LARGE: "BodyTooLarge",
    Code.MESSAGE_PROPERTIES_TOO_LARGE: "PropertiesTooLarge TooManyProperties",
    Code.PAYLOAD_TOO_LARGE: "RecordTooLarge TooManyMessages",
    Code.MESSAGE_CORRUPTED: "NoMessages MixedTopics MixedQueues MixedKinds BodyCorrupted",
    Code.ILLEGAL_DELIVERY_TIME: "IllegalDeliveryTime",
    Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE: "KindConflict AmbiguousKind",
    Code.FORBIDDEN: (
        "TopicNotWritable TopicNotReadable BrokerReadOnly NotLeader StoreDamaged GroupDisabled "
        "TransactionsRefused AccessDenied AdminsOnly"
    ),
    Code.UNAUTHORIZED: "Unauthenticated",
    Code.INVALID_TRANSACTION_ID: "TransactionUnknown TransactionDecided",
    Code.CLIENT_ID_REQUIRED: "ClientIdRequired",
    Code.OFFSET_NOT_FOUND: "OffsetNotFound",
    Code.INVALID_RECEIPT_HANDLE: "InvalidReceiptHandle",
    Code.ILLEGAL_INVISIBLE_TIME: "IllegalInvisibleTime",
    Code.ILLEGAL_OFFSET: "OffsetOutOfRange",
    Code.ILLEGAL_FILTER_EXPRESSION: "IllegalFilter",
    Code.UNSUPPORTED: "UnsupportedFeature UnsupportedTopic",
    Code.TOO_MANY_REQUESTS: (
        "StoreBusy TransientPoolEmpty TooManyRequests ShareTaken LimitReached CapacityReached "
        "CreationsUsedUp DiskSlow DiskFull DiskAboveLimit DiskNearlyFull"
    ),
    Code.HA_NOT_AVAILABLE: "NotReplicated",
}
"""What is not here is the broker's: INTERNAL_SERVER_ERROR."""

TEXTS = """
IllegalTopic: topic 'topic' is not allowed: why; choose another name
SystemTopic: topic 'topic' belongs to the broker; clients may not why it
TopicNotFound: topic 'topic' does not exist; create it: pocketmq topic create 'topic'
TopicExists: topic 'topic' exists already, of type 'type_name' with 7 queues
IllegalGroup: consumer group 'group' is not allowed: why
SystemGroup: consumer group 'group' belongs to the broker; clients may not why it
GroupNotFound: consumer group 'group' does not exist; create it: pocketmq group create 'group'
GroupExists: consumer group 'group' exists already with other settings: why
GroupInUse: consumer group 'group' is in use by kind clients: classic clients commit offsets, pop \
clients settle leases; use another group, or stop its other clients and wait 2 minutes
IllegalTag: tag 'tag' is not allowed: why
IllegalKey: key 'key' is not allowed: why
IllegalProperty: property 'name' is not allowed: why
IllegalAttribute: attribute 'name' is not allowed: why
IllegalBegin: a group cannot begin at 'begin'; use min, max, or a time such as \
2026-11-21T02:30:00Z or 1795228200000
IllegalMessageGroup: message group 'group' is not allowed: why
IllegalMessageId: message id 'message_id' is malformed: why
MessageNotFound: topic 'topic' contains no message with id 'message_id'
BodyEmpty: the body of message 7 is empty; send at least one byte
BodyTooLarge: bodies of 7 bytes exceed the limit of 9; send less at once or raise
  limits.max_message_size_bytes (maxMessageSize)
PropertiesTooLarge: properties of 7 bytes exceed the limit of 9, including the properties that the
  broker adds; shorten keys, tag or properties
TooManyProperties: 7 properties exceed the limit of 9
RecordTooLarge: 7 bytes of records do not fit one commit-log file (limit 9); send a smaller batch
  or raise mappedFileSizeCommitLog
TooManyMessages: 7 messages in one request exceed the limit of 9
MixedTopics: the messages of a request must have one topic, but these have 'topic' and 'other'; send
  a request for each topic
MixedQueues: the messages of a request must have equal why; send those that differ in separate
  requests
MixedKinds: the messages of a request must have one kind, but these have 'kind' and 'other'; send a
  request for each kind
KindConflict: topic 'topic' accepts 'type' messages, this is a 'kind' message; send it to a topic of
  that type, or of type MIXED
AmbiguousKind: a message has either a message group, a delay level, a delivery time, a delay, a
  transaction or a priority; message 7 has why
IllegalDeliveryTime: a delivery 7ms ahead exceeds the limit of 9ms; deliver earlier, or raise
  limits.delay_max_ms
IllegalRecallHandle: the recall handle is not valid: why; use the one that the send returned
NotWaiting: message 'message_id' of topic 'topic' is not pending any more: its delivery time has
  passed
QueueOutOfRange: queue 7 of topic 'topic' does not exist: it has 9
TopicNotWritable: topic 'topic' may not be written (permission 7)
TopicNotReadable: topic 'topic' may not be read (permission 7)
GroupDisabled: consumer group 'group' is turned off; turn it on:
    pocketmq group edit 'group' --enabled true
UnsupportedTopic: topic 'topic' has 'attribute', which this broker does not serve: its messages stay
  as they are, for a RocketMQ broker; use another topic
IllegalNumber: field is 7, allowed is 9 to 11
OffsetOutOfRange: offset 7 is outside the queue: it reaches from 9 to 11
IllegalFilter: filter 'expression' is not allowed: why
IllegalPageToken: page token 'token' does not belong to this query; start without a token
OriginUnknown: dead letter 7 of group 'group' does not name its original topic; state a
  target topic
TransactionUnknown: transaction 'transaction_id' is not one of producer group 'group': why
TransactionDecided: transaction 'transaction_id' is already first: the first decision stands;
    send the message again if that is wrong
TransactionsRefused: this broker accepts no messages of transactions (transactions.refuse);
    send the message without one
UnsupportedFeature: this version does not serve feature
ClientIdRequired: the call contains no client id; send it as header x-mq-client-id
InvalidReceiptHandle: receipt handle 'handle' belongs to no leased message; receive the
  message again
IllegalInvisibleTime: invisible time 7ms is not allowed: it may be 9ms to 11ms
BodyCorrupted: the algorithm digest of message 'message_id' does not match its body; send it
  again
OffsetNotFound: group 'group' has no offset in queue 7 of topic 'topic'; update it first
Unauthenticated: why; this broker requires authentication: give the client an access key and its
  secret (pocketmq user add makes them)
AccessDenied: user user may not action 'resource': why; an admin changes that:
  pocketmq acl remedy user action 'resource'
AdminsOnly: user user may not what, which is for admins: pocketmq user edit user --admin
IllegalUser: user 'user' is not allowed: why
UserNotFound: there is no user 'user'; see pocketmq user ls
UserExists: user 'user' exists already; change it: pocketmq user edit 'user'
LastAdmin: user 'user' is the last enabled admin; make another one first:
  pocketmq user add NAME --admin
IllegalGrant: 'text' is not a valid what: why
GrantNotFound: user 'user' has no rule that decision actions on resource; see pocketmq acl ls
WrongRole: the broker is 'role': why
FollowersBehind: no follower has the last 7 bytes of the log after 9ms; wait until one has them
  (pocketmq replica status), or add --force: then records that only this broker has are set aside
ReplicaNotFound: no follower is 'replica'; pocketmq replica status lists them
FollowersLate: not all of the log is on 7 brokers after 9ms; look at the followers (pocketmq replica
  status), then try again
ClientNotFound: no client 'client_id' of group 'group' has a stream; see pocketmq group members
ClientSilent: client 'client_id' does not answer: why
IllegalSettings: settings of client 'client_id' contain neither publishing nor subscription
NotAccepting: sends are accepted from 1970-01-01T00:00:00.007Z on (broker.accept_from_ms)
BrokerReadOnly: the broker accepts no messages: why
NotLeader: the broker accepts neither messages nor changes: why; send them to its leader, leader
StoreDamaged: the store accepts no messages: path is damaged from byte 7 on (physical offsets 9 to
  11): why; stop the broker and repair it with `pocketmq store repair`, or start it with
  --accept-damage
StoreBusy: a write has held the store for 7ms (limit 9ms); try again
TransientPoolEmpty: all 7 buffers of the transient pool wait to be written; try again, or raise
  store.transient_pool_file_count
TooManyRequests: 7 requests of class field are in progress; try again
LimitReached: there are 7 of 9 field, the broker's own included (ls --system); remove some, or
  raise 'setting'
CapacityReached: the broker keeps at most 7 field; stop some clients, or try again later
CreationsUsedUp: user 'user' has created 7 topics and groups within an hour; continue later, let
  an admin create them, or raise limits.user_creations_per_hour
NotReplicated: the change of path is stored here, but 7 of 9 followers have it; repeat the call once
  they follow, or lower replication.in_sync_replicas
TooManyElements: field field has more than 7 elements; send them in several requests
ShareTaken: 'holder' uses 7 of the 9 places of class field, and gets no more while few are free;
  wait until some of its calls end, or try again
DiskFull: the disk under path is full; free space, sends resume by themselves
DiskAboveLimit: the disk under path is 7 % used with 9 bytes free, sends are refused above 11 %
  (retention.disk_refuse_percent); free space, they resume by themselves
DiskNearlyFull: the disk under path has 9 bytes free (7 % used), sends need 11 bytes: a commit-log
  file, the reserve and retention.disk_margin_bytes; free space, they resume by themselves
DiskSlow: the data is not in memory after 7 reads from disk; request less, or retry later
Corruption: path is damaged at byte 7 (physical offset 9): why
MessageDamaged: path is damaged at byte 7 (physical offset 9): why; message 11 of the queue cannot
  be read, continue at 13
ReadFailed: path cannot be read (why); check its owner and mode, then the disk
NotAPlainFile: path is not opened: why; below a store directory no links are followed and only
  plain files are opened, move it away
TableUnreadable: path cannot be read (why), and there is no valid .bak of it; repair it with
  `pocketmq store repair`, or restore it from a copy
StoreLocked: path is in use by holder; stop it or use another directory
TableChanged: path was changed by another program in the meantime; run the command again
NotAStore: path is not a store: why; name an empty or a store directory
StrayFile: path is not a file of the store: why; move it out of the directory
UnsupportedStore: path: why; this broker does not write to such a store: continue with RocketMQ, or
  way_out
LogMissing: path has no file, but the files in views were built from a log: move its files there
  (RocketMQ may keep them elsewhere: storePathCommitLog) or restore them from a copy; without
  one: way_out
StoreTooNew: path has format version 7, this broker supports up to 9; use a later
  version
StoreGap: path starts at 9, expected 7: a file is missing before it, or has a wrong name; `pocketmq
  store verify` shows which, and the messages that would be lost
WrongFileSize: path has 9 bytes, expected 7; `pocketmq store verify` shows whether messages are
  lost, and the repair; if all files have that length, set key_names
UnknownGeometry: path: why; set key_names
IllegalConfig: setting field: why
SettingsFileUnusable: field: why
AddressUnavailable: setting field: 'address' cannot be listened on: why
SparkMissing: Spark cannot be started: why
ViewFailed: path could not be written after 7 tries: why
PlaceUnusable: path cannot be used: why
StoreFailed: the store has stopped: why
FsyncFailed: the disk refused to keep written bytes (why); the broker ends
WriteFailed: the disk could not be written to (why)
AllocationFailed: a file could not be created (why); check the directory's owner and mode
NoMessages: the request contains no message; send at least one
Recovering: the broker is recovering its store; try again soon
Draining: the broker is stopping; try again elsewhere or later
"""
"""Every error as it reads when text fields hold their names and numbers are 7, 9, 11 and 13."""

MESSAGE_LENGTH_MAX = 800
"""Three pieces of client text, each cut, and our own words around them."""


def subclasses(root: type[BrokerError]) -> Iterator[type[BrokerError]]:
    """Walks the product's classes below a class, without those that tests define."""
    for found in root.__subclasses__():
        if found.__module__.startswith("pocketmq.model.errors"):
            yield found
            yield from subclasses(found)


TREE: list[type[BrokerError]] = [BrokerError, *subclasses(BrokerError)]
LEAVES = [found for found in TREE if found.field_types]
every_class = pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
every_leaf = pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.__name__)


def family(root: type[BrokerError]) -> set[type[BrokerError]]:
    return {root, *subclasses(root)}


def made(kind: type[BrokerError]) -> BrokerError:
    """Makes an error with its own name in every str field and numbers that differ in the others."""
    numbers = iter((7, 9, 11, 13))
    return kind(
        **{name: name if of is str else next(numbers) for name, of in kind.field_types.items()}
    )


def tree_of_architecture() -> dict[str, str]:
    """Reads the tree in ARCHITECTURE.md: class name to name of its parent."""
    parents: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    text = (Path(__file__).resolve().parents[2] / "ARCHITECTURE.md").read_text()
    picture = text.partition("## The errors")[2].split("```\n")[1]
    for line in picture.splitlines():
        indent = len(line) - len(line.lstrip())
        names = re.split(r"  +", line.strip())[0].split(" · ")
        path = [(depth, name) for depth, name in path if depth < indent]
        parents |= dict.fromkeys(names, path[-1][1] if path else "Exception")
        path.append((indent, names[0]))
    return parents


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0ms"),
        (999, "999ms"),
        (65_000, "1m 5s"),
        (86_400_001, "1d 1ms"),
        (-1_500, "-1s 500ms"),
        (9_007_200_000, "104d 6h"),
    ],
)
def test_a_duration_in_an_error_has_human_units(duration_ms: int, text: str) -> None:
    error = errors.IllegalDeliveryTime(ahead_ms=duration_ms, limit_ms=3_600_000)
    assert str(error).startswith(f"a delivery {text} ahead exceeds the limit of 1h;")


def test_a_number_outside_its_range_is_in_the_unit_of_its_field() -> None:
    limits = {"value": 90_000, "lower": 0, "upper": 65_000}
    told = str(errors.IllegalNumber(field="wait_ms", **limits))
    assert told == "wait_ms is 1m 30s, allowed is 0ms to 1m 5s"
    assert "is 90000," in str(errors.IllegalNumber(field="max_messages", **limits))


def test_a_moment_in_an_error_is_a_time_unless_no_calendar_has_it() -> None:
    assert "from 2026-11-21T02:30:00.000Z on" in str(
        errors.NotAccepting(accept_from_ms=1_795_228_200_000)
    )
    assert "(epoch ms)" in str(errors.NotAccepting(accept_from_ms=2**62))


def test_the_architecture_draws_the_tree_as_it_is() -> None:
    assert tree_of_architecture() == {kind.__name__: kind.__bases__[0].__name__ for kind in TREE}


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
def test_a_message_names_all_its_fields_on_one_line_that_goes_on_behind_other_words(
    kind: type[BrokerError],
) -> None:
    text = str(made(kind))
    assert set(re.findall(r"{(\w+)}", kind.message)) == kind.field_types.keys()
    assert not re.search(r"[{}\n]|\.$", text)


@every_leaf
def test_client_text_is_cut_and_cannot_write_lines_of_its_own(kind: type[BrokerError]) -> None:
    error = made(kind)
    for text in ("x" * 1_000_000, "a\r\n\x00\x1b[31m\u202e{why}{nothing}\ud800"):
        for name in vars(error).keys() - kind.plain:
            setattr(error, name, text)
        assert len(str(error)) < MESSAGE_LENGTH_MAX
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
    assert set(CODES) == set(Code) - {Code.INTERNAL_SERVER_ERROR}


def test_an_error_tells_what_happened_which_limit_and_what_next() -> None:
    lines = re.sub(r"\n +", " ", TEXTS).strip().splitlines()
    assert dict(line.split(": ", 1) for line in lines) == {
        kind.__name__: str(made(kind))
        for kind in TREE
        if kind.field_types or not [*subclasses(kind)]
    }


def test_codes_have_the_numbers_of_the_protocol() -> None:
    assert {code.name: code.value for code in Code} == {
        "BAD_REQUEST": 40000, "ILLEGAL_TOPIC": 40002, "ILLEGAL_CONSUMER_GROUP": 40003,
        "ILLEGAL_MESSAGE_TAG": 40004, "ILLEGAL_MESSAGE_KEY": 40005, "ILLEGAL_MESSAGE_GROUP": 40006,
        "ILLEGAL_MESSAGE_PROPERTY_KEY": 40007, "ILLEGAL_MESSAGE_ID": 40009,
        "INVALID_TRANSACTION_ID": 40008,
        "ILLEGAL_DELIVERY_TIME": 40012, "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE": 40014,
        "ILLEGAL_FILTER_EXPRESSION": 40010, "MESSAGE_CORRUPTED": 40016, "ILLEGAL_OFFSET": 40019,
        "UNAUTHORIZED": 40100,
        "FORBIDDEN": 40300, "MESSAGE_NOT_FOUND": 40401, "TOPIC_NOT_FOUND": 40402,
        "CONSUMER_GROUP_NOT_FOUND": 40403, "PAYLOAD_TOO_LARGE": 41300,
        "MESSAGE_BODY_TOO_LARGE": 41301, "MESSAGE_BODY_EMPTY": 41302, "PRECONDITION_FAILED": 42800,
        "TOO_MANY_REQUESTS": 42900, "MESSAGE_PROPERTIES_TOO_LARGE": 43101,
        "CLIENT_ID_REQUIRED": 40017, "OFFSET_NOT_FOUND": 40404, "ILLEGAL_INVISIBLE_TIME": 40011,
        "INVALID_RECEIPT_HANDLE": 40013, "INTERNAL_SERVER_ERROR": 50001,
        "HA_NOT_AVAILABLE": 50002, "UNSUPPORTED": 50500,
    }  # fmt: skip


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


def test_an_error_has_its_fields_or_their_defaults_and_no_other() -> None:
    error = errors.StoreLocked(path="/store")
    assert vars(error) == {"path": "/store", "holder": "another process"}
    assert [*errors.MessageDamaged.field_types][:2] == ["path", "file_position"]
    with pytest.raises(AttributeError, match="topic"):
        errors.TopicNotFound()  # type: ignore[call-arg]
    with pytest.raises(AssertionError, match="unknown field"):
        errors.TopicNotFound(topic="T", group="G")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("byte_count", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1_000, "1.0 kB"), (39_899_999, "39.8 MB"),
     (99_999_999, "99.9 MB"), (150_994_944, "150 MB"), (2 * 10**9, "2.0 GB"), (10**16, "10000 TB")],
)  # fmt: skip
def test_free_space_has_the_units_of_the_command_line(byte_count: int, text: str) -> None:
    assert shown_room(byte_count) == text
