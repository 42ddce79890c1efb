"""The handle by which a lease is settled: RocketMQ's extraInfo, eight fields between spaces.

    0 1700000000000 60000 3 0 broker-a 1 17
    │ │             │     │ │ │        │ └ queue offset of the message
    │ │             │     │ │ │        └ queue id       └ the place of a batch, the same in all its
    │ │             │     │ │ └ broker                    handles: made and read once
    │ │             │     │ └ 0 the topic itself, 1 its retry topic, 2 that of V2, 3 the group's
    │ │             │     └ queue of the revive topic; 999: in order, without a checkpoint
    │ │             └ how long the lease lasts, ms
    │ └ when it began, wall time in ms
    └ queue offset of the checkpoint's first message

Source: ExtraInfoUtil.
"""

from functools import lru_cache
from typing import Final, NamedTuple

from pocketmq.model.decimal import number_of

NORMAL: Final = 0
RETRY_V1: Final = 1
RETRY_V2: Final = 2
GROUP_RETRY: Final = 3
"""The topic that a group's messages come back by that were sent back; our own value."""
ORDERED: Final = 999
"""The revive queue of a lease that has no checkpoint (KeyBuilder.POP_ORDER_REVIVE_QUEUE)."""
PREFIX_LENGTH_MAX: Final = 1_024
_FIELD_COUNT_MIN: Final = 7


class LeasePlace(NamedTuple):
    """The fields that all handles of one checkpoint share."""

    start_offset: int
    popped_at_ms: int
    invisible_ms: int
    revive_queue: int
    retry: int
    broker: str
    queue_id: int

    @property
    def prefix(self) -> str:
        """The text of a handle before its queue offset."""
        return (
            f"{self.start_offset} {self.popped_at_ms} {self.invisible_ms} {self.revive_queue}"
            f" {self.retry} {self.broker} {self.queue_id} "
        )


def read_handle(handle: str) -> tuple[LeasePlace, int] | None:
    """Returns the place of a handle and the queue offset, None for an invalid one.

    Cost     below 1 µs where the place was read before
    """
    cut = handle.rfind(" ") + 1
    queue_offset = number_of(handle[cut:])
    place = place_of(handle[:cut])
    return None if place is None or queue_offset < 0 else (place, queue_offset)


def place_of(prefix: str) -> LeasePlace | None:
    """Returns the place that a handle begins with, the space behind it included; None for none."""
    return _kept_place(prefix) if len(prefix) <= PREFIX_LENGTH_MAX else None


@lru_cache(maxsize=4096)
def _kept_place(prefix: str) -> LeasePlace | None:
    fields = prefix.split(" ")[:-1]
    if len(fields) < _FIELD_COUNT_MIN:
        return None
    start, popped, invisible, revive_queue, retry = map(number_of, fields[:5])
    queue_id = number_of(fields[-1])
    if min(start, popped, invisible, revive_queue, retry, queue_id) < 0 or retry > GROUP_RETRY:
        return None
    broker = " ".join(fields[5:-1])
    return LeasePlace(start, popped, invisible, revive_queue, retry, broker, queue_id)
