"""Kinds of damage: reasons why a walk over the log stopped, and findings of a verification.

`verify`, `repair` and the backfill use the same names.
"""

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from pocketmq.model.system_topics import REVIVE_TOPIC_PREFIX, TIMER_TOPIC
from pocketmq.model.topic import (
    DLQ_PREFIX,
    HALF_TOPIC,
    OP_HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
)


class ScanEnd(Enum):
    """Why a walk over a file of the log stopped."""

    FILE_FULL = "file full"
    UPTO = "reached the requested end"
    END_OF_DATA = "end of data"
    TORN = "torn"
    BAD = "bad"


ABSENT: Final = "absent"
"""Kind of the finding that a view, or a part of a view, is missing: the next start builds it."""


class Loss(NamedTuple):
    """Messages of one queue that are lost.

    first   queue offset of the first lost message
    """

    topic: str
    queue_id: int
    first: int
    messages: int


_OF_SYSTEM: Final = (
    (TIMER_TOPIC, "messages with a delivery time, and the broker's own timers"),
    (SCHEDULE_TOPIC, "messages with a delay level, and retries"),
    (HALF_TOPIC, "messages of transactions, undecided or decided"),
    (OP_HALF_TOPIC, "decisions of transactions"),
    (REVIVE_TOPIC_PREFIX, "leases of RocketMQ"),
    (RETRY_PREFIX, "copies that the group failed to consume; originals: in their topic"),
    (DLQ_PREFIX, "copies that the group gave up; originals: in their topic"),
)
"""Begin of a system topic -> its messages."""


def shown_loss(topic: str, queue_id: int, first: int, messages: int) -> str:
    """Returns the text for lost messages of one queue; for a system topic, with its meaning."""
    text = next((text for begin, text in _OF_SYSTEM if topic.startswith(begin)), "")
    place = f"{topic}:{queue_id} from offset {first} on"
    return f"{place}: {messages} ({text})" if text else f"{place}: {messages}"


class Doubt(NamedTuple):
    """A message whose tag, keys or id differ from queue or index: one of the two is damaged."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One damaged or unexpected item, or several similar items in one file.

    kind         a fixed word, such as record, torn_tail, unit or missing_key
    file         path below the store directory
    offset       file position; in the log, the physical offset is file name + offset
    repairable   whether `store repair` can repair it
    count        number of items; the other fields describe the first item
    lost         messages that are lost because of the damage, by queue
    """

    kind: str
    file: str
    offset: int
    expected: str
    found: str
    repairable: bool = True
    count: int = 1
    lost: tuple[Loss, ...] = ()

    @property
    def lost_count(self) -> int:
        """Number of messages that are lost because of the damage."""
        return sum(loss.messages for loss in self.lost)

    @property
    def document(self) -> dict[str, Any]:
        """The finding as commands print it."""
        return {**asdict(self), "lost": [loss._asdict() for loss in self.lost]}
