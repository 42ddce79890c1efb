"""Clients that hold a stream to the broker, or were heard of lately.

A client is known by its first call, whatever that is; what it sends as its settings says more.
Nothing requires settings: after a restart of the broker many clients go on without them. Kept in
memory only.
Source: GrpcClientSettingsManager, GrpcChannelManager, ClientManagerActivity.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, NamedTuple

from broker.model.stats import Gauge, LabelValues
from broker.model.step import Clock

HEARD_MS: Final = 120_000
"""How long a client counts that says nothing and holds no stream (channelExpiredTimeout)."""
KEPT_MAX: Final = 20_000
"""Above this those that were heard of longest ago are forgotten; a stream is never."""
GRPC: Final = "grpc"
OTHER: Final = "other"


class ClientKind(Enum):
    """What a client does; the values are the protocol's."""

    PRODUCER = 1
    PUSH_CONSUMER = 2
    SIMPLE_CONSUMER = 3
    PULL_CONSUMER = 4
    LITE_PUSH_CONSUMER = 5
    LITE_SIMPLE_CONSUMER = 6


KINDS: Final = {kind.value: kind for kind in ClientKind}
PUSHED: Final = frozenset({ClientKind.PUSH_CONSUMER, ClientKind.LITE_PUSH_CONSUMER})


class Described(NamedTuple):
    """What a client's settings say of it.

    group    it consumes for, "" for a producer
    topics   it publishes to, or subscribes to
    """

    kind: ClientKind
    group: str
    topics: frozenset[str]
    language: str
    version: str


class Reconnect(NamedTuple):
    """A command: the broker is about to end, dial again."""


Say = Callable[[Reconnect], None]
"""Sends a command down a client's stream."""


class Session:
    """One client."""

    __slots__ = ("client_id", "described", "heard_ms", "kind", "say")

    def __init__(self, client_id: str, now_ms: int) -> None:
        assert client_id
        self.client_id = client_id
        self.heard_ms = now_ms
        self.kind: ClientKind | None = None
        self.described: Described | None = None
        """As it says down its newest stream, with which it is forgotten."""
        self.say: Say | None = None
        """Down its newest stream, None while it has none."""


class Sessions:
    """All clients.

    alive   told the id of each client that is heard of
    gone    told the id of a client that ended in order
    """

    __slots__ = ("_alive", "_clock", "_gone", "_sessions", "is_draining", "stats")

    def __init__(
        self, clock: Clock, alive: Callable[[str], object], gone: Callable[[str], object]
    ) -> None:
        self._clock = clock
        self._alive = alive
        self._gone = gone
        self._sessions: dict[str, Session] = {}
        self.is_draining = False
        self.stats = [
            Gauge(
                "rocketmq_producer_connections",
                "Producers of RocketMQ's own protocol that hold a stream.",
                self._producers,
                ("language", "version", "protocol_type"),
            )
        ]

    def heard(self, client_id: str, kind: int = 0) -> Session:
        """Note that a client is alive; `kind` is what it says it is, 0 where it does not.

        Cost     0.5 µs
        """
        now_ms = self._clock.monotonic_ms()
        session = self._sessions.get(client_id)
        if session is None:
            if len(self._sessions) >= KEPT_MAX:
                self._forget(now_ms)
            session = self._sessions[client_id] = Session(client_id, now_ms)
        session.heard_ms = now_ms
        if kind and kind in KINDS:
            session.kind = KINDS[kind]
        self._alive(client_id)
        return session

    def describe(self, client_id: str, described: Described) -> None:
        """Note what a client says of itself in its settings."""
        session = self.heard(client_id, described.kind.value)
        session.described = described
        assert session.kind is described.kind

    def open_stream(self, client_id: str, say: Say) -> None:
        """Note how a client is told things from now on."""
        self.heard(client_id).say = say

    def close_stream(self, client_id: str, say: Say) -> None:
        """Note that a stream has ended; one that took its place stays."""
        session = self._sessions.get(client_id)
        if session is not None and session.say is say:
            session.say = session.described = None
            session.heard_ms = self._clock.monotonic_ms()

    def leave(self, client_id: str) -> None:
        """Forget a client that ends: nobody works on what it was given."""
        self._sessions.pop(client_id, None)
        self._gone(client_id)

    def is_push_consumer(self, client_id: str) -> bool:
        """Return whether a client is known to be given messages as it can take them."""
        session = self._sessions.get(client_id)
        return session is not None and session.kind in PUSHED

    def drain(self) -> None:
        """Tell everybody to dial again, and let streams end."""
        self.is_draining = True
        for session in self._sessions.values():
            if session.say is not None:
                session.say(Reconnect())

    def _forget(self, now_ms: int) -> None:
        """Keep who holds a stream or was heard of lately, and of too many the last half."""
        by_age = sorted(self._sessions.values(), key=lambda one: one.heard_ms)
        held = [one for one in by_age if one.say is not None]
        others = [one for one in by_age if one.say is None and one.heard_ms + HEARD_MS > now_ms]
        kept = [*held, *others[-(KEPT_MAX // 2) :]]
        self._sessions = {one.client_id: one for one in kept}

    def _producers(self) -> dict[LabelValues, float]:
        counts: dict[LabelValues, float] = {}
        for described in self._streaming():
            if described.kind is ClientKind.PRODUCER:
                labels = (described.language or OTHER, described.version or OTHER, GRPC)
                counts[labels] = counts.get(labels, 0.0) + 1
        return counts

    def _streaming(self) -> Iterable[Described]:
        for session in self._sessions.values():
            if session.say is not None and session.described is not None:
                yield session.described
