"""Receives under leases, and their settlement: requests and results.

A received message is invisible to others of its group until its lease ends: by an acknowledgement,
by sending back, by forwarding to the group's dead letters, or by expiry.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from pocketmq.model.filter import Filter
from pocketmq.model.message import first_unread

RECEIVE_MAX: Final = 32
"""Messages of one receive (popShareQueueNum, MAX_POP_NUM)."""
INVISIBLE_MIN_MS: Final = 1_000
"""Shortest time that a receive may hide messages for."""
INVISIBLE_MAX_MS: Final = 12 * 3_600_000
"""Longest time for which a message is hidden by one lease."""
RENEWED_MS: Final = 60_000
"""How long a lease lasts each time that the broker renews it, while its client is alive."""
RENEWED_MAX_MS: Final = 3 * 3_600_000
"""How long the broker renews a lease in all (renewMaxTimeMillis)."""


class Held(NamedTuple):
    """Counts a group's leased messages in one queue.

    behind   messages below its committed offset
    ahead    messages at or above it: leased in FIFO order, or the offset was set back
    first    approximate queue offset of the first one
    """

    behind: int = 0
    ahead: int = 0
    first: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.behind + self.ahead


NOTHING_HELD: Final = Held()

Leased = Mapping[tuple[str, str], Mapping[int, Held]]
"""Messages that groups have under leases: (group, topic) -> queue id -> these."""


class Unconsumed(NamedTuple):
    """Counts the messages of one queue that a group has not consumed.

    left          messages, leased ones included
    ready         messages available at once
    begin         approximate queue offset of the first one; the queue's end if there is none
    ready_begin   the same of those available at once
    """

    left: int
    ready: int
    begin: int
    ready_begin: int


def unconsumed(
    committed: int | None, lower: int, upper: int, held: Held = NOTHING_HELD
) -> Unconsumed:
    """Returns the part of a queue of [lower, upper) that a group has not consumed.

    committed   its offset; None: it has none, and the queue counts as consumed
    Messages under leases are not consumed, though its offset may be behind them; messages that
    expired unread do not wait any more.
    Source   ConsumerLagCalculator
    """
    assert 0 <= lower <= upper, "a queue ends where it begins or behind"
    unread = upper if committed is None else first_unread(committed, lower, upper)
    begin = min(unread, first_unread(held.first, lower, upper)) if held.behind else unread
    ready = max(upper - unread - held.ahead, 0)
    return Unconsumed(upper - unread + held.behind, ready, begin, unread if ready else upper)


class ReceiveRequest(NamedTuple):
    """Parameters of one receive.

    max_messages   1 to RECEIVE_MAX
    invisible_ms   how long the messages are leased
    wait_ms        time left until the caller's deadline, 0 for no wait
    client_id      the client that asks; "" for none in particular
    attempt_id     repeated by a client that lost the answer, and then answered again; "" for none
    auto_renew     leases last as long as the client is alive
    broadcast      every client gets every message: its own position, no leases
    joined         adjacent records of the log may be one element
    room           takes the wanted number of bytes and returns how many may be read; is then given
                   how many were; `int` grants all
    user           whose turn it takes to look at messages, where that is heavy work
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
    user: str = ""
    joined: bool = False


class Received(NamedTuple):
    """Messages under leases: lists of one length; empty where nothing came within the time.

    records              as stored; fewer where the request takes them joined
    handles              of their leases
    attempts             number of this delivery of each, 1 for the first
    invisible_until_ms   when the leases run out, wall time
    popped_at_ms         when they began
    """

    records: list[bytes]
    handles: list[str]
    attempts: list[int]
    invisible_until_ms: int
    popped_at_ms: int


class SettleStatus(Enum):
    """Result of settling one handle."""

    OK = 1
    INVALID_RECEIPT_HANDLE = 2
    ILLEGAL_INVISIBLE_TIME = 3


class Settled(NamedTuple):
    """The result for one handle; `handle` is new after a change of time, else the old one."""

    status: SettleStatus
    handle: str
