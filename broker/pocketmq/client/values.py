"""What a client gives and takes: plain values, nothing of gRPC; errors are client_error.py's."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from pocketmq.model.administration import GroupSettings, QueueState
from pocketmq.model.batch import PutStatus
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import PullStatus


class Wait(Enum):
    """What a send waits for; names are the proto's."""

    DURABLE = 1
    APPENDED = 2


class Shape(Enum):
    """How a pull's messages come; names are the proto's."""

    MESSAGES = 0
    RECORDS = 1


@dataclass(frozen=True)
class Message:
    """A message to send; None and "" stand for what is not given.

    tag, keys      what consumers filter by, and what it is found by later
    message_id     the unique key; the client makes one unless it is given
    queue_id       the broker chooses one unless it is given
    message_group  messages of one group keep their order
    delay_level    …, deliver_at_ms (wall time), delay_ms (from when the broker takes it): when it
                   is to be delivered
    priority       from 0 on: before messages of less
    transactional  kept back until its transaction ends
    producer_group of a transactional one: whose producers decide it; "": the topic's name
    first_check_ms of a transactional one: how long nobody is asked, None: as the broker has it
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
    """Where a message that was sent lies.

    recall_handle   of one that waits for a time, what takes it back; else ""
    transaction_id  of a transactional one, by what its transaction is ended; else ""
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
    """What came of ending a transaction; values are the proto's."""

    ENDED = 1
    NO_TRANSACTION = 2
    ENDED_OTHERWISE = 3
    CANNOT_COMMIT = 4


class Ended(NamedTuple):
    """What came of ending a transaction, and why it was not ended."""

    status: EndStatus
    why: str


class PendingTransaction(NamedTuple):
    """A transaction somebody is asked about: how often by now, and its message as it will come."""

    transaction_id: str
    message: StoredMessage
    checks: int


class OpenTransaction(NamedTuple):
    """A transaction as operators see it.

    store_timestamp_ms   when its message was stored, or put again to be checked
    state                open, committed, rolled back, given up
    producer_count       who could be asked now
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
    """What to pull; 0 stands for the broker's default, `sql` says what language the filter is."""

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
    """What to receive for a group; 0 stands for the broker's default.

    invisible_ms   how long the lease of each message lasts: until then nobody else of the group
                   gets it
    wait_ms        wait so long for messages, up to 30 s
    expression     of tags, "a||b", or of SQL where `sql` says so
    client_id      who asks; the client makes one unless it is given
    attempt_id     repeated by who lost the answer, which is given again
    auto_renew     leases last as long as the client is heard of, two minutes after its last call
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

    receipt_handle      what its lease is settled by; "" of a broadcast, which has none
    attempt             the how manieth delivery to its group it is, from 1
    invisible_until_ms  when the lease runs out, wall time
    """

    message: StoredMessage
    receipt_handle: str
    attempt: int
    invisible_until_ms: int


class KeyQuery(NamedTuple):
    """Which messages to look for by key; times in ms, 0 stands for the broker's default."""

    topic: str
    key: str
    count_max: int = 0
    begin_ms: int = 0
    end_ms: int = 0
    page_token: str = ""


@dataclass(frozen=True)
class TailQuery:
    """What to follow; without time and count it begins where the queues end now.

    since_ms      begin with what was stored then or later
    last_count    begin with the last so many
    expression    only these tags, "a||b", or what this SQL is true of
    sql           whether the expression is SQL
    follow        wait for more
    is_lasting    a broker that goes away is waited for
    """

    topic: str
    since_ms: int | None = None
    last_count: int | None = None
    expression: str = "*"
    sql: bool = False
    follow: bool = True
    is_lasting: bool = True


class PullPage(NamedTuple):
    """What a pull found; `records` holds joined commit-log records, for shape RECORDS."""

    status: PullStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    messages: list[StoredMessage]
    records: bytes


class TopicState(NamedTuple):
    """A topic; `type` is a name of the proto's TopicType, `queues` is filled by describe_topic."""

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
    """A group; `topics` is filled by describe_group: where it has an offset."""

    name: str
    settings: GroupSettings
    system: bool
    attributes: dict[str, str]
    topics: list[str]
