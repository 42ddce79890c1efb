"""What the command line's client gives and takes: plain values, nothing of gRPC.

What goes wrong is one of
    ClientError            the broker said no: its reason, message, fields, and whether to try again
    Unreachable            nobody answered at the endpoint
    DeadlineExceeded       somebody is there, but the answer did not come in time
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from broker.model.administration import GroupSettings, QueueState
from broker.model.batch import PutStatus
from broker.model.message import StoredMessage
from broker.model.reading import PullStatus


class ClientError(Exception):
    """The broker's answer was an error; `code` is the name of its gRPC status."""

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        code: str = "",
        retryable: bool = False,
        fields: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.code = code
        self.retryable = retryable
        self.fields = fields or {}


class Unreachable(ClientError):
    """Nobody answered at the endpoint."""


class DeadlineExceeded(ClientError):
    """The answer did not come in time; whether the request took effect is unknown."""


class Wait(Enum):
    """What a send waits for; names are the proto's."""

    DURABLE = 1
    APPENDED = 2


class Shape(Enum):
    """How a pull's messages come; names are the proto's."""

    MESSAGES = 0
    RECORDS = 1


@dataclass(frozen=True)
class Outgoing:
    """A message to send; None and "" stand for what is not given."""

    topic: str
    body: bytes
    tag: str | None = None
    keys: Sequence[str] = ()
    message_id: str = ""
    queue_id: int | None = None
    message_group: str | None = None
    delay_level: int | None = None
    deliver_at_ms: int | None = None
    priority: int | None = None
    transactional: bool = False
    properties: dict[str, str] = field(default_factory=dict)
    born_timestamp_ms: int | None = None
    born_host: str | None = None
    flag: int = 0


class Receipt(NamedTuple):
    """Where a message that was sent lies."""

    topic: str
    message_id: str
    offset_message_id: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_timestamp_ms: int
    status: PutStatus


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


class KeyQuery(NamedTuple):
    """Which messages to look for by key; times in ms, 0 stands for the broker's default."""

    topic: str
    key: str
    count_max: int = 0
    begin_ms: int = 0
    end_ms: int = 0
    page_token: str = ""


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


class GroupState(NamedTuple):
    """A group; `topics` is filled by describe_group: where it has an offset."""

    name: str
    settings: GroupSettings
    system: bool
    attributes: dict[str, str]
    topics: list[str]
