"""Limits the concurrent calls of each class, and the share of one caller in them.

    a call ─► its holder: user, connection, address ─► the gate of its class ─► admitted or refused

A user may hold at most 3 times the free slots of a class, a connection 15 times and an address 31
times the free slots. So one user alone gets three quarters of a class, and a caller that holds no
slot is admitted while any slot is free. Admins have reserved slots in each class.

A gate only counts: the transport calls `refusal`, then `enter`, and `leave` at a call's end.
"""

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Network
from typing import Final

from pocketmq.format.addresses import IPV4_HOST_SIZE
from pocketmq.model.errors import BrokerError, Draining, ShareTaken, TooManyRequests


class CallClass(Enum):
    """Kind of a method's work; each kind has its own limit."""

    SEND = "send"
    POLL = "poll"
    SETTLE = "settle"
    QUERY = "query"
    ADMIN = "admin"
    ACCESS = "access"
    QUESTION = "question"
    PROBE = "probe"
    SESSION = "session"
    STREAM = "stream"


DEFAULT_LIMITS: Final[Mapping[CallClass, int]] = {
    CallClass.SEND: 2_048,  # more in flight would not be faster: all sends share one log
    CallClass.POLL: 10_000,  # a parked poll takes 2.5 KiB, about 20 KiB on grpcio
    CallClass.SETTLE: 2_048,  # as sends: each is a put; a draining broker still accepts them
    CallClass.QUERY: 256,  # each may hold a reply of 16 MiB
    CallClass.ADMIN: 64,
    CallClass.ACCESS: 32,  # users and grants: other work must not keep an admin out
    CallClass.QUESTION: 128,  # calls that wait for another client's answer, up to 30 s
    CallClass.PROBE: 10_000,  # health watches last long
    CallClass.SESSION: 2_048,  # short: heartbeats, routes
    CallClass.STREAM: 10_000,  # one per client, for the client's lifetime
}
"""Upper limit of concurrent calls of each class."""

USER_WEIGHT: Final = 3
CONNECTION_WEIGHT: Final = 15
ADDRESS_WEIGHT: Final = 31
"""Upper limits of a name's slots, as multiples of the free slots. So one name can hold at most 3/4,
15/16 or 31/32 of all slots."""
ADMIN_SLOTS: Final = 16
"""Slots for admins in each class, beyond its limit."""
IPV6_NETWORK_SIZE: Final = 8
"""Bytes of the IPv6 network that counts as one address: a /64 belongs to one customer."""

Weights = tuple[tuple[str, int], ...]
"""Names of a holder, each with the multiple of the free slots that it may hold."""


@lru_cache(maxsize=4096)
def address_name(host: bytes) -> str:
    """Returns the name under which calls of an address are counted.

    host   address and port, packed; IPv6 addresses of one /64 network share a name
    """
    if len(host) == IPV4_HOST_SIZE:
        return f"address {IPv4Address(host[:4])}"
    packed = host[:IPV6_NETWORK_SIZE].ljust(16, b"\0")
    return f"address {IPv6Network((packed, 8 * IPV6_NETWORK_SIZE))}"


class Holder:
    """Owner of slots: a connection and its user, with the names under which its slots are counted.

    user      access key; "" before the user is known, and without authentication
    weights   names under which slots are counted, with their multiples
    """

    __slots__ = ("_peer", "_peer_weights", "is_admin", "user", "weights")

    def __init__(self, peer: str, host: bytes) -> None:
        """Begins with a connection whose user is not known.

        peer   names the connection, "ipv4:127.0.0.1:4711"
        host   its address and port, packed
        """
        self.user = ""
        self.is_admin = False
        self._peer_weights: Weights = (
            (f"connection {peer}", CONNECTION_WEIGHT),
            (address_name(host), ADDRESS_WEIGHT),
        )
        self.weights: Weights = self._peer_weights

    def of(self, user: str, *, is_admin: bool) -> "Holder":
        """Returns a holder for a user on this holder's connection."""
        assert user, "empty user"
        found = Holder.__new__(Holder)
        found.user = user
        found.is_admin = is_admin
        found._peer_weights = self._peer_weights
        found.weights = ((f"user {user}", USER_WEIGHT), *self._peer_weights)
        return found


class Shares:
    """Counts taken slots, in total and by name.

    count   slots taken
    tight   number of taken slots below which no name can have used up its share
    """

    __slots__ = ("_held", "count", "limit", "tight")

    def __init__(self, limit: int, weight: int = USER_WEIGHT) -> None:
        """Begins with all slots free.

        weight   smallest multiple of the free slots to which any name is limited
        """
        self.limit = limit
        self.count = 0
        self.tight = limit * weight // (weight + 1)
        self._held: dict[str, int] = {}

    def held(self, name: str) -> int:
        """Returns the number of slots that a name holds."""
        return self._held.get(name, 0)

    def room(self, weights: Weights) -> int:
        """Returns how many more slots a holder with these names may take."""
        free = self.limit - self.count
        room = free
        for name, weight in weights:
            # Largest n such that the last slot is still within the share: held < weight * free.
            room = min(room, -((self.held(name) - weight * free) // (1 + weight)))
        return max(0, room)

    def binding(self, weights: Weights) -> str:
        """Returns the first name whose share is used up, "" if no share is."""
        free = self.limit - self.count
        return next((name for name, more in weights if self.held(name) >= more * free), "")

    def enter(self, weights: Weights, count: int = 1) -> None:
        """Takes slots."""
        self.count += count
        held = self._held
        for name, _ in weights:
            held[name] = held.get(name, 0) + count

    def leave(self, weights: Weights, count: int = 1) -> None:
        """Frees slots."""
        assert count <= self.count, "more calls ended than began"
        self.count -= count
        held = self._held
        for name, _ in weights:
            left = held[name] - count
            assert left >= 0, "more slots freed than taken"
            if left:
                held[name] = left
            else:
                del held[name]


class Gate(Shares):
    """Counts the calls of one class; `tight` is -1 once the gate is closed.

    limit   upper limit of concurrent calls, without the slots for admins
    """

    __slots__ = ("_call_class", "_is_closed")

    def __init__(self, call_class: CallClass, limit: int) -> None:
        super().__init__(limit)
        self._call_class = call_class
        self._is_closed = False

    def close(self) -> None:
        """Refuses calls from now on."""
        self._is_closed = True
        self.tight = -1

    def refusal(self, holder: Holder) -> BrokerError | None:
        """Returns why a holder may not begin a call now, None if it may.

        Cost     0.1 µs below `tight`, else 0.6 µs
        """
        count, limit = self.count, self.limit
        if count < self.tight:
            return None
        if self._is_closed:
            return Draining()
        name = self.binding(holder.weights) if count < limit else ""
        is_reserved = holder.is_admin and count < limit + ADMIN_SLOTS
        return None if is_reserved or (count < limit and not name) else self._refused(name)

    def refusal_of_all(self) -> BrokerError | None:
        """Returns why not even an admin may begin a call now, None if an admin may."""
        if self._is_closed:
            return Draining()
        return self._refused("") if self.count >= self.limit + ADMIN_SLOTS else None

    def _refused(self, name: str) -> BrokerError:
        field = self._call_class.value
        if not name:
            return TooManyRequests(field=field, limit=self.limit)
        return ShareTaken(field=field, limit=self.limit, holder=name, count=self.held(name))

    def enter(self, weights: Weights, count: int = 1) -> None:
        """Counts calls that begin; the caller has checked `refusal`."""
        is_right = self.count + count <= self.limit + ADMIN_SLOTS
        assert is_right, "a call began that should have been refused"
        super().enter(weights, count)


class Admission:
    """The gates of all classes of a server."""

    __slots__ = ("_gates",)

    def __init__(self, limits: Mapping[CallClass, int] = DEFAULT_LIMITS) -> None:
        self._gates = {call_class: Gate(call_class, limits[call_class]) for call_class in CallClass}

    def gate(self, call_class: CallClass) -> Gate:
        """Returns the gate of a class."""
        return self._gates[call_class]

    def inflight_count(self) -> int:
        """Returns the number of calls in progress."""
        return sum(gate.count for gate in self._gates.values())

    def close_sends(self) -> None:
        """Refuses sends from now on; receives and settlements are still served."""
        self._gates[CallClass.SEND].close()
