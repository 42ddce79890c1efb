"""Requests and results of a client as plain values, without gRPC."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from pocketmq.model.administration import GroupSettings, GroupStats, QueueState, TopicCounts
from pocketmq.model.batch import PutStatus
from pocketmq.model.message import StoredMessage
from pocketmq.model.named_fields import lists_fields
from pocketmq.model.reading import PullStatus


class Wait(Enum):
    """The durability that a send waits for; names as in the proto."""

    DURABLE = 1
    APPENDED = 2


class Shape(Enum):
    """The form of a pull's messages; names as in the proto."""

    MESSAGES = 0
    RECORDS = 1


@lists_fields
@dataclass(frozen=True)
class Message:
    """A message to send; None and "" mean unset.

    tag            for filters of consumers
    keys           for queries by key
    message_id     the unique key; unset: the client generates one
    queue_id       unset: the broker chooses one
    message_group  messages of one group are consumed in order
    delay_level    from 1
    deliver_at_ms  delivery time, wall time
    delay_ms       delay from the arrival at the broker
    priority       from 0; higher priorities are delivered first
    transactional  not delivered until its transaction is committed
    producer_group group whose producers resolve a transactional message; "": the topic's name
    first_check_ms time before the first check of a transactional message; None: the broker's
                   setting
    properties     user properties
    Errors         TypeError: body or keys are a str; a property's name or value is none
    """

    topic: str
    body: bytes
    tag: str | None = None
    keys: Sequence[str] = ()
    message_id: str = ""
    queue_id: int | None = None
    message_group: str | None = None
    delay_level: int | None = None
    deliver_at_ms: int | None = None
    delay_ms: int | None = None
    priority: int | None = None
    transactional: bool = False
    producer_group: str = ""
    first_check_ms: int | None = None
    properties: dict[str, str] = field(default_factory=dict)
    born_timestamp_ms: int | None = None
    born_host: str | None = None
    flag: int = 0

    def __post_init__(self) -> None:
        body: object = self.body
        if isinstance(body, str):
            raise TypeError("the body is a str, but a message has bytes: write text.encode()")
        if isinstance(self.keys, str):
            raise TypeError(f"keys is a str, but a message has several: write [{self.keys!r}]")
        if self.properties:
            _check_properties(self.properties)


def check_kind(value: object, kind: type) -> None:
    """Reports a value that is not of the client's class, such as a message of RocketMQ's client.

    Errors   TypeError, with both classes
    """
    if not isinstance(value, kind):
        given = type(value)
        own = given.__qualname__
        name = own if given.__module__ == "builtins" else f"{given.__module__}.{own}"
        raise TypeError(f"the call takes a pocketmq.{kind.__name__}, not a {name}")


def check_argument(name: str, given: object, kind: type) -> None:
    """Reports an argument that is not of its class.

    Errors   TypeError, with the argument's name
    """
    if not isinstance(given, kind):
        raise TypeError(f"{name} is a {kind.__name__}, not {given!r}")


def _check_properties(properties: object) -> None:
    if not isinstance(properties, Mapping):  # Any mapping is sent, a dict or not.
        raise TypeError(f"properties is a dict, not {properties!r}")
    for name, value in properties.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            what = f"property {name!r}" if isinstance(name, str) else f"the name {name!r}"
            given = value if isinstance(name, str) else name
            a = type(given).__name__
            an = "an" if a[0] in "aeiou" else "a"
            raise TypeError(f"{what} is {an} {a}, but properties are texts: write {str(given)!r}")


class Receipt(NamedTuple):
    """Offsets and ids of a sent message.

    recall_handle   recalls a delayed message; "" for any other
    transaction_id  ends the transaction of a transactional message; "" for any other
    """

    topic: str
    message_id: str
    offset_message_id: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_timestamp_ms: int
    status: PutStatus
    recall_handle: str = ""
    transaction_id: str = ""


class EndStatus(Enum):
    """Result codes of ending a transaction; values as in the proto."""

    ENDED = 1
    NO_TRANSACTION = 2
    ENDED_OTHERWISE = 3
    CANNOT_COMMIT = 4


class Ended(NamedTuple):
    """Result of ending a transaction; `why` explains a failure."""

    status: EndStatus
    why: str


class PendingTransaction(NamedTuple):
    """A transaction to check: the message as consumers would get it, and the number of checks."""

    transaction_id: str
    message: StoredMessage
    checks: int


class OpenTransaction(NamedTuple):
    """A transaction as operators see it.

    store_timestamp_ms   store time of the half message's latest copy
    state                open, committed, rolled back, given up
    producer_count       number of connected producers of the group
    """

    transaction_id: str
    group: str
    topic: str
    message_id: str
    checks: int
    store_timestamp_ms: int
    state: str
    producer_count: int


@lists_fields
@dataclass(frozen=True)
class PullQuery:
    """Parameters of a pull; a limit of 0 means the broker's default.

    wait_ms longest wait for messages at the queue's end, up to 30 s; 0: none
    sql     whether the expression is SQL, not tags
    begin   unless empty, the pull reads from the group's offset instead of `queue_offset`; a group
            without an offset begins where `begin` says, as in ReceiveQuery
    """

    topic: str
    queue_id: int
    queue_offset: int
    group: str = ""
    max_messages: int = 0
    max_bytes: int = 0
    expression: str = "*"
    sql: bool = False
    wait_ms: int = 0
    shape: Shape = Shape.MESSAGES
    commit_offset: int | None = None
    client_id: str = ""
    begin: str = ""


@lists_fields
@dataclass(frozen=True)
class ReceiveQuery:
    """Parameters of a receive for a group; a limit of 0 means the broker's default.

    max_messages   upper limit of messages, up to 32; 0: 32
    invisible_ms   duration of each lease, in which no other consumer of the group gets the message
    wait_ms        longest wait for messages, up to 30 s; 0: none, or 15 s in `consume`
    expression     tags, "a||b", or SQL if `sql` is set
    client_id      unset: the client generates one
    attempt_id     a receive with the same id returns the same messages, for lost replies
    auto_renew     leases last until two minutes after the client's last call
    broadcast      every client gets every message, without leases
    begin          where a group without an offset begins: "min", "max", or a time as RFC 3339 or
                   ms since 1970; "": as the group's settings state
    """

    group: str
    topic: str
    max_messages: int = 0
    invisible_ms: int = 0
    wait_ms: int = 0
    expression: str = "*"
    sql: bool = False
    client_id: str = ""
    attempt_id: str = ""
    auto_renew: bool = False
    broadcast: bool = False
    begin: str = ""


class Leased(NamedTuple):
    """A message that was received.

    receipt_handle      settles its lease; "" for a broadcast, which has no lease
    attempt             number of this delivery to its group, from 1
    invisible_until_ms  end of the lease, wall time
    """

    message: StoredMessage
    receipt_handle: str
    attempt: int
    invisible_until_ms: int

    @property
    def body(self) -> bytes:
        """The message's body."""
        return self.message.body


@lists_fields
class KeyQuery(NamedTuple):
    """Parameters of a query by key; times in ms, 0 means the broker's default."""

    topic: str
    key: str
    count_max: int = 0
    begin_ms: int = 0
    end_ms: int = 0
    page_token: str = ""


@lists_fields
@dataclass(frozen=True)
class TailQuery:
    """Parameters of a tail; without `since_ms` and `last_count` it begins at the queues' ends.

    since_ms      begins with messages stored at this time or later
    last_count    begins with this number of last messages
    expression    tags, "a||b", or SQL if `sql` is set
    follow        waits for new messages
    is_lasting    waits for a broker that becomes unreachable
    Errors        ValueError: since_ms and last_count are both set
    """

    topic: str
    since_ms: int | None = None
    last_count: int | None = None
    expression: str = "*"
    sql: bool = False
    follow: bool = True
    is_lasting: bool = True

    def __post_init__(self) -> None:
        if None not in (self.since_ms, self.last_count):
            raise ValueError("since_ms and last_count are two beginnings: set one of them")


class PullPage(NamedTuple):
    """Result of a pull; for shape RECORDS, `records` contains concatenated commit-log records."""

    status: PullStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    messages: list[StoredMessage]
    records: bytes


class TopicState(NamedTuple):
    """A topic; `type` is a name of the proto's TopicType. Only describe_topic sets `queues`.

    retention_ms      age in ms above which the topic's messages cannot be read; 0: no limit
    retention_bytes   total size of the topic's newest messages that can be read; 0: no limit
    counts            set only by list_topics with `with_stats`
    """

    name: str
    read_queue_count: int
    write_queue_count: int
    permission: int
    type: str
    system: bool
    order: bool
    attributes: dict[str, str]
    queues: list[QueueState]
    retention_ms: int = 0
    retention_bytes: int = 0
    counts: TopicCounts | None = None

    @property
    def readable_queues(self) -> list[QueueState]:
        """The queues that consumers may read: those with an id below `read_queue_count`."""
        return [queue for queue in self.queues if queue.queue_id < self.read_queue_count]


class GroupState(NamedTuple):
    """A group. Only describe_group sets `topics`: those in which the group has offsets.

    stats   set only by list_groups with `with_stats`
    """

    name: str
    settings: GroupSettings
    system: bool
    attributes: dict[str, str]
    topics: list[str]
    stats: GroupStats | None = None


class GrantState(NamedTuple):
    """A grant of actions on a resource to a user; with `deny` a prohibition.

    sources   client addresses that the grant applies to; empty: all
    """

    user: str
    actions: list[str]
    resource: str
    deny: bool = False
    sources: Sequence[str] = ()
