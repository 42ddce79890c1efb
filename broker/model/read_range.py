"""What is read of one queue: from where on, and how much at most."""

from typing import NamedTuple


class ReadRange(NamedTuple):
    """Messages of a queue from an offset on; the first one comes whatever its size."""

    topic: str
    queue_id: int
    queue_offset: int
    max_messages: int
    max_bytes: int
