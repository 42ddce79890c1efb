"""The way in: PocketMQ follows a master of RocketMQ, and is promoted.

    follow    RocketMQ 5.5.0 gets batches, keys, large messages, delays, timers and transactions
              over many files; it is killed, and so is PocketMQ, which copies its log meanwhile
    promote   while the master waits, idle: offsets that were committed last are current
    compare   the log and the consume queues have the bytes of RocketMQ's
    serve     everything that RocketMQ reads is read from PocketMQ, also by key

Requires a JDK 17, and Maven or the jars.
"""

import json
import signal
import socket
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any, Final

from harness.budget import Budget
from pocketmq.client import AsyncClient
from pocketmq.format.names import COMMIT_LOG_DIRECTORY, CONSUME_QUEUE_DIRECTORY
from pocketmq.model.topic import is_system_topic
from pocketmq.wire.remoting import Command, encode
from tests.e2e.daemon import Daemon
from torture.judged import UNIT_SIZE, Ours, Truth, reading
from torture.real_broker import Document, Plan, Real, free_ports, real, run_real
from torture.slaves import SIZES, VERSION

RUNS: Final = (
    ("mixed", "large"), ("few", "transactions"), ("few", "delays", "timers", "transactions"),
)  # fmt: skip
IDLE_MS: Final = 45_000
"""Time for which the master waits in its last run, idle, before it reads."""
TOPIC, GROUP, OFFSET = "orders", "versions", 5
COMMIT: Final = 15
"""UPDATE_CONSUMER_OFFSET"""
LIMIT_S: Final = 240.0


class WayIn:
    """A master of RocketMQ, and PocketMQ that follows it."""

    def __init__(self, place: Path, one: Real, seed: int) -> None:
        self._place = place
        self._one = one
        self._seed = seed
        self._chance = Random(seed)
        self._ports = free_ports()
        self._theirs = place / "real"
        self._ours = place / "ours"
        place.mkdir(parents=True)
        self._truth = Truth()
        self.figures: Counter[str] = Counter()

    def go(self) -> None:
        """Follows, kills, promotes and compares.

        Errors   AssertionError: PocketMQ differs; RealFailed
        """
        with ExitStack() as up:
            pool = up.enter_context(ThreadPoolExecutor(1))
            self._daemon = self._followed(up)
            for number in range(len(RUNS)):
                is_last = number == len(RUNS) - 1
                running = pool.submit(self._run, number, is_last=is_last)
                self._wait_for(self._is_connected, running, "it is connected")
                if is_last:
                    self._promote(running)
                elif self._chance.random() < 0.8:
                    sleep(self._chance.uniform(0.0, 3.0))
                    self._daemon.signal(signal.SIGKILL)
                    self._daemon.end()
                    self._daemon = self._followed(up)
                    self.figures["kills of PocketMQ"] += 1
                self._truth.add(running.result())
                self.figures["kills of RocketMQ"] += not is_last
            assert self._daemon.stop() == 0, self._daemon.log.read_text()
        self._compare()
        self._serve()

    def _run(self, number: int, *, is_last: bool) -> list[Document]:
        plan = Plan(
            f"run{number}", RUNS[number], SIZES, self._seed, self._truth.keys,
            is_killed=not is_last, wait_ms=IDLE_MS if is_last else 3_000, ports=self._ports,
        )  # fmt: skip
        return run_real(self._one, self._place / f"run{number}", self._theirs, plan)

    def _followed(self, up: ExitStack) -> Daemon:
        sizes = [word for name, value in SIZES.items() for word in ("--set", f"{name}={value}")]
        leader = f"replication.leader=rocketmq://127.0.0.1:{self._ports[1]}"
        daemon = Daemon(self._ours, *sizes, "--set", leader, "--set", "brokerName=real")
        daemon.begin()
        up.callback(daemon.end)
        daemon.serve()
        return daemon

    @staticmethod
    def _wait_for(is_so: Any, running: "Future[list[Document]]", what: str) -> None:
        until = monotonic() + LIMIT_S
        while not is_so():
            assert not running.done(), f"before the master ended: {what}"
            assert monotonic() < until, f"not within {LIMIT_S:.0f} s: {what}"
            sleep(0.3)

    def _status(self) -> dict[str, Any]:
        done = self._daemon.ask("replica", "status", "-o", "jsonl")
        found: dict[str, Any] = done.rows[0] if done.code == 0 else {}
        return found

    def _is_connected(self) -> bool:
        return bool(self._status().get("connected"))

    # -- promotion -----------------------------------------------------------------------------
    def _promote(self, running: "Future[list[Document]]") -> None:
        """Promotes while the master is idle, right after an offset was committed there."""
        said = self._place / f"run{len(RUNS) - 1}" / "said"
        last = f"sent {RUNS[-1][-1]}"
        self._wait_for(lambda: last in said.read_text("utf-8"), running, last)
        refused = self._daemon.ask("replica", "promote", "--yes")
        assert refused.code, "it is promoted beside its live master"
        self._commit()
        begun = monotonic()
        done = self._daemon.ask("replica", "promote", "--force", "--yes", "-o", "jsonl")
        assert done.code == 0, done.err
        self.figures["term begins at"] = done.rows[0]["term_begin"]
        until = monotonic() + LIMIT_S
        while self._status().get("role") != "leader":
            assert monotonic() < until, "it does not lead"
        self.figures["promotion took ms"] = int((monotonic() - begun) * 1000)

    def _commit(self) -> None:
        fields = {
            "consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "commitOffset": str(OFFSET),
        }  # fmt: skip
        with socket.create_connection(("127.0.0.1", self._ports[1])) as connection:
            connection.sendall(encode(Command(COMMIT, fields, opaque=1)))
            answer = connection.recv(1 << 16)
            assert b'"code":0' in answer, answer

    # -- comparing -----------------------------------------------------------------------------
    def _contents(self, store: Path, directory: str) -> dict[str, bytes]:
        """Returns the content of each directory of files, without the unused end."""
        found: dict[str, bytes] = {}
        for path in sorted((store / directory).rglob("*")):
            if path.is_file():
                name = str(path.parent.relative_to(store))
                found[name] = found.get(name, b"") + path.read_bytes()
        return {name: content.rstrip(b"\0") for name, content in found.items()}

    def _compare(self) -> None:
        """Compares what the master had at the promotion; it goes on alone until it ends."""
        begin = self.figures["term begins at"]
        logs = [self._contents(one, COMMIT_LOG_DIRECTORY) for one in (self._theirs, self._ours)]
        theirs, ours = (log[COMMIT_LOG_DIRECTORY] for log in logs)
        assert theirs[:begin] == ours[:begin], "the logs differ"
        self.figures["bytes of the log equal"] += begin
        self.figures["bytes of the master alone"] += max(len(theirs) - begin, 0)
        queues = self._contents(self._ours, CONSUME_QUEUE_DIRECTORY)
        for name, content in self._contents(self._theirs, CONSUME_QUEUE_DIRECTORY).items():
            units = range(0, len(content), UNIT_SIZE)
            end = next((at for at in units if _place(content, at) >= begin), len(content))
            assert queues.get(name, b"")[:end] == content[:end], f"{name} differs"
            self.figures["queues equal"] += 1

    def _serve(self) -> None:
        ours = Ours(self._ours, [f"{name}={value}" for name, value in SIZES.items()])
        for step, outcome in ours.served(reading(self._truth, has_index=True)).items():
            assert not outcome, f"{step}: {outcome}"
            self.figures[f"stores with step {step}"] += 1
        self.figures["messages served"] += self._truth.message_count

        async def tables(client: AsyncClient) -> tuple[int | None, set[str]]:
            offset = await client.fetch_offset(GROUP, TOPIC, 0)
            return offset, {one.name for one in (await client.admin.list_topics())[0]}

        offset, topics = ours.served(tables)
        assert offset == OFFSET, f"the offset is {offset}"
        sent = {topic for topic, _ in self._truth.queues if not is_system_topic(topic)}
        assert sent <= topics, f"topics are missing: {sent - topics}"
        self.figures["topics found"] += len(sent)


def _place(content: bytes, at: int) -> int:
    """Returns the physical offset in a unit of a queue."""
    return int.from_bytes(content[at : at + 8])


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Lets PocketMQ follow masters and be promoted, as long as there is time; returns the figures.

    Errors   NotHere; AssertionError: PocketMQ differs
    """
    one = real(VERSION)
    figures: Counter[str] = Counter()
    while budget.left():
        number = figures["stores"]
        way = WayIn(place / f"way{number}", one, budget.seed + number)
        way.go()
        figures += way.figures
        figures["stores"] += 1
        budget.progress(json.dumps(dict(figures)))
    return dict(figures)
