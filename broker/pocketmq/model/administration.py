"""Values of administration: topics, groups, offsets, lag and the store.

The service makes them, the protocols encode them, and the client decodes them. Fields have the
names of pocketmq.v1.Admin. Times are wall time in ms, 0 if there is none.
Source of groups: SubscriptionGroupConfig.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from pocketmq.model.decimal import SUMMABLE_MAX, number_of
from pocketmq.model.errors import IllegalPageToken, RequestError
from pocketmq.model.names import check_number

PAGE_SIZE_DEFAULT: Final = 100
PAGE_SIZE_MAX: Final = 1_000
Item = TypeVar("Item")


class Page(NamedTuple, Generic[Item]):
    """A page of a long answer; the token is its last name, "" on the last page."""

    items: list[Item]
    next_page_token: str


def token_number(token: str, text: str, largest: int = SUMMABLE_MAX) -> int:
    """Returns the number that a part of a page token is.

    Errors   IllegalPageToken
    """
    number = number_of(text, largest)
    if number < 0:
        raise IllegalPageToken(token=token)
    return number


def page_of(
    names: Iterable[str], size: int, token: str, check_name: Callable[[str], None]
) -> Page[str]:
    """Returns the names that follow the token, at most a page of them.

    Shape    names in order; size 0: PAGE_SIZE_DEFAULT; check_name raises for an invalid name
    Errors   IllegalNumber, IllegalPageToken
    """
    try:
        if token:
            check_name(token)
    except RequestError as error:
        raise IllegalPageToken(token=token) from error
    check_number("page_size", size, upper=PAGE_SIZE_MAX)
    size = size or PAGE_SIZE_DEFAULT
    following = [name for name in names if name > token]
    shown = following[:size]
    assert shown == sorted(shown), "a token stands for all names before it"
    return Page(shown, shown[-1] if len(following) > size else "")


class QueueState(NamedTuple):
    """A queue's offsets, [min, max), and when its first and last message were stored."""

    queue_id: int
    min_offset: int
    max_offset: int
    min_store_timestamp_ms: int
    max_store_timestamp_ms: int


class TopicChange(NamedTuple):
    """Changes to a topic; None keeps a value. Attributes are set and removed one by one."""

    read_queue_count: int | None = None
    write_queue_count: int | None = None
    permission: int | None = None
    order: bool | None = None
    set_attributes: dict[str, str] | None = None
    remove_attributes: tuple[str, ...] = ()


class TopicCounts(NamedTuple):
    """How many messages a topic holds and ever held; without times and queues if not asked for."""

    name: str
    queue_count: int
    message_count: int
    stored_count: int
    first_store_timestamp_ms: int
    last_store_timestamp_ms: int
    queues: list[QueueState]


class GroupSettings(NamedTuple):
    """Settings of a group; None: unchanged, or RocketMQ's default for a new group.

    max_attempts   deliveries in all, the first included
    """

    enabled: bool | None = None
    fifo: bool | None = None
    max_attempts: int | None = None
    retry_queue_count: int | None = None
    broadcast_enabled: bool | None = None
    begins_at_min: bool | None = None
    consume_timeout_minutes: int | None = None


@dataclass(slots=True)
class GroupConfig:
    """A group, immutable."""

    name: str
    settings: GroupSettings
    """All settings; none of them is None."""
    attributes: dict[str, str] = field(default_factory=dict)
    """Attributes without the leading plus."""


class GroupOffset(NamedTuple):
    """Position of a group in a queue."""

    topic: str
    queue_id: int
    queue_offset: int


class QueueLag(NamedTuple):
    """A group's lag in one queue; lag_ms is the age of the first message it has not consumed."""

    queue_id: int
    committed_offset: int | None
    min_offset: int
    max_offset: int
    lag_messages: int
    lag_ms: int


class TopicLag(NamedTuple):
    """Lag of a group in a topic; lists of all groups leave queues and age out."""

    group: str
    topic: str
    committed_sum: int
    lag_messages: int
    lag_ms: int
    queues: list[QueueLag]


class ResetTarget(NamedTuple):
    """Where to reset to: a time, or an offset, or else an end of each queue."""

    time_ms: int | None = None
    queue_offset: int | None = None
    latest: bool = False


class MovedOffset(NamedTuple):
    """Old position of a group in a queue, None without one, and the new or intended one."""

    topic: str
    queue_id: int
    old_offset: int | None
    new_offset: int


class ClientAnswer(NamedTuple):
    """A client's answer to a command of the broker.

    status   by the protocol's names: "OK", "FAILED_TO_CONSUME_MESSAGE", "UNSUPPORTED"
    text     explanation of the status
    stack    of its threads
    """

    status: str
    text: str = ""
    stack: str = ""


class Member(NamedTuple):
    """A client that consumes for a group.

    client_id   as the client reports it, "" where it does not
    address     as gRPC writes it, "ipv4:127.0.0.1:4711"
    mode        "receive" or "pull"
    since_ms    when it was heard of first; `seen_ms` last
    """

    group: str
    client_id: str
    address: str
    mode: str
    topics: list[str]
    since_ms: int
    seen_ms: int


class DeadLetters(NamedTuple):
    """A group's dead letters: counts of waiting and of all, and when the first was stored."""

    group: str
    topic: str
    waiting_count: int
    stored_count: int
    first_store_timestamp_ms: int


class DelayedMessage(NamedTuple):
    """A message that waits for a delay level or a time.

    topic, queue_id   its target
    delay_level       None for one that waits for a time
    physical_offset   of the record that waits
    recall_handle     "" for one that cannot be recalled
    """

    message_id: str
    topic: str
    queue_id: int
    deliver_at_ms: int
    delay_level: int | None
    store_timestamp_ms: int
    physical_offset: int
    tag: str | None
    keys: list[str]
    recall_handle: str


class Redriven(NamedTuple):
    """A dead letter that was redriven, or would be; queue_offset is the new one, None in a plan."""

    message_id: str
    dead_queue_id: int
    dead_queue_offset: int
    topic: str
    queue_id: int
    queue_offset: int | None


class StoreStatus(NamedTuple):
    """State of a store, and its marks; offsets are physical."""

    state: str
    directory: str
    min_offset: int
    appended_offset: int
    flushed_offset: int
    dispatched_offset: int
    flush_mode: str
    version: str
    topic_count: int
    queue_count: int
    cluster: str
    broker: str
    retention_state: str
    disk_free_bytes: int
    disk_total_bytes: int
    index_file_count: int
    queue_file_count: int
    state_since_ms: int
    group_count: int
    modules: str


class SettingRow(NamedTuple):
    """A setting of the broker as it holds now, and where its value comes from."""

    key: str
    value: str
    origin: str
