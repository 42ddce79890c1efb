"""Clients that have an open telemetry stream, or that were active recently.

A client's first call of any kind adds it. A client may never send settings: after a restart of the
broker many clients continue without sending settings. Sessions are kept only in memory.
Source: GrpcClientSettingsManager, GrpcChannelManager, ClientManagerActivity.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from pocketmq.model.administration import ClientAnswer
from pocketmq.model.errors import ClientNotFound
from pocketmq.model.stats import Gauge, LabelValues
from pocketmq.model.step import Next, Now
from pocketmq.services.sessions.classic_sessions import ClassicSessions
from pocketmq.services.sessions.questions import Command, Questions, Reconnect, Say
from pocketmq.services.sessions.slaves import SlaveRegistry

QUIET_MAX: Final = 20_000
"""Upper limit of clients without a stream; the least recently active client is evicted."""
GRPC: Final = "grpc"
OTHER: Final = "other"


class ClientKind(Enum):
    """Role of a client; values as in the protocol."""

    PRODUCER = 1
    PUSH_CONSUMER = 2
    SIMPLE_CONSUMER = 3
    PULL_CONSUMER = 4
    LITE_PUSH_CONSUMER = 5
    LITE_SIMPLE_CONSUMER = 6


KINDS: Final = {kind.value: kind for kind in ClientKind}
PUSHED: Final = frozenset({ClientKind.PUSH_CONSUMER, ClientKind.LITE_PUSH_CONSUMER})


class Described(NamedTuple):
    """A client's settings.

    group    consumer group; "": the client is a producer
    peer     the client's address, as gRPC writes it
    topics   topics that a producer names
    """

    kind: ClientKind
    group: str
    language: str
    version: str
    peer: str = ""
    topics: Collection[str] = ()


@dataclass(slots=True, eq=False)
class Session:
    """One client."""

    client_id: str
    kind: ClientKind | None = None
    described: Described | None = None
    """Settings sent on the client's newest stream; None after that stream ended."""
    say: Say | None = None
    """Queues a command on the client's newest stream; None without a stream."""

    def __post_init__(self) -> None:
        assert self.client_id


class Sessions:
    """All clients.

    alive   called with client id and group when the client is active in the group
    gone    called with client id and group when the client terminates
    """

    __slots__ = (
        "_alive", "_gone", "_quiet", "_streaming", "classic", "is_draining", "questions", "slaves",
        "stats",
    )  # fmt: skip

    def __init__(
        self, alive: Callable[[str, str], object], gone: Callable[[str, str], object]
    ) -> None:
        self._alive = alive
        self._gone = gone
        self._streaming: dict[str, Session] = {}
        """Clients with a stream."""
        self._quiet: OrderedDict[str, Session] = OrderedDict()
        """Clients without a stream, the most recently active at the end."""
        self.is_draining = False
        self.classic = ClassicSessions()
        self.questions = Questions()
        self.slaves = SlaveRegistry()
        self.stats = [
            Gauge(
                "rocketmq_producer_connections",
                "Producers of RocketMQ's protocol with an open stream.",
                self._producers,
                ("language", "version", "protocol_type"),
            )
        ]

    def step(self, now: Now) -> Next:
        """Removes silent classic clients, and silent slaves."""
        self.slaves.expire(now.monotonic_ms)
        return self.classic.step(now)

    def heard(self, client_id: str, kind: int = 0, group: str = "") -> Session:
        """Records that a client is active.

        kind     client type as in the protocol; 0: not stated
        group    consumer group whose permission was checked; "": no leases are renewed
        Cost     0.5 µs, independent of the number of clients
        """
        session = self._streaming.get(client_id)
        if session is None:
            session = self._quiet.get(client_id) or Session(client_id)
            self._keep_quiet(session)
        if kind and kind in KINDS:
            session.kind = KINDS[kind]
        if group:
            self._alive(client_id, group)
        return session

    def describe(self, client_id: str, described: Described) -> None:
        """Stores a client's settings."""
        session = self.heard(client_id, described.kind.value, described.group)
        session.described = described
        assert session.kind is described.kind

    def open_stream(self, client_id: str, say: Say) -> None:
        """Registers a client's stream, on which commands are sent."""
        session = self.heard(client_id)
        session.say = say
        self._quiet.pop(client_id, None)
        self._streaming[client_id] = session

    def close_stream(self, client_id: str, say: Say) -> None:
        """Removes a stream that has ended, unless a newer stream has replaced it."""
        self.questions.end(say)
        session = self._streaming.get(client_id)
        if session is not None and session.say is say:
            session.say = session.described = None
            del self._streaming[client_id]
            self._keep_quiet(session)

    def has_stream(self, client_id: str) -> bool:
        """Returns whether a client has an open stream."""
        return client_id in self._streaming

    def leave(self, client_id: str, group: str = "") -> None:
        """Removes a client that terminates, and releases its leases of `group`.

        Any caller may send this client id. So leases of other groups are kept, and a client with an
        open stream is kept until the stream ends.
        """
        self._quiet.pop(client_id, None)
        if group:
            self._gone(client_id, group)

    def is_push_consumer(self, client_id: str) -> bool:
        """Returns whether a client is known to be a push consumer."""
        session = self._streaming.get(client_id) or self._quiet.get(client_id)
        return session is not None and session.kind in PUSHED

    def publishing(self, topic: str) -> list[tuple[str, Described]]:
        """Returns id and settings of the producers with a stream that name a topic.

        Cost     linear in the number of clients with a stream
        """
        return [
            (session.client_id.rpartition(" ")[2], session.described)
            for session in self._streaming.values()
            if session.described is not None and topic in session.described.topics
        ]

    async def ask(
        self, client_id: str, group: str, make: Callable[[str], Command], wait_ms: int
    ) -> ClientAnswer:
        """Sends a command to a consumer with an open stream; returns its answer.

        client_id   client id, with or without its user
        make        returns the command for a nonce
        Errors      ClientNotFound, ClientSilent
        Cost        linear in the number of clients with a stream
        """
        for session in self._streaming.values():
            described, say = session.described, session.say
            if say is None or described is None or described.group != group:
                continue
            if client_id and client_id in (session.client_id, session.client_id.partition(" ")[2]):
                return await self.questions.ask(say, client_id, make, wait_ms)
        raise ClientNotFound(client_id=client_id, group=group)

    def drain(self) -> None:
        """Sends all clients the command to reconnect."""
        self.is_draining = True
        for session in self._streaming.values():
            if session.say is not None:
                session.say(Reconnect())

    def _keep_quiet(self, session: Session) -> None:
        assert session.client_id not in self._streaming
        self._quiet[session.client_id] = session
        self._quiet.move_to_end(session.client_id)
        if len(self._quiet) > QUIET_MAX:
            self._quiet.popitem(last=False)
        assert len(self._quiet) <= QUIET_MAX

    def _producers(self) -> dict[LabelValues, float]:
        counts: dict[LabelValues, float] = {}
        for described in self._who_stream():
            if described.kind is ClientKind.PRODUCER:
                labels = (described.language or OTHER, described.version or OTHER, GRPC)
                counts[labels] = counts.get(labels, 0.0) + 1
        return counts

    def _who_stream(self) -> Iterable[Described]:
        for session in self._streaming.values():
            if session.described is not None:
                yield session.described
