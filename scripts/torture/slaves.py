"""The way out: slave brokers of RocketMQ follow PocketMQ, and one is promoted.

    follow    a slave of RocketMQ 5.5.0 copies the log under load: batches, keys, delays and
              transactions, over many files; both brokers are killed and started again
    compare   when sends have ended, its log and its consume queues have the bytes of PocketMQ's
    promote   it is stopped, and started as a master: everything sent is read from it by RocketMQ

Requires a JDK 17, and Maven or the jars.
"""

import asyncio
import json
import os
import signal
import subprocess
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any, Final

from harness.budget import Budget
from pocketmq.client import AsyncClient, ClientError, Message, Resolution
from pocketmq.format.names import COMMIT_LOG_DIRECTORY, CONSUME_QUEUE_DIRECTORY
from tests.e2e.daemon import Daemon
from torture.real_broker import LOGBACK, OPENED, Plan, Real, free_ports, real, run_real

VERSION: Final = "5.5.0"
FILE_SIZE: Final = 1 << 20
BROKER, CLUSTER = "real", "DefaultCluster"
PLAIN, KEYED, LATER, PAID = "plain", "keyed", "later", "paid"
TOPICS: Final = {PLAIN: "normal", KEYED: "normal", LATER: "delay", PAID: "transaction"}
SIZES: Final = {
    "mappedFileSizeCommitLog": str(FILE_SIZE), "mappedFileSizeConsumeQueue": "12000",
    "maxHashSlotNum": "101", "maxIndexNum": "500",
}  # fmt: skip
EVENTS: Final = ("slave", "broker", "none")
"""Which broker is killed between two loads."""
LOADS: Final = 4
LOAD_S: Final = 4.0
START_S: Final = 90.0
FOLLOW_S: Final = 120.0
TABLES_S: Final = 66.0
"""A slave first asks for the tables 60 s after its start."""
DELAY_MS: Final = 1_500


class Slave:
    """A slave broker of RocketMQ, as a process."""

    def __init__(self, one: Real, place: Path, names: str, port: int) -> None:
        self._one = one
        self._place = place
        self._names = names
        self.store = place / "store"
        place.mkdir(parents=True)
        (place / "conf").mkdir()
        logback = LOGBACK.format(file=place / "broker.log")
        (place / "conf" / "rmq.broker.logback.xml").write_text(logback, "utf-8")
        settings = {
            "brokerName": BROKER, "brokerClusterName": CLUSTER, "brokerId": "1",
            "brokerRole": "SLAVE", "brokerIP1": "127.0.0.1", "listenPort": str(port),
            "haListenPort": str(port + 1), "storePathRootDir": str(self.store),
            "storePathCommitLog": str(self.store / COMMIT_LOG_DIRECTORY),
            "slaveReadEnable": "true", **SIZES,
        }  # fmt: skip
        lines = "".join(f"{name}={value}\n" for name, value in settings.items())
        (place / "slave.conf").write_text(lines, "utf-8")

    def start(self) -> None:
        """Starts it; it finds its master by the name server."""
        opened = [word for name in OPENED for word in ("--add-opens", f"{name}=ALL-UNNAMED")]
        command = [
            "java", "-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            f"-Duser.home={self._place}", *opened, "-cp", f"{self._one.jars}/*",
            "org.apache.rocketmq.broker.BrokerStartup", "-c", str(self._place / "slave.conf"),
            "-n", self._names,
        ]  # fmt: skip
        with (self._place / "said").open("ab") as said:
            self._process = subprocess.Popen(
                command, stdout=said, stderr=subprocess.STDOUT, cwd=self._place,
                env={**os.environ, "ROCKETMQ_HOME": str(self._place)},
            )  # fmt: skip

    def end(self, number: signal.Signals) -> None:
        """Ends the process by a signal."""
        if self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(START_S)


class Way:
    """One store of PocketMQ, and the slave that copies it."""

    def __init__(self, place: Path, one: Real, seed: int) -> None:
        self._place = place
        self._one = one
        self._chance = Random(seed)
        port, _ = free_ports()  # Ten ports; VIP channels are two below their broker's.
        self._endpoint = f"127.0.0.1:{port + 2}"
        self._replication = f"127.0.0.1:{port + 3}"
        self.store = place / "store"
        self.slave = Slave(one, place / "slave", self._endpoint, port + 8)
        self.sent: Counter[str] = Counter()
        self.figures: Counter[str] = Counter()
        self._number = 0

    def go(self) -> None:
        """Loads, kills, compares and promotes.

        Errors   AssertionError: the slave differs
        """
        with ExitStack() as up:
            up.callback(lambda: self.slave.end(signal.SIGKILL))
            daemon = self._served(up)
            asyncio.run(self._create())
            self.slave.start()
            started_s = monotonic()
            for number in range(LOADS):
                asyncio.run(self._load())
                event = self._chance.choice(EVENTS) if number < LOADS - 1 else EVENTS[-1]
                if event == "slave":
                    self.slave.end(signal.SIGKILL)
                    self.slave.start()
                    started_s = monotonic()
                elif event == "broker":
                    daemon.signal(signal.SIGKILL)
                    daemon.end()
                    daemon = self._served(up)
                if event != EVENTS[-1]:
                    self.figures[f"{event} killed"] += 1
            sleep(DELAY_MS / 1000 * 2)  # Delayed messages are stored again.
            self._wait_for(lambda: self._lag(daemon) == 0, FOLLOW_S, "the slave's lag is 0")
            sleep(max(0.0, started_s + TABLES_S - monotonic()))
            assert daemon.stop() == os.EX_OK, daemon.log.read_text()
            self._wait_for(self._has_queues, FOLLOW_S, "the slave's queues are complete")
            self.slave.end(signal.SIGTERM)
        self._compare()
        self._promote()

    def _served(self, up: ExitStack) -> Daemon:
        sizes = [word for name, value in SIZES.items() for word in ("--set", f"{name}={value}")]
        daemon = Daemon(
            self.store, *sizes, "--listen", self._endpoint,
            "--set", f"replication.listen={self._replication}", "--set", f"brokerName={BROKER}",
        )  # fmt: skip
        daemon.begin()
        up.callback(daemon.end)
        daemon.serve()
        return daemon

    @staticmethod
    def _wait_for(is_so: Any, limit_s: float, what: str) -> None:
        until = monotonic() + limit_s
        while not is_so():
            assert monotonic() < until, f"not within {limit_s:.0f} s: {what}"
            sleep(0.5)

    def _lag(self, daemon: Daemon) -> int:
        """Returns the bytes that the connected slave lacks; -1 without one."""
        with suppress(AssertionError):
            replicas = daemon.ask("replica", "status", "-o", "jsonl").rows[0]["replicas"]
            lags = [int(row["lag_bytes"]) for row in replicas if row["connected"]]
            return min(lags, default=-1)
        return -1

    # -- load ----------------------------------------------------------------------------------
    async def _create(self) -> None:
        async with AsyncClient(self._endpoint) as client:
            for topic, kind in TOPICS.items():
                await client.admin.create_topic(topic, queue_count=3, type_name=kind)

    async def _load(self) -> None:
        until = monotonic() + LOAD_S
        async with AsyncClient(self._endpoint, retry_ms=0) as client:
            while monotonic() < until:
                try:
                    await self._send(client)
                except ClientError:
                    self.figures["sends failed"] += 1
                    await asyncio.sleep(0.2)

    def _body(self) -> bytes:
        self._number += 1
        size = self._chance.choice((10, 200, 3_000, 40_000))
        return b"%d " % self._number + self._chance.randbytes(size)

    async def _send(self, client: AsyncClient) -> None:
        kind = self._chance.choice((PLAIN, PLAIN, KEYED, LATER, PAID))
        if kind == PLAIN:
            count = self._chance.randint(1, 16)
            await client.send_many([Message(PLAIN, self._body()) for _ in range(count)])
            self.sent[PLAIN] += count
        elif kind == PAID:
            is_paid = self._chance.random() < 0.7
            ending = Resolution.COMMIT if is_paid else Resolution.ROLLBACK
            half = Message(PAID, self._body(), producer_group="payers")
            await client.send_in_transaction(half, lambda receipt: ending)
            self.sent[PAID] += is_paid
        else:
            later = {"delay_ms": DELAY_MS} if kind == LATER else {"keys": [f"k{self._number}"]}
            await client.send(Message(kind, self._body(), **later))
            self.sent[kind] += 1

    # -- comparing -----------------------------------------------------------------------------
    def _queues(self, store: Path) -> dict[str, bytes]:
        """Returns the units of each queue; a file's unused end is cut off."""
        found: dict[str, bytes] = {}
        for path in sorted((store / CONSUME_QUEUE_DIRECTORY).rglob("*")):
            if path.is_file():
                name = str(path.parent.relative_to(store))
                found[name] = found.get(name, b"") + path.read_bytes()
        return {name: content.rstrip(b"\0") for name, content in found.items()}

    def _has_queues(self) -> bool:
        return self._queues(self.slave.store) == self._queues(self.store)

    def _compare(self) -> None:
        ours, theirs = (store / COMMIT_LOG_DIRECTORY for store in (self.store, self.slave.store))
        names = sorted(path.name for path in ours.iterdir())
        for name in names:
            mine, other = (ours / name).read_bytes(), (theirs / name).read_bytes()
            is_last = name == names[-1]
            assert (mine.rstrip(b"\0") == other.rstrip(b"\0")) if is_last else mine == other, name
            self.figures["log files equal"] += 1
        assert self._has_queues(), "queues differ"
        self.figures["queues equal"] += len(self._queues(self.store))

    def _promote(self) -> None:
        """Starts the slave's store as a master of RocketMQ, which reads all of it."""
        plan = Plan("read", (), SIZES)
        found: Counter[str] = Counter()
        for row in run_real(self._one, self._place / "promoted", self.slave.store, plan):
            found[row["from"]] += row["kind"] == "message"
        for topic, count in self.sent.items():
            assert found[topic] >= count, f"{topic}: {found[topic]} of {count} messages"
            self.figures["messages served after promotion"] += found[topic]
        self.figures["acknowledged"] += self.sent.total()


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Lets slaves follow and be promoted, as long as there is time; returns the figures.

    Errors   NotHere; AssertionError: a slave differs
    """
    one = real(VERSION)
    figures: Counter[str] = Counter()
    while budget.left():
        number = figures["stores"]
        way = Way(place / f"way{number}", one, budget.seed + number)
        way.go()
        figures += way.figures
        figures["stores"] += 1
        budget.progress(json.dumps(dict(figures)))
    return dict(figures)
