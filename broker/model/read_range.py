"""What is read of a store: a range of one queue, or the messages of a topic that carry a key."""

from typing import NamedTuple

from broker.model.offsets import OFFSET_MAX


class ReadRange(NamedTuple):
    """Messages of a queue from an offset on; the first one comes whatever its size."""

    topic: str
    queue_id: int
    queue_offset: int
    max_messages: int
    max_bytes: int


class KeyRange(NamedTuple):
    """Messages of a topic that carry a key, newest first, behind the page a cursor came with.

    index_type   "T" looks for a tag in place of a key
    Units        times in ms since 1970, both ends included
    """

    topic: str
    key: str
    count_max: int = 0
    begin_ms: int = 0
    end_ms: int = OFFSET_MAX
    cursor: str = ""
    index_type: str = ""
