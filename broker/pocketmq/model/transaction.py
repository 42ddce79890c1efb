"""Transactions: decisions of producers, their results, and checks.

send ─► half message, invisible ─► COMMIT    ─► delivered, once
                 │              └► ROLLBACK  ─► never delivered
                 └── no decision ─► its producers are checked; after the last check it expires
"""

from enum import Enum
from typing import NamedTuple

from pocketmq.model.errors import RequestError


class Resolution(Enum):
    """A producer's decision on its transaction."""

    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"
    UNKNOWN = "UNKNOWN"


class Decision(NamedTuple):
    """A producer's decision on one transaction id."""

    transaction_id: str
    resolution: Resolution


class Decided(NamedTuple):
    """Result of a decision; `error` is None if the decision is in effect, now or before."""

    transaction_id: str
    error: RequestError | None = None


class Check(NamedTuple):
    """A check for a producer: the record of its half message, and the transaction id to decide.

    topic   target topic of the message; "" if its record does not name a topic
    """

    transaction_id: str
    group: str
    record: bytes
    checks: int
    topic: str = ""
