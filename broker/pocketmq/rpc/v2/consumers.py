"""Sends consumers new settings when a change on the broker affects them.

    a group's attempts or order ─┐
    a topic that becomes FIFO  ──┴─► each consumer with other settings ─► its telemetry stream

Each consumer's settings are kept encoded, up to KEPT_BYTES_MAX for all consumers. A consumer beyond
that limit, or of a deleted group, gets new settings when it sends its settings again: every five
minutes.
Source: GrpcClientSettingsManager, which sends settings only as answers.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v2.caller import Caller
from pocketmq.rpc.v2.client_stream import ClientStream, Make
from pocketmq.rpc.v2.settings import Terms, settings_of_consumer
from pocketmq.rpc.v2.status import OK
from pocketmq.store.tables.tables import Tables

KEPT_BYTES_MAX: Final = 32 * 1024 * 1024
"""Upper limit of bytes of all consumers' settings, with TOPIC_SIZE for each topic."""
TOPIC_SIZE: Final = 256
"""Memory of one topic of a consumer in the index by topic."""
ATTEMPTS_MIN: Final = 1


class Subscribed(NamedTuple):
    """Settings that a consumer sent.

    given    the settings, encoded
    topics   names of the subscribed topics
    """

    given: bytes
    caller: Caller
    group: str
    topics: frozenset[str]


class Consumers:
    """All consumers, indexed by the groups and topics that determine their settings."""

    __slots__ = ("_by_group", "_by_topic", "_kept_bytes", "_tables")

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._by_group: dict[str, dict[Consumer, None]] = {}
        self._by_topic: dict[str, dict[Consumer, None]] = {}
        self._kept_bytes = 0
        tables.groups.follow(_check_those_of(self._by_group))
        tables.topics.follow(_check_those_of(self._by_topic))

    def terms_of(self, subscribed: Subscribed) -> Terms | None:
        """Returns the broker's settings for a consumer, None if its group does not exist."""
        group = self._tables.groups.find(subscribed.group)
        if group is None:
            return None
        attempts = max(group.settings.max_attempts or ATTEMPTS_MIN, ATTEMPTS_MIN)
        return Terms(
            attempts, bool(group.settings.fifo) or any(map(self._is_fifo, subscribed.topics))
        )

    def _is_fifo(self, topic: str) -> bool:
        config = self._tables.topics.find(topic)
        return config is not None and config.is_fifo

    def keep(self, consumer: "Consumer", subscribed: Subscribed) -> bool:
        """Registers a consumer for changes; returns False if KEPT_BYTES_MAX would be exceeded."""
        size = _kept_size(subscribed)
        if self._kept_bytes + size > KEPT_BYTES_MAX:
            return False
        self._kept_bytes += size
        self._by_group.setdefault(subscribed.group, {})[consumer] = None
        for topic in subscribed.topics:
            self._by_topic.setdefault(topic, {})[consumer] = None
        return True

    def drop(self, consumer: "Consumer", subscribed: Subscribed) -> None:
        """Unregisters a consumer that `keep` registered."""
        self._kept_bytes -= _kept_size(subscribed)
        assert self._kept_bytes >= 0
        _remove(self._by_group, subscribed.group, consumer)
        for topic in subscribed.topics:
            _remove(self._by_topic, topic, consumer)


class Consumer:
    """The consumer of one telemetry stream."""

    __slots__ = ("_all", "_kept", "_stream", "_terms")

    def __init__(self, consumers: Consumers, stream: ClientStream) -> None:
        self._all = consumers
        self._stream = stream
        self._kept: Subscribed | None = None
        self._terms: Terms | None = None
        """The broker's settings sent last; None until the consumer's settings are answered."""

    def take(self, subscribed: Subscribed) -> Make:
        """Replaces the consumer's settings; returns a function that creates the answer to them."""
        self.end()
        if self._all.keep(self, subscribed):
            self._kept = subscribed
        return lambda: self._answer(subscribed)

    def _answer(self, subscribed: Subscribed) -> pb.TelemetryCommand:
        terms = self._all.terms_of(subscribed) or self._terms or Terms(ATTEMPTS_MIN, False)
        if subscribed is self._kept:
            self._terms = terms
        assert (self._kept is None) <= (self._terms is None), "terms without kept settings"
        given = pb.Settings.FromString(subscribed.given)
        return pb.TelemetryCommand(
            status=OK, settings=settings_of_consumer(given, terms, subscribed.caller)
        )

    def check(self) -> None:
        """Sends the broker's settings again if they differ from those sent last."""
        assert self._kept is not None, "consumer is not registered"
        kept = self._kept
        if self._terms is None:
            return
        terms = self._all.terms_of(kept)
        if terms is not None and terms != self._terms:
            self._stream.tell(lambda: self._answer(kept))

    def end(self) -> None:
        """Unregisters the consumer."""
        if self._kept is not None:
            self._all.drop(self, self._kept)
        self._kept = self._terms = None


def _kept_size(subscribed: Subscribed) -> int:
    return len(subscribed.given) + TOPIC_SIZE * len(subscribed.topics)


def _check_those_of(found: dict[str, dict[Consumer, None]]) -> Callable[[str], None]:
    def check(name: str) -> None:
        for consumer in [*found.get(name, ())]:
            consumer.check()

    return check


def _remove(found: dict[str, dict[Consumer, None]], name: str, consumer: Consumer) -> None:
    del found[name][consumer]
    if not found[name]:
        del found[name]
