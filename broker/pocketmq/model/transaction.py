"""Transactions: what a producer decides, what comes of it, and what it is asked.

send ─► half message, seen by nobody ─► COMMIT    ─► delivered, once
                 │                   └► ROLLBACK  ─► never delivered
                 └── no word ─► its producers are asked, in the end it is given up
"""

from enum import Enum
from typing import NamedTuple

from pocketmq.model.errors import RequestError


class Resolution(Enum):
    """What a producer says of its transaction."""

    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"
    UNKNOWN = "UNKNOWN"


class Decision(NamedTuple):
    """What a producer of a group says of a transaction, by the id it was given."""

    transaction_id: str
    resolution: Resolution


class Decided(NamedTuple):
    """What came of a decision: done, now or before, or the reason why not."""

    transaction_id: str
    error: RequestError | None = None


class Check(NamedTuple):
    """What a producer is asked: the record of its half message, and how to answer.

    topic   where the message goes if it is committed, "" where its record does not say
    """

    transaction_id: str
    group: str
    record: bytes
    checks: int
    topic: str = ""
