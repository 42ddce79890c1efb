"""Receiving messages under leases, and settling them: what is asked, and what comes of it.

A received message stays invisible to others of its group until its lease ends: acknowledged, sent
back, forwarded to the group's dead letters, or run out of time.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from broker.model.filter import Filter

RECEIVE_MAX: Final = 32
"""Messages of one receive (popShareQueueNum, MAX_POP_NUM)."""
INVISIBLE_MIN_MS: Final = 1_000
"""Shortest time that a receive may hide messages for."""
INVISIBLE_MAX_MS: Final = 12 * 3_600_000
"""Longest time for which a message is hidden by one lease."""

Leased = Mapping[tuple[str, str], Mapping[int, tuple[int, int]]]
"""What groups have under leases: (group, topic) -> queue id -> (how many, about the first)."""


class ReceiveRequest(NamedTuple):
    """What one receive asks for.

    max_messages   1 to RECEIVE_MAX
    invisible_ms   how long the messages are leased
    wait_ms        what is left of the caller's deadline, 0 for no wait
    client_id      who asks; "" is nobody in particular
    attempt_id     repeated by a client that lost the answer, which is then given again; "" for none
    auto_renew     leases last as long as the client is alive
    broadcast      every client gets every message: its own position, no leases
    joined         records that lie next to each other in the log may come as one element
    room           asked how many bytes may be read, of so many that are wanted, and told how many
                   were; `int` gives what is wanted
    """

    group: str
    topic: str
    wanted: Filter
    max_messages: int
    invisible_ms: int
    wait_ms: int
    client_id: str = ""
    attempt_id: str = ""
    auto_renew: bool = False
    broadcast: bool = False
    room: Callable[[int], int] = int
    joined: bool = False


class Received(NamedTuple):
    """Messages under leases: lists of one length; empty where nothing came within the time.

    records              as stored; fewer where the request takes them joined
    handles              what each lease is settled by
    attempts             the how manieth delivery it is, 1 for the first
    invisible_until_ms   when the leases run out, wall time
    popped_at_ms         when they began
    """

    records: list[bytes]
    handles: list[str]
    attempts: list[int]
    invisible_until_ms: int
    popped_at_ms: int


class SettleStatus(Enum):
    """What became of one handle."""

    OK = 1
    INVALID_RECEIPT_HANDLE = 2
    ILLEGAL_INVISIBLE_TIME = 3


class Settled(NamedTuple):
    """The answer for one handle; `handle` is a new one after a change of time, else the old one."""

    status: SettleStatus
    handle: str
