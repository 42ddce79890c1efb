"""Cost of a send when a store has 1, 1,000 or 10,000 queues.

Three brokers have these numbers of queues; each queue holds a message before the measurement. They
receive the same requests except for topic and queue, one broker after the other in every round, in
changing order. Consecutive requests go to different queues, in shuffled order. Processor time is
the broker's, dispatch included.
"""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import sleep

from bench.servers import ASYNC, BROKER, Server, broker_server, load, send_request
from harness.figures import Extent, Figure, alternated, ratios
from harness.process import maps_of, open_count

COUNTS = (1, 1_000, 10_000)
TOPIC_QUEUES_MAX = 1_000
BATCH_SIZE = 100
BATCH_COUNT = 200
"""Batches of one run; a run of unary sends has UNARY_COUNT."""
UNARY_COUNT = 2_000
IN_FLIGHT = {1: 64, BATCH_SIZE: 8}
FLUSH_SECONDS = 11.0
"""Wait that covers a flush of all queues, one every ten seconds: part of the cost of sends."""
DISPATCH_SECONDS = 0.1


def topics_of(queue_count: int) -> dict[str, int]:
    """Returns the queues of each topic; together they have `queue_count` queues."""
    names = range(-(-queue_count // TOPIC_QUEUES_MAX))
    size = min(queue_count, TOPIC_QUEUES_MAX)
    return {f"bench-{name}": size for name in names}


def shuffled_queues(topics: dict[str, int]) -> list[tuple[str, int]]:
    """Returns all queues in a fixed shuffled order."""
    queues = [(topic, queue) for topic, count in topics.items() for queue in range(count)]
    random.Random(1).shuffle(queues)
    return queues


class Target:
    """A broker with `queue_count` queues, and the number of messages sent to it."""

    def __init__(self, server: Server, queue_count: int) -> None:
        self.server = server
        self._topics = topics_of(queue_count)
        self._queues = shuffled_queues(self._topics)
        self._place = 0
        self._sent = dict.fromkeys(self._topics, 0)
        self.message_count = 0
        """Messages sent since the queues were created."""

    def prepare(self) -> None:
        """Creates all queues with one message each."""
        self.server.create_topics(self._topics)
        self.run(1, len(self._queues))
        self.server.catch_up()
        self.message_count = 0

    def run(self, size: int, count: int) -> dict[str, float]:
        """Sends `count` requests of `size` messages; returns CPU µs a message, and rate."""
        queues = [*self._next_queues(count)]
        requests = [send_request(size, *queue) for queue in queues]
        before = self.server.cpu_seconds
        method, in_flight = BROKER + "SendMessage", IN_FLIGHT[size]
        done = load(self.server, method, *requests, in_flight=in_flight, count=count)
        sleep(DISPATCH_SECONDS)
        spent = self.server.cpu_seconds - before
        for topic, _ in queues:
            self._sent[topic] += size
        self.message_count += count * size
        return {
            "us": 1e6 * spent / (count * size),
            "per_second": count * size / done["seconds"],
            "p99_ms": done["p99_ms"],
        }

    def _next_queues(self, count: int) -> Iterator[tuple[str, int]]:
        for _ in range(count):
            yield self._queues[self._place % len(self._queues)]
            self._place += 1

    def check_stored(self) -> None:
        """Ends the measurement unless every message is stored."""
        self.server.check_stored(self._sent)


def queue_figures(extent: Extent) -> list[Figure]:
    """Processor time and rate of sends by number of queues; memory, descriptors and maps."""
    with ExitStack() as stack:
        targets = {n: Target(stack.enter_context(broker_server(ASYNC)), n) for n in COUNTS}
        for target in targets.values():
            target.prepare()
        begun = {n: target.server.cpu_seconds for n, target in targets.items()}
        figures = [
            *_compared(targets, extent, BATCH_SIZE, extent.count(BATCH_COUNT)),
            *_compared(targets, extent, 1, extent.count(UNARY_COUNT)),
        ]
        sleep(FLUSH_SECONDS)
        whole = {
            n: (target.server.cpu_seconds - begun[n]) / target.message_count
            for n, target in targets.items()
        }
        figures += _sizes(targets[COUNTS[-1]].server)
        for target in targets.values():
            target.check_stored()
    for n in COUNTS[1:]:
        what = f"the same, all sends and the flush behind them: {n:,} queues ÷ 1"
        figures.append(Figure.of(f"queues_{n}_whole", what, [whole[n] / whole[1]], "ratio"))
    return figures


def _compared(
    targets: dict[int, Target], extent: Extent, size: int, count: int
) -> Iterator[Figure]:
    subjects = {n: partial(target.run, size, count) for n, target in targets.items()}
    runs = alternated(extent.rounds, subjects, messages=size)
    shape = "unary" if size == 1 else f"batches of {size}"
    name = "unary" if size == 1 else "batch"
    for n in COUNTS[1:]:
        cost, rate = (
            ratios((run[what] for run in runs[n]), (run[what] for run in runs[1]))
            for what in ("us", "per_second")
        )
        what = f"processor time of a send, {shape}: {n:,} queues ÷ 1"
        yield Figure.of(f"queues_{n}_{name}", what, cost, "ratio", "≤ 1.15")
        what = f"messages a second, {shape}: {n:,} queues ÷ 1"
        yield Figure.of(f"queues_{n}_{name}_rate", what, rate, "ratio")


def _sizes(server: Server) -> list[Figure]:
    assert server.store is not None
    process_id = server.process.pid
    text = Path(f"/proc/{process_id}/maps").read_text()
    maps, queue_maps = maps_of(text, server.store / "consumequeue")
    many = f"{COUNTS[-1]:,} queues"
    memory, opened = [server.anonymous_mib()], [float(open_count(process_id))]
    return [
        Figure.of("queues_memory", f"RssAnon with {many}", memory, "MiB", "≤ 150"),
        Figure.of("queues_open", f"open descriptors with {many}", opened, ""),
        Figure.of("queues_maps", f"maps with {many}", [float(maps)], ""),
        Figure.of("queues_file_maps", "of these, consume-queue files", [float(queue_maps)], ""),
    ]
