"""Values of administration: topics, groups, offsets, lag and the store.

Fields are named as in pocketmq.v1.Admin. Times are wall times in ms; 0 means none.
Source of groups: SubscriptionGroupConfig.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

from pocketmq.model.decimal import SUMMABLE_MAX, number_of
from pocketmq.model.errors import IllegalPageToken, RequestError
from pocketmq.model.named_fields import lists_fields
from pocketmq.model.names import check_number

PAGE_SIZE_DEFAULT: Final = 100
PAGE_SIZE_MAX: Final = 1_000
Item = TypeVar("Item")


class Page(NamedTuple, Generic[Item]):
    """One page of a long list; `next_page_token` is "" on the last page."""

    items: list[Item]
    next_page_token: str


def token_number(token: str, text: str, largest: int = SUMMABLE_MAX) -> int:
    """Parses a number in a page token.

    Errors   IllegalPageToken
    """
    number = number_of(text, largest)
    if number < 0:
        raise IllegalPageToken(token=token)
    return number


def page_of(
    names: Iterable[str], size: int, token: str, check_name: Callable[[str], None]
) -> Page[str]:
    """Returns a page of the names after the token, which is the last name of the previous page.

    Shape    names sorted; size 0: PAGE_SIZE_DEFAULT; check_name raises for an invalid name
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
    assert shown == sorted(shown), "names are not sorted"
    return Page(shown, shown[-1] if len(following) > size else "")


class QueueState(NamedTuple):
    """A queue's offsets [min, max), and the store times of its first and last message."""

    queue_id: int
    min_offset: int
    max_offset: int
    min_store_timestamp_ms: int
    max_store_timestamp_ms: int


class TopicChange(NamedTuple):
    """Changes to a topic; None: the value stays. Attributes that are not given stay."""

    read_queue_count: int | None = None
    write_queue_count: int | None = None
    permission: int | None = None
    order: bool | None = None
    set_attributes: dict[str, str] | None = None
    remove_attributes: tuple[str, ...] = ()


class PurgedQueue(NamedTuple):
    """A queue's min offset before and after a purge."""

    topic: str
    queue_id: int
    old_min_offset: int
    new_min_offset: int

    @property
    def message_count(self) -> int:
        """The number of purged messages."""
        return self.new_min_offset - self.old_min_offset


class TopicCounts(NamedTuple):
    """Counts of a topic; `CountDetail` determines which fields are set.

    message_count    readable messages
    stored_count     messages that were ever stored
    size_bytes       size of the records of readable messages
    size_estimated   whether the size is estimated from a sample
    in_per_s         messages sent a second, average of the last minute
    """

    name: str
    queue_count: int
    message_count: int
    stored_count: int
    first_store_timestamp_ms: int
    last_store_timestamp_ms: int
    queues: list[QueueState]
    size_bytes: int = 0
    size_estimated: bool = False
    in_per_s: float = 0.0


class CountDetail(Enum):
    """Fields of `TopicCounts` that are set.

    TOTALS    counts of messages
    SUMMARY   TOTALS, and size, rate and the time of the last message
    QUEUES    SUMMARY, and the time of the first message, and the queues
    """

    TOTALS = "totals"
    SUMMARY = "summary"
    QUEUES = "queues"


class GroupStats(NamedTuple):
    """Lag of a group in all topics, and the number of clients active within two minutes."""

    lag_messages: int
    member_count: int


@lists_fields
class GroupSettings(NamedTuple):
    """Settings of a group; None: the setting stays, or for a new group, RocketMQ's default.

    max_attempts   upper limit of deliveries, including the first
    begin          where the group begins in a queue in which it has no offset, as text
                   (model/begin.py); it determines begins_at_min, which is RocketMQ's setting
    """

    enabled: bool | None = None
    fifo: bool | None = None
    max_attempts: int | None = None
    retry_queue_count: int | None = None
    broadcast_enabled: bool | None = None
    begins_at_min: bool | None = None
    consume_timeout_minutes: int | None = None
    begin: str | None = None


@dataclass(slots=True)
class GroupConfig:
    """A group, immutable."""

    name: str
    settings: GroupSettings
    """All settings; none is None."""
    attributes: dict[str, str] = field(default_factory=dict)
    """Names without the leading plus."""
    begin_ms: int = 0
    """The setting `begin` as a time (model/begin.py)."""


class GroupOffset(NamedTuple):
    """Committed offset of a group in a queue."""

    topic: str
    queue_id: int
    queue_offset: int


class QueueLag(NamedTuple):
    """A group's lag in one queue; `lag_ms` is the age of the first unconsumed message.

    in_flight_count   messages that clients have and did not settle
    in_flight_ms      time since the first of them was delivered; 0: unknown
    """

    queue_id: int
    committed_offset: int | None
    min_offset: int
    max_offset: int
    lag_messages: int
    lag_ms: int
    in_flight_count: int = 0
    in_flight_ms: int = 0


class TopicLag(NamedTuple):
    """Lag of a group in a topic; in lists of all groups, `queues` and `lag_ms` are not set."""

    group: str
    topic: str
    committed_sum: int
    lag_messages: int
    lag_ms: int
    queues: list[QueueLag]


class ResetTarget(NamedTuple):
    """Target of a reset: a time, a queue offset, or the min or max offset of each queue."""

    time_ms: int | None = None
    queue_offset: int | None = None
    latest: bool = False


class MovedOffset(NamedTuple):
    """Old and new offset of a group in a queue; `old_offset` None: the group had no offset."""

    topic: str
    queue_id: int
    old_offset: int | None
    new_offset: int


class ClientAnswer(NamedTuple):
    """A client's reply to a command of the broker.

    status   name in the protocol: "OK", "FAILED_TO_CONSUME_MESSAGE", "UNSUPPORTED"
    """

    status: str
    text: str = ""
    stack: str = ""


class Member(NamedTuple):
    """A client that consumes for a group.

    client_id          as the client reports it; "" if the client reports none
    address            in gRPC's notation, "ipv4:127.0.0.1:4711"
    mode               "receive", "pull" or "push"
    since_ms, seen_ms  times of the client's first and last call
    language, version  as the client reports them; a client of PocketMQ's own API has the language
                       "other" and the version "v1"
    """

    group: str
    client_id: str
    address: str
    mode: str
    topics: list[str]
    since_ms: int
    seen_ms: int
    language: str = ""
    version: str = ""


class TopicProducer(NamedTuple):
    """A client that sends to a topic.

    address            "127.0.0.1:4711"
    client_id          as the client reports it; "" if it reports none, or is not connected
    groups             producer groups of a classic client
    language, version  as the client reports them
    sent_ms            store time of its newest message that was found; 0: none was found
    """

    address: str
    client_id: str = ""
    groups: tuple[str, ...] = ()
    language: str = ""
    version: str = ""
    sent_ms: int = 0


class DeadLetters(NamedTuple):
    """Counts of a group's dead letters, and the store time of the oldest pending dead letter."""

    group: str
    topic: str
    waiting_count: int
    stored_count: int
    first_store_timestamp_ms: int


class DelayedMessage(NamedTuple):
    """A message parked for a delay level or until a time.

    topic, queue_id   target of the message
    delay_level       None for a message with a delivery time
    physical_offset   physical offset of the parked record
    recall_handle     "" if the message cannot be recalled
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
    """A redriven dead letter; `queue_offset` is in the target queue, None in a dry run."""

    message_id: str
    dead_queue_id: int
    dead_queue_offset: int
    topic: str
    queue_id: int
    queue_offset: int | None


class RedriveResult(NamedTuple):
    """Result of one redrive.

    waiting_count   dead letters that remain
    until           queue id -> end of the queue when the redrive began; a later call can send the
                    dead letters below these ends
    """

    messages: list[Redriven]
    waiting_count: int
    until: Mapping[int, int]


class StoreStatus(NamedTuple):
    """State of a store and its offsets in the log.

    send_refusal   why the disk has too little room for sends, with figures and the setting; "": it
                   has room
    """

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
    commit: str
    send_refusal: str = ""


class MapPart(NamedTuple):
    """A part of the log.

    topic       index of the topic with the most bytes; -1: no message was found
    stored_ms   store time of a message in it; 0: unknown
    """

    begin: int
    end: int
    topic: int
    stored_ms: int


class MapTopic(NamedTuple):
    """A topic and the estimated bytes of its records.

    name   "": all topics that the caller may not see, as one item
    """

    name: str
    size_bytes: int


class StoreMap(NamedTuple):
    """A map of the log, and the fill of queues and index; the largest topic is first."""

    parts: list[MapPart]
    topics: list[MapTopic]
    log_file_size_bytes: int
    log_file_count: int
    queue_file_size_bytes: int
    queue_file_count: int
    queue_entry_count: int
    index_file_size_bytes: int
    index_file_count: int
    index_entry_count: int
    index_file_entries_max: int


class SettingRow(NamedTuple):
    """A setting's current value, and the source of the value."""

    key: str
    value: str
    origin: str
