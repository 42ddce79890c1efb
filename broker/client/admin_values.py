"""What the client of pocketmq.v1.Admin gives and takes beside values.py."""

from typing import NamedTuple

from broker.client.values import QueueState


class TopicChange(NamedTuple):
    """What to change of a topic; None: stays. Attributes are set one by one, and removed."""

    read_queue_count: int | None = None
    write_queue_count: int | None = None
    permission: int | None = None
    order: bool | None = None
    set_attributes: dict[str, str] | None = None
    remove_attributes: tuple[str, ...] = ()


class TopicCounts(NamedTuple):
    """How many messages a topic holds and ever held; times in ms, 0: it is empty, or not asked."""

    name: str
    queue_count: int
    message_count: int
    stored_count: int
    first_store_timestamp_ms: int
    last_store_timestamp_ms: int
    queues: list[QueueState]


class GroupSettings(NamedTuple):
    """Settings of a group: max_attempts counts all deliveries; None: stays, or RocketMQ's."""

    enabled: bool | None = None
    fifo: bool | None = None
    max_attempts: int | None = None
    retry_queue_count: int | None = None
    broadcast_enabled: bool | None = None
    begins_at_min: bool | None = None
    consume_timeout_minutes: int | None = None


class GroupState(NamedTuple):
    """A group; `topics` is filled by describe_group: where it has an offset."""

    name: str
    settings: GroupSettings
    system: bool
    attributes: dict[str, str]
    topics: list[str]


class GroupOffset(NamedTuple):
    """Where a group stands in a queue."""

    topic: str
    queue_id: int
    queue_offset: int


class QueueLag(NamedTuple):
    """How far a group is behind in a queue; lag_ms is the age of the first message it missed."""

    queue_id: int
    committed_offset: int | None
    min_offset: int
    max_offset: int
    lag_messages: int
    lag_ms: int


class TopicLag(NamedTuple):
    """How far a group is behind in a topic; without queues and age where all groups are asked."""

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
    """Where a group stood in a queue (None: nowhere), and where it stands now, or would."""

    topic: str
    queue_id: int
    old_offset: int | None
    new_offset: int


class SettingRow(NamedTuple):
    """A setting of the broker as it holds now, and where its value comes from."""

    key: str
    value: str
    origin: str
