"""Results of reading a store.

"Not found" is a value here; "cannot" and "must not" are errors (`model/errors`).
"""

from enum import Enum
from typing import Final, NamedTuple

from pocketmq.model.message import OFFSET_MAX, StoredMessage


class ReadRange(NamedTuple):
    """Messages of a queue from an offset on; the first one comes whatever its size."""

    topic: str
    queue_id: int
    queue_offset: int
    max_messages: int
    max_bytes: int


PAGE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Stored bytes of a page of messages found by key: a reply must fit its transport."""


class KeyRange(NamedTuple):
    """Messages of a topic that carry a key, newest first, behind the page a cursor came with.

    index_type   "T" looks for a tag in place of a key
    bytes_max    stored bytes after which a page ends
    lowest       physical offset below which nothing is looked for
    Units        times in ms since 1970, both ends included
    """

    topic: str
    key: str
    count_max: int = 0
    begin_ms: int = 0
    end_ms: int = OFFSET_MAX
    cursor: str = ""
    index_type: str = ""
    bytes_max: int = PAGE_BYTES_MAX
    lowest: int = 0


class PullStatus(Enum):
    """Status of a pull (GetMessageStatus)."""

    FOUND = 1
    NO_NEW_MESSAGE = 2
    NO_MATCHED_MESSAGE = 3
    OFFSET_TOO_SMALL = 4
    OFFSET_OVERFLOW_ONE = 5
    OFFSET_OVERFLOW_BADLY = 6
    NO_SUCH_QUEUE = 7
    EXPIRED = 8


class PullResult(NamedTuple):
    """Records of one queue in order, and where to go on.

    records are the stored bytes, one element a record, or, of a joined pull, one for
    each run of adjacent records.
    """

    status: PullStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    records: list[bytes]
    record_count: int


class QueryResult(NamedTuple):
    """Messages that carry a key, newest first.

    complete: nothing older matches; else `next_cursor` is where the next page begins. With
    neither, nothing more is found, but index or log are damaged: some may be missing.
    """

    messages: list[StoredMessage]
    complete: bool
    next_cursor: str


class Bound(Enum):
    """Which side a search by time falls to (BoundaryType)."""

    LOWER = 0
    UPPER = 1
