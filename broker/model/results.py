"""Outcomes that are values: every caller looks at all of them.

"Not found" is a value here; "cannot" and "must not" are errors (`model/errors`).
"""

from enum import Enum
from typing import NamedTuple

from broker.model.message import StoredMessage


class PutStatus(Enum):
    """How a put ended; every member means that the record lies in the log (PutMessageStatus)."""

    OK = 1
    FLUSH_DISK_TIMEOUT = 2
    FLUSH_REPLICA_TIMEOUT = 3
    REPLICA_NOT_AVAILABLE = 4


class PutResult(NamedTuple):
    """Where the rows of one put lie.

    physical_offsets[i] and queue_offset + i belong to row i; end is the byte behind the last one.
    """

    status: PutStatus
    physical_offsets: list[int]
    queue_offset: int
    store_timestamp_ms: int
    end: int


class PullStatus(Enum):
    """What a pull found (GetMessageStatus)."""

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
    each run of records that lie next to each other.
    """

    status: PullStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    records: list[bytes]
    record_count: int


class QueryResult(NamedTuple):
    """Messages that carry a key, newest first.

    complete says that nothing older matches; else `next_cursor` goes on where this page ended. With
    neither, nothing more is found, but index or log are damaged: some may be missing.
    """

    messages: list[StoredMessage]
    complete: bool
    next_cursor: str


class Bound(Enum):
    """Which side a search by time falls to (BoundaryType)."""

    LOWER = 0
    UPPER = 1


class ScanEnd(Enum):
    """Why a walk over a file of the log stopped."""

    FILE_FULL = "file full"
    UPTO = "reached the end asked for"
    END_OF_DATA = "end of data"
    TORN = "torn"
    BAD = "bad"
