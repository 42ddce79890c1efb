"""The way out under load: clients go from PocketMQ to a slave of RocketMQ, which becomes a master.

    follow    PocketMQ acknowledges what a slave of RocketMQ 5.5.0 has in memory; producers of the
              v2 and of the classic protocol send without a pause
    move      once the slave has the tables, PocketMQ stops; the slave's store is started as a
              master, with a name server and a proxy, and the producers get these addresses
    compare   everything that was acknowledged, by either broker, is in RocketMQ's store

Requires a JRE 17, and Maven or the jars.
"""

import asyncio
import json
import signal
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.peer.content import TOPIC
from bench.peer.rocketmq import QUEUE_COUNT, VERSION, sync_master
from harness.budget import Budget
from pocketmq.client import AsyncClient
from pocketmq.format.names import COMMIT_LOG_DIRECTORY, CONFIG_DIRECTORY, TOPICS_FILE
from tests.e2e.daemon import Daemon
from torture.moving_in import (
    Producer,
    bodies_of,
    classic,
    go_on,
    jars_here,
    status_of,
    v2,
    wait_for,
)
from torture.real_broker import Real, free_ports
from torture.slaves import BROKER, SIZES, Slave


class MoveOut:
    """PocketMQ, its slave, and the producers."""

    def __init__(self, place: Path, jars: Path) -> None:
        place.mkdir(parents=True)
        self._place = place
        self._jars = jars
        port, _ = free_ports()  # Ten ports; VIP channels are two below their broker's.
        self._endpoint, self._replication = f"127.0.0.1:{port + 2}", f"127.0.0.1:{port + 3}"
        given = [f"{name}={value}" for name, value in SIZES.items()]
        self._sizes = [word for one in given for word in ("--set", one)]
        one = Real(VERSION, jars, jars, frozenset())
        self._slave = Slave(one, place / "slave", self._endpoint, port + 8)
        self.figures: Counter[str] = Counter()

    def go(self) -> None:
        """Follows, moves and compares.

        Errors   AssertionError: a message is lost, or a step takes too long
        """
        with ExitStack() as up:
            up.callback(lambda: self._slave.end(signal.SIGKILL))
            daemon = self._served(up)
            asyncio.run(self._create())
            self._slave.start()
            wait_for(lambda: self._is_followed(daemon), "a slave is connected")
            producers = [
                Producer("v2", self._endpoint, v2),
                Producer("classic", self._endpoint, classic),
            ]
            for one in producers:
                one.start()
                up.callback(one.end)
            go_on(producers)
            wait_for(self._has_tables, "the slave has the tables")
            self._move(daemon, producers)
            for one in producers:
                self.figures[f"{one.name}: acknowledged"] = len(one.acknowledged)
        self._compare(producers)

    def _has_tables(self) -> bool:
        """Returns whether the slave has copied the topics, a minute after its start."""
        path = self._slave.store / CONFIG_DIRECTORY / TOPICS_FILE
        return path.exists() and f'"{TOPIC}"' in path.read_text("utf-8", "replace")

    @staticmethod
    def _is_followed(daemon: Daemon) -> bool:
        return any(one["connected"] for one in status_of(daemon).get("replicas", []))

    def _served(self, up: ExitStack) -> Daemon:
        settings = [
            f"replication.listen={self._replication}", f"brokerName={BROKER}",
            "replication.in_sync_replicas=2", "replication.count_legacy_acks=true",
        ]  # fmt: skip
        words = [word for one in settings for word in ("--set", one)]
        daemon = Daemon(self._place / "ours", *self._sizes, "--listen", self._endpoint, *words)
        daemon.begin()
        up.callback(daemon.end)
        daemon.serve()
        return daemon

    async def _create(self) -> None:
        async with AsyncClient(self._endpoint) as client:
            await client.admin.create_topic(TOPIC, queue_count=QUEUE_COUNT)

    def _move(self, daemon: Daemon, producers: list[Producer]) -> None:
        for one in producers:
            one.failed, one.gap_s = 0, 0.0
        assert daemon.stop() == 0, daemon.log.read_text()
        self._slave.end(signal.SIGTERM)
        store = self._slave.store
        settings = {
            **SIZES, "brokerRole": "ASYNC_MASTER", "inSyncReplicas": "1",
            "storePathRootDir": str(store), "storePathCommitLog": str(store / COMMIT_LOG_DIRECTORY),
        }  # fmt: skip
        with sync_master(self._jars, settings) as real:
            producers[0].target = real.target
            producers[1].target = f"127.0.0.1:{int(real.target.rpartition(':')[2]) - 3}"
            go_on(producers)
            for one in producers:
                one.end()
                self.figures[f"{one.name}: sends failed by the move"] = one.failed
                self.figures[f"{one.name}: ms without an acknowledgement"] = int(1e3 * one.gap_s)

    def _compare(self, producers: list[Producer]) -> None:
        daemon = Daemon(self._slave.store, *self._sizes, "--set", f"brokerName={BROKER}")
        with ExitStack() as up:
            daemon.begin()
            up.callback(daemon.end)
            daemon.serve()
            stored = asyncio.run(bodies_of(daemon.endpoint))
        lost = [body for one in producers for body in one.acknowledged if body not in stored]
        assert not lost, f"{len(lost)} of {len(stored)} messages are lost: {lost[:5]!r}"
        self.figures["messages stored"] = len(stored)


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Moves producers from PocketMQ to its slave, as long as there is time; returns the figures.

    Errors   NotHere; AssertionError: a message is lost
    """
    jars = jars_here()
    figures: Counter[str] = Counter()
    while budget.left():
        move = MoveOut(place / f"move{figures['moves']}", jars)
        move.go()
        figures += move.figures
        figures["moves"] += 1
        budget.progress(json.dumps(dict(figures)))
    return dict(figures)
