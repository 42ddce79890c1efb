"""Requests and results of reading a store.

A message that is not found is a result here, not an error (`model/errors`).
"""

from enum import Enum
from typing import Final, NamedTuple

from pocketmq.model.message import OFFSET_MAX, StoredMessage


class ReadRange(NamedTuple):
    """Messages of a queue from an offset on; the first message may exceed `max_bytes`."""

    topic: str
    queue_id: int
    queue_offset: int
    max_messages: int
    max_bytes: int


PAGE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Upper limit of stored bytes in a page of messages found by key, as replies have a size limit."""


class KeyRange(NamedTuple):
    """A query for a topic's messages with a key, newest first.

    cursor       `next_cursor` of the previous page; "": the first page
    index_type   "T": the key is a tag
    bytes_max    stored bytes after which a page ends
    lowest       physical offset below which messages are ignored
    with_purged  whether to find messages that were purged, or that expired by the retention of
                 their topic; used to search for messages that the broker has delivered
    begin_ms, end_ms
                 store times in ms since 1970, both included
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
    with_purged: bool = False


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


PULL_COUNT_MAX: Final = 1_024
"""Upper limit of messages of a pull."""
QUEUE_CUT: Final = (PullStatus.OFFSET_OVERFLOW_BADLY, PullStatus.NO_SUCH_QUEUE)
"""Statuses of a pull at an offset that existed before: the queue is now shorter, or missing."""


class PullResult(NamedTuple):
    """Records of one queue in order, and the offset at which to continue.

    records   stored bytes, one element for each record; in a joined pull, an element may be
              several records, one after another
    """

    status: PullStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    records: list[bytes]
    record_count: int


class QueryResult(NamedTuple):
    """Messages with a key, newest first.

    complete      whether no older message matches
    next_cursor   cursor of the next page; "" although `complete` is False: the index or the log is
                  damaged, and messages may be missing
    """

    messages: list[StoredMessage]
    complete: bool
    next_cursor: str


class Bound(Enum):
    """Side to which a search by time rounds (BoundaryType)."""

    LOWER = 0
    UPPER = 1
