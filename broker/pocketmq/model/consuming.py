"""Requests and results of receiving messages under leases, and of settling these messages.

A received message is invisible to its group's other consumers until its lease ends. A lease ends by
an ack, by expiry, or if the message is sent back or forwarded to the group's dead letters.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from pocketmq.model.administration import GroupConfig
from pocketmq.model.begin import BEGIN_UNSET, is_timed
from pocketmq.model.filter import Filter
from pocketmq.model.message import first_unread

RECEIVE_MAX: Final = 32
"""Upper limit of messages of one receive (popShareQueueNum, MAX_POP_NUM)."""
INVISIBLE_MIN_MS: Final = 1_000
INVISIBLE_MAX_MS: Final = 12 * 3_600_000
RENEWED_MS: Final = 60_000
"""Duration of an auto-renewed lease from each renewal on."""
RENEWED_MAX_MS: Final = 3 * 3_600_000
"""Time since the receive after which a lease is no longer renewed (renewMaxTimeMillis)."""


class Held(NamedTuple):
    """Counts of a group's leased messages in one queue.

    behind   leased messages below the group's committed offset
    ahead    leased messages at or above the committed offset; there are some if the group consumes
             in FIFO order, or if its offset was set back
    first    approximate queue offset of the first leased message
    since_ms wall time at which that message was first delivered; 0: unknown
    """

    behind: int = 0
    ahead: int = 0
    first: int = 0
    since_ms: int = 0

    @property
    def total(self) -> int:
        """Number of all leased messages."""
        return self.behind + self.ahead


NOTHING_HELD: Final = Held()

Leased = Mapping[tuple[str, str], Mapping[int, Held]]
"""Leased messages: (group, topic) -> queue id -> counts."""


class Unconsumed(NamedTuple):
    """Counts of the messages of one queue that a group has not consumed.

    left          unconsumed messages, including leased messages
    ready         messages available at once
    begin         approximate queue offset of the first unconsumed message; if there is none, the
                  queue's end
    ready_begin   queue offset of the first available message; if there is none, the queue's end
    """

    left: int
    ready: int
    begin: int
    ready_begin: int


def unconsumed(
    committed: int | None, lower: int, upper: int, held: Held = NOTHING_HELD
) -> Unconsumed:
    """Returns the counts of messages in a queue [lower, upper) that a group has not consumed.

    Leased messages below the committed offset count as unconsumed. Messages that expired before
    they were read count as consumed.

    committed   the group's offset; None: the group has no offset, and the queue counts as consumed
    Source      ConsumerLagCalculator
    """
    assert 0 <= lower <= upper, "queue bounds are not ordered"
    unread = upper if committed is None else first_unread(committed, lower, upper)
    begin = min(unread, first_unread(held.first, lower, upper)) if held.behind else unread
    ready = max(upper - unread - held.ahead, 0)
    return Unconsumed(upper - unread + held.behind, ready, begin, unread if ready else upper)


Attempt = tuple[str, str, str, str]
"""(client id, group, topic, attempt id) of a receive and of its repetitions."""


class ReceiveRequest(NamedTuple):
    """Parameters of one receive.

    wait_ms        upper limit of the wait for messages; 0: no long polling
    client_id      the receiving client; "": unknown
    attempt_id     identifies the receive if its client repeats it after a lost reply; "": the
                   client does not repeat it
    auto_renew     whether leases are renewed while the client is alive
    broadcast      broadcasting consumption: every client gets all messages, without leases
    joined         whether an element of the result may be several records, one after another
    room           reserves memory for the result. Before the read it is called with the wanted
                   bytes, and returns how many may be read. After the read it is called with the
                   bytes that were read. The default, `int`, sets no limit
    user           the user to whom the work of expensive filters is charged
    begin_ms       where the group begins in queues in which it has no offset (model/begin.py)
    in_order       whether to deliver in FIFO order even if neither group nor topic is FIFO
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
    begin_ms: int = BEGIN_UNSET
    in_order: bool = False

    @property
    def has_begin(self) -> bool:
        """Whether the request states where the group begins."""
        return self.begin_ms != BEGIN_UNSET

    @property
    def begins_at_time(self) -> bool:
        """Whether the begin is a time."""
        return is_timed(self.begin_ms)

    def begun_by(self, group: GroupConfig) -> "ReceiveRequest":
        """Returns the request, completed by the group's begin.

        The group's begin is used if it is a time and the request states no begin.
        """
        if self.begin_ms == BEGIN_UNSET and is_timed(group.begin_ms):
            return self._replace(begin_ms=group.begin_ms)
        return self

    @property
    def attempt(self) -> Attempt:
        """Identity of the receive and of its repetitions."""
        return self.client_id, self.group, self.topic, self.attempt_id


class Received(NamedTuple):
    """Leased messages as lists of equal length; empty if no message arrived in time.

    records              as stored; fewer elements if the request has `joined`
    attempts             delivery attempt of each message, 1 for the first
    invisible_until_ms   wall time when the first lease expires
    popped_at_ms         wall time when the first lease began
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
    """Result for one handle; `handle` is new if the invisible duration was changed."""

    status: SettleStatus
    handle: str
