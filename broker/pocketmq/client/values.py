"""Requests and results of a client as plain values, without gRPC."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from pocketmq.model.administration import GroupSettings, QueueState
from pocketmq.model.batch import PutStatus
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import PullStatus


class Wait(Enum):
    """The durability a send waits for; names are the proto's."""

    DURABLE = 1
    APPENDED = 2


class Shape(Enum):
    """The form of a pull's messages; names are the proto's."""

    MESSAGES = 0
    RECORDS = 1


@dataclass(frozen=True)
class Message:
    """A message to send; None and "" mean unset.

    tag, keys      for consumers' filters, and for lookups
    message_id     the unique key; unset: the client makes one
    queue_id       unset: the broker chooses one
    message_group  messages of one group keep their order
    delay_level    …, deliver_at_ms (wall time), delay_ms (after its arrival at the broker):
                   delivery time
    priority       from 0; higher is delivered first
    transactional  held back until its transaction ends
    producer_group of a transactional message: the group whose producers resolve it; "": the
                   topic's name
    first_check_ms of a transactional message: time before the first check; None: the broker's
                   setting
    properties     the producer's own
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


class Receipt(NamedTuple):
    """The place and ids of a sent message.

    recall_handle   of a delayed message: cancels its delivery; else ""
    transaction_id  of a transactional message: ends its transaction; else ""
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
    """Result codes of ending a transaction; values are the proto's."""

    ENDED = 1
    NO_TRANSACTION = 2
    ENDED_OTHERWISE = 3
    CANNOT_COMMIT = 4


class Ended(NamedTuple):
    """Result of ending a transaction; `why` explains a failure."""

    status: EndStatus
    why: str


class PendingTransaction(NamedTuple):
    """A transaction to check: its message as consumers would get it, and the count of checks."""

    transaction_id: str
    message: StoredMessage
    checks: int


class OpenTransaction(NamedTuple):
    """A transaction as operators see it.

    store_timestamp_ms   when its half message was stored, or rewritten for a check
    state                open, committed, rolled back, given up
    producer_count       connected producers that could be asked now
    """

    transaction_id: str
    group: str
    topic: str
    message_id: str
    checks: int
    store_timestamp_ms: int
    state: str
    producer_count: int


@dataclass(frozen=True)
class PullQuery:
    """Parameters of a pull; 0 means the broker's default.

    sql   whether the expression is SQL, not tags
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


@dataclass(frozen=True)
class ReceiveQuery:
    """Parameters of a receive for a group; 0 means the broker's default.

    invisible_ms   how long each lease lasts: until then no other consumer of the group gets the
                   message
    wait_ms        wait so long for messages, up to 30 s
    expression     tags, "a||b", or SQL if `sql` is set
    client_id      unset: the client makes one
    attempt_id     a receive with the same id returns the same messages, for lost replies
    auto_renew     leases last until two minutes after the client's last call
    broadcast      every client gets every message, and settles none
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


class Leased(NamedTuple):
    """A message that was received.

    receipt_handle      settles its lease; "" of a broadcast, which has none
    attempt             number of this delivery to its group, from 1
    invisible_until_ms  end of the lease, wall time
    """

    message: StoredMessage
    receipt_handle: str
    attempt: int
    invisible_until_ms: int


class KeyQuery(NamedTuple):
    """Parameters of a query by key; times in ms, 0 means the broker's default."""

    topic: str
    key: str
    count_max: int = 0
    begin_ms: int = 0
    end_ms: int = 0
    page_token: str = ""


@dataclass(frozen=True)
class TailQuery:
    """Parameters of a tail; without time and count it begins at the ends of the queues.

    since_ms      begin with messages stored at this time or later
    last_count    begin with the last so many
    expression    tags, "a||b", or SQL if `sql` is set
    follow        wait for more
    is_lasting    wait for a broker that becomes unreachable
    """

    topic: str
    since_ms: int | None = None
    last_count: int | None = None
    expression: str = "*"
    sql: bool = False
    follow: bool = True
    is_lasting: bool = True


class PullPage(NamedTuple):
    """Result of a pull; `records` holds concatenated commit-log records, for shape RECORDS."""

    status: PullStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    messages: list[StoredMessage]
    records: bytes


class TopicState(NamedTuple):
    """A topic; `type` is a name of the proto's TopicType, only describe_topic fills `queues`."""

    name: str
    read_queue_count: int
    write_queue_count: int
    permission: int
    type: str
    system: bool
    order: bool
    attributes: dict[str, str]
    queues: list[QueueState]

    @property
    def readable_queues(self) -> list[QueueState]:
        """The queues that can be read from."""
        return [queue for queue in self.queues if queue.queue_id < self.read_queue_count]


class GroupState(NamedTuple):
    """A group; `topics`, those it has an offset in, is filled by describe_group only."""

    name: str
    settings: GroupSettings
    system: bool
    attributes: dict[str, str]
    topics: list[str]
