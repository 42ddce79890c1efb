"""One interface to both sides of the comparison: sending, counting, measuring."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Final, NamedTuple

import numpy as np

from bench.peer.clients import Run, h2load
from bench.peer.content import TOPIC, Content, unary_content, v1_request, v2_request
from bench.peer.rocketmq import SEND, rocketmq_server
from bench.servers import ASYNC, BROKER, broker_server
from harness.figures import alternated
from harness.process import cpu_seconds, tell

JVM_CALLS: Final = 150_000
"""Calls that warm a JVM before the measurement."""
MESSAGES_MAX: Final = 200_000
"""Most messages of one run: a longer run would measure the disk rather than the brokers."""
WARM_CALLS: Final = 2_000
CALIBRATE_CALLS: Final = 500
CALLS_MIN: Final = 64
SETTLE_SECONDS: Final = 0.5
LATE_SECONDS: Final = 60
"""Time limit for the dispatch of acknowledged messages."""

_UNIT: Final = np.dtype([("place", ">i8"), ("size", ">i4"), ("tag", ">i8")])

Client = Callable[[str, str, bytes, int], Run]


class Extent(NamedTuple):
    """Size of a measurement.

    seconds     of each client run
    jvm_calls   calls that warm RocketMQ
    settings    of PocketMQ, as for `serve --set`
    """

    rounds: int = 5
    seconds: float = 3.0
    jvm_calls: int = JVM_CALLS
    settings: tuple[str, ...] = ()


class Measured(NamedTuple):
    """One run: the client's counters, and the server's processor time, dispatch included."""

    run: Run
    cpu_seconds: float
    messages: int

    @property
    def messages_per_second(self) -> float:
        """Messages acknowledged each second."""
        return self.messages / self.run.seconds

    @property
    def us(self) -> float:
        """Microseconds of the server's processor time for a message."""
        return 1e6 * self.cpu_seconds / self.messages


class Side:
    """One of the two brokers, and the number of messages that it must have stored."""

    def __init__(
        self, name: str, pid: int, target: str, method: str, store: Path,
        encode: Callable[[Sequence[Content]], bytes],
    ) -> None:  # fmt: skip
        self.name = name
        self.pid = pid
        self.target = target
        self.method = method
        self.encode = encode
        self._store = store
        self.stored = self._settled_count()
        """Acknowledged messages; all are in queues."""

    def run(self, contents: Sequence[Content], calls: int, client: Client = h2load) -> Measured:
        """Sends the messages in `calls` calls, and waits until they are in queues.

        Errors   SystemExit: stored and acknowledged messages differ in number
        """
        request = self.encode(contents)
        before = cpu_seconds(self.pid)
        run = client(self.target, self.method, request, calls)
        messages = run.calls * len(contents)
        self.wait_until_stored(messages)
        return Measured(run, cpu_seconds(self.pid) - before, messages)

    def wait_until_stored(self, more: int) -> None:
        """Waits until the queues contain `more` further messages.

        Errors   SystemExit: they contain more or fewer
        """
        self.stored += more
        end = monotonic() + LATE_SECONDS
        while (stored := self._stored_count()) < self.stored and monotonic() < end:
            sleep(0.02)
        if stored != self.stored:
            raise SystemExit(f"{self.name}: {self.stored} are acknowledged, {stored} stored")

    def _settled_count(self) -> int:
        """Returns the number of stored messages, once there is one and dispatch has caught up."""
        while not self._stored_count():
            sleep(0.02)
        sleep(SETTLE_SECONDS)
        return self._stored_count()

    def _stored_count(self) -> int:
        """Counts the units in the topic's queue files, which costs the broker no processor time."""
        files = sorted((self._store / "consumequeue" / TOPIC).glob("*/*"))
        return sum(int(np.count_nonzero(np.fromfile(file, _UNIT)["size"])) for file in files)


class Pair(NamedTuple):
    """PocketMQ and RocketMQ, both running."""

    ours: Side
    real: Side

    def rounds(
        self, contents: Sequence[Content], number: int, seconds: float, client: Client = h2load
    ) -> tuple[list[Measured], list[Measured]]:
        """Warms both sides; returns the rounds of each, in which the order alternates."""
        calls = {side: calls_for(side, contents, seconds, client) for side in self}
        runs = {side.name: partial(side.run, contents, calls[side], client) for side in self}
        found = alternated(number, runs, messages=len(contents))
        return found[self.ours.name], found[self.real.name]


def calls_for(side: Side, contents: Sequence[Content], seconds: float, client: Client) -> int:
    """Returns the number of calls that a side answers in `seconds`, after two runs that warm it."""
    calls, most = CALIBRATE_CALLS, MESSAGES_MAX // len(contents)
    for _ in range(2):
        rate = side.run(contents, calls, client).run.per_second
        calls = max(CALLS_MIN, min(int(rate * seconds), most))
    return calls


@contextmanager
def pair(
    jars: Path, extent: Extent, *, sync: bool = False, official: bool = False
) -> Iterator[Pair]:
    """Runs both on temporary stores, and warms the JVM.

    official   whether PocketMQ receives the same bytes as RocketMQ, not pocketmq.v1
    """
    unary = [unary_content()]
    settings = extent.settings if sync else (ASYNC, *extent.settings)
    with rocketmq_server(jars, sync=sync) as real, broker_server(*settings) as ours:
        assert ours.store is not None
        ours.call(BROKER + "SendMessage", v1_request(unary))
        pid = ours.process.pid
        method, encode = (SEND, v2_request) if official else (BROKER + "SendMessage", v1_request)
        both = Pair(
            Side("PocketMQ", pid, ours.target, method, ours.store, encode),
            Side("RocketMQ", real.pid, real.target, SEND, real.store, v2_request),
        )
        both.real.run(unary, extent.jvm_calls)
        both.ours.run(unary, WARM_CALLS)
        yield both
        stored = {side.name: side.stored for side in both}
        tell({"acknowledged, and found stored": stored})
