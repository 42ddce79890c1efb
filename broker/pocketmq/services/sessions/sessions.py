"""Clients that hold a stream to the broker, or were active lately.

A client is added by its first call of any kind; its settings describe it further. Settings are
optional: after a restart of the broker many clients continue without them. All is held in memory
only.
Source: GrpcClientSettingsManager, GrpcChannelManager, ClientManagerActivity.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from pocketmq.model.administration import ClientAnswer
from pocketmq.model.errors import ClientNotFound
from pocketmq.model.stats import Gauge, LabelValues
from pocketmq.services.sessions.questions import Command, Questions, Reconnect, Say

QUIET_MAX: Final = 20_000
"""Clients without a stream that are known; of more the one heard of longest ago is forgotten."""
GRPC: Final = "grpc"
OTHER: Final = "other"


class ClientKind(Enum):
    """Role of a client; the values are the protocol's."""

    PRODUCER = 1
    PUSH_CONSUMER = 2
    SIMPLE_CONSUMER = 3
    PULL_CONSUMER = 4
    LITE_PUSH_CONSUMER = 5
    LITE_SIMPLE_CONSUMER = 6


KINDS: Final = {kind.value: kind for kind in ClientKind}
PUSHED: Final = frozenset({ClientKind.PUSH_CONSUMER, ClientKind.LITE_PUSH_CONSUMER})


class Described(NamedTuple):
    """Description of a client, from its settings.

    group    it consumes for, "" for a producer
    """

    kind: ClientKind
    group: str
    language: str
    version: str


@dataclass(slots=True, eq=False)
class Session:
    """One client."""

    client_id: str
    kind: ClientKind | None = None
    described: Described | None = None
    """Its id as on its newest stream, with which the session ends."""
    say: Say | None = None
    """Down its newest stream, None while it has none."""

    def __post_init__(self) -> None:
        assert self.client_id


class Sessions:
    """All clients.

    alive   called with the id of each client that shows itself in a group, and that group
    gone    called with the id of a client that leaves in order, and the group it leaves
    """

    __slots__ = ("_alive", "_gone", "_quiet", "_streaming", "is_draining", "questions", "stats")

    def __init__(
        self, alive: Callable[[str, str], object], gone: Callable[[str, str], object]
    ) -> None:
        self._alive = alive
        self._gone = gone
        self._streaming: dict[str, Session] = {}
        """Those that hold a stream."""
        self._quiet: OrderedDict[str, Session] = OrderedDict()
        """The others, heard of last at the end."""
        self.is_draining = False
        self.questions = Questions()
        self.stats = [
            Gauge(
                "rocketmq_producer_connections",
                "Producers of RocketMQ's own protocol that hold a stream.",
                self._producers,
                ("language", "version", "protocol_type"),
            )
        ]

    def heard(self, client_id: str, kind: int = 0, group: str = "") -> Session:
        """Notes that a client is alive.

        kind     of client, as it states it; 0 where it does not
        group    for which it consumes and may, "" for none: nothing is kept leased by that
        Cost     0.5 µs, however many clients there are
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
        """Notes a client's settings."""
        session = self.heard(client_id, described.kind.value, described.group)
        session.described = described
        assert session.kind is described.kind

    def open_stream(self, client_id: str, say: Say) -> None:
        """Sets the channel for commands to a client."""
        session = self.heard(client_id)
        session.say = say
        self._quiet.pop(client_id, None)
        self._streaming[client_id] = session

    def close_stream(self, client_id: str, say: Say) -> None:
        """Notes that a stream has ended; one that took its place stays."""
        self.questions.end(say)
        session = self._streaming.get(client_id)
        if session is not None and session.say is say:
            session.say = session.described = None
            del self._streaming[client_id]
            self._keep_quiet(session)

    def has_stream(self, client_id: str) -> bool:
        """Returns whether a client holds a stream."""
        return client_id in self._streaming

    def leave(self, client_id: str, group: str = "") -> None:
        """Removes a client that terminates, and ends its work for a group, "" for none.

        Any caller may send its id. So leases for other groups stay, as does a client with a stream
        until that ends.
        """
        self._quiet.pop(client_id, None)
        if group:
            self._gone(client_id, group)

    def is_push_consumer(self, client_id: str) -> bool:
        """Returns whether a client is known to be given messages as it can take them."""
        session = self._streaming.get(client_id) or self._quiet.get(client_id)
        return session is not None and session.kind in PUSHED

    async def ask(
        self, client_id: str, group: str, make: Callable[[str], Command], wait_ms: int
    ) -> ClientAnswer:
        """Asks a consumer with an open stream; returns its answer.

        client_id   as the client sends it, without its user
        make        returns the question with a nonce
        Errors      ClientNotFound, ClientSilent
        Cost        as many steps as clients hold streams
        """
        for session in self._streaming.values():
            described, say = session.described, session.say
            if say is None or described is None or described.group != group:
                continue
            if client_id and client_id in (session.client_id, session.client_id.partition(" ")[2]):
                return await self.questions.ask(say, client_id, make, wait_ms)
        raise ClientNotFound(client_id=client_id, group=group)

    def drain(self) -> None:
        """Asks all clients to reconnect, and ends their streams."""
        self.is_draining = True
        for session in self._streaming.values():
            if session.say is not None:
                session.say(Reconnect())

    def _keep_quiet(self, session: Session) -> None:
        """Keeps a client without a stream, and of too many not the one heard of longest ago."""
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
