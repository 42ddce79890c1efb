"""Transactions: decisions of producers, their results, and checks."""

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
    """Result of a decision; `error` is None if the decision was applied, now or earlier."""

    transaction_id: str
    error: RequestError | None = None


class Check(NamedTuple):
    """A check of a transaction, for a producer.

    record   record of the half message
    checks   number of this check
    topic    target topic of the message; "": the record names no topic
    """

    transaction_id: str
    group: str
    record: bytes
    checks: int
    topic: str = ""
