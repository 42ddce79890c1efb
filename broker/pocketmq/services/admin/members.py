"""Members of consumer groups: their recently active clients.

A client without a `client_id` is identified by its address: when it reconnects, it is a new member.
Members are kept only in memory: a restart empties the list.
Source: ConsumerManager, ClientHousekeepingService.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pocketmq.model.administration import Member
from pocketmq.model.stats import Gauge, LabelValues
from pocketmq.model.step import Clock
from pocketmq.model.topic import is_system_group

SEEN_MS: Final = 120_000
"""A client is a member for this time after its last call (channelExpiredTimeout)."""
KEPT_MAX: Final = 10_000
TOPICS_MAX: Final = 64
"""Upper limit of topics of one client; the topic that was added first is dropped."""
RECEIVE: Final = "receive"
PULL: Final = "pull"
PUSH: Final = "push"
REMOTING: Final = "remoting"
"""Name of the classic protocol in metrics."""
_MODES: Final = {RECEIVE: "pop", PULL: "pull", PUSH: "push"}
"""Mode -> RocketMQ's name of the mode."""
_LABELS: Final = (
    "consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"
)  # fmt: skip


class Dialect(NamedTuple):
    """Language, version and protocol of a client; the defaults are for PocketMQ's clients."""

    language: str = "other"
    version: str = "v1"
    protocol: str = "grpc"


OWN: Final = Dialect()


class SeenClient:
    """A client of a group; times are wall times in ms."""

    __slots__ = ("address", "dialect", "seen_ms", "since_ms", "topics")

    def __init__(self, address: str, now_ms: int, dialect: Dialect) -> None:
        self.address = address
        self.dialect = dialect
        self.since_ms = self.seen_ms = now_ms
        self.topics: dict[str, None] = {}


class Members:
    """The clients of all groups."""

    __slots__ = ("_clock", "_seen", "stats")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[tuple[str, str, str], SeenClient] = {}
        self.stats = [
            Gauge(
                "rocketmq_consumer_connections",
                "Clients of a group that were active within two minutes.",
                self._counts,
                _LABELS,
            )
        ]

    def saw(
        self, group: str, topic: str, client_id: str, peer: str, mode: str, dialect: Dialect = OWN
    ) -> None:
        """Records a call of a client; `peer` is the client's address as gRPC writes it.

        Cost     0.4 µs
        """
        now_ms = self._clock.wall_ms()
        key = (group, client_id or peer, mode)
        seen = self._seen.get(key)
        if seen is None:
            if len(self._seen) >= KEPT_MAX:
                self._forget()
            seen = self._seen[key] = SeenClient(peer, now_ms, dialect)
        seen.seen_ms, seen.address = now_ms, peer
        if topic not in seen.topics:
            if len(seen.topics) >= TOPICS_MAX:
                del seen.topics[next(iter(seen.topics))]
            seen.topics[topic] = None

    def receiving(self) -> list[tuple[str, str]]:
        """Returns (group, topic) of the clients that receive messages."""
        return [
            (group, topic)
            for (group, _, mode), seen in self._fresh()
            if mode == RECEIVE
            for topic in seen.topics
        ]

    def of_group(self, group: str) -> list[Member]:
        """Returns the clients of a group, the most recently active first."""
        found = [
            Member(
                group,
                client_id if client_id != seen.address else "",
                seen.address,
                mode,
                sorted(seen.topics),
                seen.since_ms,
                seen.seen_ms,
                seen.dialect.language,
                seen.dialect.version,
            )
            for (name, client_id, mode), seen in self._fresh()
            if name == group
        ]
        return sorted(found, key=lambda member: -member.seen_ms)

    def counts(self) -> Mapping[str, int]:
        """Returns the number of clients by group; a client counts once for each of its modes."""
        return Counter(group for (group, _, _), _ in self._fresh())

    def _fresh(self) -> Iterable[tuple[tuple[str, str, str], SeenClient]]:
        since_ms = self._clock.wall_ms() - SEEN_MS
        return [(key, seen) for key, seen in self._seen.items() if seen.seen_ms > since_ms]

    def _forget(self) -> None:
        """Removes clients, except the most recently active KEPT_MAX / 2 members."""
        kept = sorted(self._fresh(), key=lambda pair: pair[1].seen_ms)
        self._seen = dict(kept[-(KEPT_MAX // 2) :])
        assert len(self._seen) < KEPT_MAX, "too many clients kept"

    def _counts(self) -> dict[LabelValues, float]:
        counts: dict[LabelValues, float] = {}
        for (group, _, mode), seen in self._fresh():
            is_system = "true" if is_system_group(group) else "false"
            language, version, protocol = seen.dialect
            labels = (group, language, version, _MODES[mode], protocol, is_system)
            counts[labels] = counts.get(labels, 0.0) + 1
        return counts
