"""Start and memory beside RocketMQ, and the cost of a send in a larger broker."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from time import perf_counter, sleep
from typing import Final, NamedTuple

from bench.peer.clients import go_load, h2load
from bench.peer.content import equal_contents, v1_request
from bench.peer.rocketmq import rocketmq_server
from bench.peer.rows import Aim, Row, sides
from bench.peer.sends import told
from bench.peer.sides import Extent, pair
from bench.queues import shuffled_queues, topics_of
from bench.servers import (
    ASYNC,
    BROKER,
    Server,
    bare_server,
    broker_server,
    load,
    send_request,
)
from harness.figures import alternated, ratios
from harness.process import anonymous_mib

READY: Final = Aim(0.125, at_most=True)
MEMORY: Final = Aim(0.1, at_most=True)
FLAT: Final = Aim(1.15, at_most=True)
SEND: Final = BROKER + "SendMessage"
MILLION: Final = 1_000_000
BATCH: Final = 100
CALLS_PER_SECOND: Final = 10_000
"""Sends of a run for each of its seconds: each queue receives at least one."""
QUEUES_MANY: Final = 10_000
CONNECTIONS_MANY: Final = 1_000
CONNECTIONS_RATE: Final = 2_000.0
"""Calls a second: so few that an idle machine reads each call separately."""
BARE_ANSWER: Final = 110
"""Bytes of the reply to a send of one message."""
LOG_SMALL_GIB: Final = 1
LOG_LARGE_GIB: Final = 5
RECORD_BYTES: Final = 1_300
"""Approximate bytes of a 1 KiB message in the log."""


def start_rows(jars: Path, extent: Extent) -> Iterator[Row]:
    """Time from the command to the first accepted message, with empty stores."""
    starts: dict[str, Callable[[], float]] = {
        "ours": lambda: _our_start(extent), "real": lambda: _real_start(jars),
    }  # fmt: skip
    own, other = alternated(extent.rounds, starts, unit="s").values()
    what = "from the command to the first send taken"
    yield told(Row("ready", what, READY, ratios(own, other), sides(own, other, "s", 2)))


def _ours(extent: Extent) -> AbstractContextManager[Server]:
    return broker_server(ASYNC, *extent.settings)


def _our_start(extent: Extent) -> float:
    begun = perf_counter()
    with _ours(extent) as server:
        server.call(SEND, send_request(1))
        return perf_counter() - begun


def _real_start(jars: Path) -> float:
    begun = perf_counter()
    with rocketmq_server(jars):
        return perf_counter() - begun


def memory_rows(jars: Path, extent: Extent) -> Iterator[Row]:
    """RssAnon after a million messages; RocketMQ's name server is not counted."""
    contents = equal_contents(BATCH)
    with pair(jars, extent._replace(jvm_calls=extent.jvm_calls // 10)) as both:
        for side in both:
            side.run(contents, MILLION // BATCH)
        sleep(1)
        own, other = ([anonymous_mib(side.pid)] for side in both)
    what = "RssAnon after 1 M messages in batches of 100 (heap of the real one: 1 GiB)"
    yield told(Row("memory", what, MEMORY, ratios(own, other), sides(own, other, "MiB")))


class _Case(NamedTuple):
    """A broker and the sends to it."""

    server: Server
    requests: Sequence[bytes]
    connections: int = 8
    in_flight: int = 8
    rate: float = 0
    callers: int = 0

    def us(self, extent: Extent) -> float:
        """Returns the processor time of a send; dispatch of nearly all sends is included."""
        is_timed = bool(self.rate or self.callers)
        calls = 0 if is_timed else int(CALLS_PER_SECOND * max(extent.seconds, 1.0))
        run = go_load(
            self.server.target, SEND, *self.requests, connections=self.connections,
            in_flight=self.in_flight, rate=self.rate, calls=calls, seconds=extent.seconds,
            callers=self.callers, warm=self.connections, pid=self.server.process.pid,
        )  # fmt: skip
        return 1e6 * run.cpu_seconds / run.calls


def _compared(
    name: str, what: str, extent: Extent, many: _Case, one: _Case, aim: Aim | None = FLAT
) -> Row:
    for case in (many, one):
        case.us(extent)
    cases = {"many": partial(many.us, extent), "one": partial(one.us, extent)}
    own, other = alternated(extent.rounds, cases, unit="µs").values()
    return told(Row(name, what, aim, ratios(own, other), sides(own, other, "µs", 1)))


def queue_rows(extent: Extent) -> Iterator[Row]:
    """A send to one of 10,000 queues compared with a send to the only queue."""
    with ExitStack() as stack:
        cases = []
        for count in (QUEUES_MANY, 1):
            server = stack.enter_context(_ours(extent))
            topics = topics_of(count)
            server.create_topics(topics)
            requests = [send_request(1, *queue) for queue in shuffled_queues(topics)]
            load(server, SEND, *requests, in_flight=8, count=len(requests))
            server.catch_up()
            cases.append(_Case(server, requests))
        what = "processor time of a send, grpc-go: 10,000 queues to 1"
        yield _compared("queues", what, extent, cases[0], cases[1])


def connection_rows(extent: Extent) -> Iterator[Row]:
    """Sends on 1,000 connections compared with one connection: one at a time, and at a rate."""
    requests = [v1_request(equal_contents(1))]
    with _ours(extent) as many, _ours(extent) as one:
        what = "processor time of a send, one at a time, grpc-go: 1,000 connections to 1"
        yield _compared(
            "connections", what, extent,
            _Case(many, requests, CONNECTIONS_MANY, callers=1),
            _Case(one, requests, 1, callers=1),
        )  # fmt: skip
        what = "the same at 2,000/s, where what comes together on one connection is read together"
        yield _compared(
            "connections_paced", what, extent,
            _Case(many, requests, CONNECTIONS_MANY, 1, rate=CONNECTIONS_RATE),
            _Case(one, requests, 1, 64, rate=CONNECTIONS_RATE), None,
        )  # fmt: skip
    with bare_server(bytes(BARE_ANSWER)) as many, bare_server(bytes(BARE_ANSWER)) as one:
        what = "one at a time to a bare epoll server in C: 1,000 connections to 1"
        yield _compared(
            "connections_bare", what, extent,
            _Case(many, requests, CONNECTIONS_MANY, callers=1),
            _Case(one, requests, 1, callers=1), None,
        )  # fmt: skip


def log_rows(extent: Extent) -> Iterator[Row]:
    """Sends to a log of 5 GiB compared with a log of 1 GiB."""
    requests = [v1_request(equal_contents(1))]
    with (
        _ours(extent) as large,
        _ours(extent) as small,
    ):
        for server, gib in ((large, LOG_LARGE_GIB), (small, LOG_SMALL_GIB)):
            calls = gib * (1 << 30) // (RECORD_BYTES * BATCH)
            server.call(SEND, v1_request(equal_contents(1)))
            h2load(server.target, SEND, v1_request(equal_contents(BATCH)), calls)
            server.catch_up()
            appended = server.status().appended_offset
            if appended < gib * (1 << 30) * 0.8:
                raise SystemExit(f"{appended} bytes in a log of {gib} GiB: sends were refused")
        what = f"processor time of a send, grpc-go: a log of {LOG_LARGE_GIB} GiB to 1 GiB"
        yield _compared("log", what, extent, _Case(large, requests), _Case(small, requests))
