"""Memory of open leases and parked receives, and their cost to other callers.

    python -m bench.leases KIND COUNT        one measurement in a separate process, as JSON
    leases    COUNT messages, each with its own lease; at the end all leases expire at once
    waits     COUNT receives parked on an empty topic

Store, services and runner are in one process, as in the broker, without a transport. Iterations of
the loop are measured in processor time, garbage collection included. The benchmark checks that
every message is leased, and is redelivered once.
"""

import asyncio
import gc
import json
import os
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import process_time, thread_time
from typing import Any, Final

from bench.load import percentile
from bench.serving_inside import TOPIC, Broker, serving, until
from harness.figures import Extent, Figure
from harness.inside import PassedClock
from harness.process import anonymous_mib, apart
from pocketmq.filter.tag import EVERYTHING
from pocketmq.model.administration import GroupSettings
from pocketmq.model.consuming import Received, ReceiveRequest
from pocketmq.rpc.pb import broker_pb2 as pb

GROUP: Final = "readers"
EMPTY: Final = "empty"
MOST: Final = 100_000
QUEUES: Final = 16
"""Queues of the topic: a group may have 10,000 leases in one queue."""
BATCH: Final = 500
LEASE_MS: Final = 3_600_000
WAIT_MS: Final = 30_000
SENDS: Final = 1_000
ROUNDS_OF_SENDS: Final = 5
SHORT_MS: Final = 0.5
"""Iterations of the loop shorter than this are not counted: they do no work."""
KINDS: Final = {"leases": "open leases", "waits": "receives that wait"}


class TurnsLoop(asyncio.SelectorEventLoop):
    """An event loop that records the processor time of its iterations, in ms."""

    def __init__(self) -> None:
        super().__init__()
        self.turns_ms: list[float] = []

    def _run_once(self) -> None:
        begun = thread_time()
        super()._run_once()  # type: ignore[misc]
        self.turns_ms.append((thread_time() - begun) * 1e3)


class Pauses:
    """Durations of garbage collections, in ms of processor time, by generation."""

    def __init__(self) -> None:
        self.of: dict[int, list[float]] = {0: [], 1: [], 2: []}
        self._begun = 0.0

    def __call__(self, phase: str, told: dict[str, int]) -> None:
        if phase == "start":
            self._begun = thread_time()
        else:
            self.of[told["generation"]].append((thread_time() - self._begun) * 1e3)

    @property
    def longest_ms(self) -> float:
        """The longest garbage collection."""
        return max((took for every in self.of.values() for took in every), default=0.0)


def lease_figures(extent: Extent) -> list[Figure]:
    """Bytes of a lease and of a parked receive, sends beside them, and simultaneous expiry."""
    figures: list[Figure] = []
    most = extent.count(MOST)
    for kind, what in KINDS.items():
        for count in (0, most // 10, most):
            found = [apart("bench.leases", kind, count) for _ in range(extent.rounds)]
            told = f"beside {count:,} {what}"
            sends = [run["send_us"] for run in found]
            figures.append(Figure.of(f"{kind}_{count}_send", f"CPU of a send {told}", sends, "µs"))
        size = [run["bytes_each"] for run in found]
        named = f"RssAnon for each of {most:,} {what}"
        figures.append(Figure.of(f"{kind}_bytes", named, size, "B", "≤ 1024"))
        for name, wanted in (("p99_ms", "≤ 5"), ("longest_ms", ""), ("collecting_ms", "")):
            took = [run[name] for run in found]
            named = f"turns as {most:,} {what} are over at once, {name.removesuffix('_ms')}"
            figures.append(Figure.of(f"{kind}_{name}", named, took, "ms", wanted))
    return figures


async def _look(loop: TurnsLoop, kind: str, count: int) -> dict[str, Any]:
    clock = PassedClock()
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as directory:
        async with serving(Path(directory) / "store", clock, QUEUES) as broker:
            tables = broker.store.tables
            await tables.groups.create(GROUP, GroupSettings())
            await tables.topics.create(EMPTY, queue_count=8)
            await _send_us(broker)  # Creates everything that is created once.
            if kind == "leases":
                await broker.filled([_request(BATCH)], -(-count // BATCH) * BATCH, BATCH)
            gc.collect()
            gc.freeze()  # As a serving broker does.
            pauses = Pauses()
            gc.callbacks.append(pauses)
            before, begun = anonymous_mib(os.getpid()), process_time()
            kept = await (_leased if kind == "leases" else _waits)(broker, count)
            each_us = (process_time() - begun) * 1e6 / max(count, 1)
            filling = dict(pauses.of)
            each = (anonymous_mib(os.getpid()) - before) * (1 << 20) / max(count, 1)
            pauses.of = {0: [], 1: [], 2: []}
            send_us = await _send_us(broker)
            gc.callbacks.remove(pauses)
            over = Pauses()
            gc.callbacks.append(over)
            loop.turns_ms.clear()
            await _over(broker, clock, kind, count, kept)
            gc.callbacks.remove(over)
            long = sorted(took for took in loop.turns_ms if took > SHORT_MS)
            return {
                "bytes_each": each, "each_us": each_us, "send_us": send_us,
                "p99_ms": percentile(long, 0.99), "longest_ms": percentile(long, 1.0),
                "turns": len(long), "collecting_ms": over.longest_ms,
                "filling": {g: [len(v), max(v, default=0)] for g, v in filling.items()},
                "sending": {g: [len(v), max(v, default=0)] for g, v in pauses.of.items()},
                "over": {g: [len(v), max(v, default=0)] for g, v in over.of.items()},
                "longest": long[-8:],
            }  # fmt: skip


async def _leased(broker: Broker, count: int) -> list[Any]:
    consume = broker.parts.backing.consume
    asked = ReceiveRequest(GROUP, TOPIC, EVERYTHING, 1, LEASE_MS, 0)
    for number in range(count):
        found = consume.receive(asked)
        received = found if isinstance(found, Received) else await found
        assert len(received.handles) == 1, f"{number} were received of {count}"
    assert consume.lease_count == count
    return []


async def _waits(broker: Broker, count: int) -> list[Any]:
    consume = broker.parts.backing.consume
    asked = ReceiveRequest(GROUP, EMPTY, EVERYTHING, 1, LEASE_MS, WAIT_MS)
    kept = []
    for number in range(count):
        kept.append(consume.receive(asked))
        if number % 64 == 0:
            await asyncio.sleep(0)
    assert consume.waiter_count == count
    return kept


async def _over(broker: Broker, clock: PassedClock, kind: str, count: int, kept: list[Any]) -> None:
    """Advances the clock until every lease or wait has expired; waits for the loop to finish."""
    consume = broker.parts.backing.consume
    clock.ahead_ms += LEASE_MS + 1_000
    if kind == "leases":
        await until(lambda: consume.lease_count == 0)
        retry = f"%RETRY%{GROUP}_{TOPIC}"
        await broker.store.marks.dispatched.reached(broker.store.appended)
        reading = broker.store.reading
        came = sum(reading.queue_range(retry, one)[1] for one in reading.queue_ids(retry))
        assert came == count, f"{came} of {count} messages were redelivered"
    else:
        await until(lambda: consume.waiter_count == 0)
        assert not any([(await one).handles for one in kept])


def _request(batch: int) -> bytes:
    one = pb.Message(topic=TOPIC, body=bytes(1024), tag="TagA", keys=["key"])
    return pb.SendMessageRequest(messages=[one] * batch).SerializeToString()


async def _send_us(broker: Broker) -> float:
    """Returns the processor time of sending 1 KiB to another topic, until it can be pulled."""
    one = pb.Message(topic="other", queue_id=0, body=bytes(1024), tag="TagA", keys=["key"])
    raws = [pb.SendMessageRequest(messages=[one]).SerializeToString()] * SENDS
    rounds = []
    for _ in range(ROUNDS_OF_SENDS):
        begun = process_time()
        await broker.sent(raws)
        await broker.store.marks.dispatched.reached(broker.store.appended)
        rounds.append((process_time() - begun) * 1e6 / SENDS)
    return median(rounds)


def main() -> None:
    """Makes one measurement."""
    loop = TurnsLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        found = runner.run(_look(loop, sys.argv[1], int(sys.argv[2])))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
