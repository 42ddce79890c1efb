"""The way in under load: clients go from a master of RocketMQ to PocketMQ, which followed it.

    follow    a SYNC_MASTER 5.5.0 acknowledges what PocketMQ has on its disk; producers of the v2
              and of the classic protocol send without a pause
    cut       PocketMQ stands still until the master ends its connection, and then goes on
    kill      the master is killed; PocketMQ is promoted, and the producers get its address
    compare   everything that was acknowledged, by either broker, is read from PocketMQ

Requires a JRE 17, and Maven or the jars.
"""

import asyncio
import json
import signal
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any, Final

import grpc

from bench.peer.classic import frame, send_fields
from bench.peer.content import TOPIC, Content, v2_request
from bench.peer.rocketmq import CLIENT_ID, POM, QUEUE_COUNT, SEND, VERSION, is_sent, sync_master
from harness.budget import Budget, NotHere
from harness.process import Failed, ended, need
from pocketmq.client import AsyncClient, PullQuery
from pocketmq.wire.remoting import Command, CommandReader
from tests.e2e.daemon import Daemon
from torture.real_broker import FETCH_S, JARS

SILENCE_S: Final = 6.0
"""Silence of a slave after which the master ends its connection; 20 s by default."""
SETTINGS: Final = {
    "mappedFileSizeCommitLog": str(4 << 20), "haHousekeepingInterval": str(int(SILENCE_S * 1_000)),
}  # fmt: skip
STEP: Final = 50
"""Messages that each producer has acknowledged between two events."""
LIMIT_S: Final = 240.0
CALL_S: Final = 8.0
PAUSE_S: Final = 0.02
READ_SIZE: Final = 1 << 16
PULLED_MAX: Final = 1_000

Send = Callable[[bytes], bool]
"""Sends a body; returns whether it was acknowledged."""


class Producer(Thread):
    """Sends messages, one after the other, to the broker at `target`.

    connect   returns a function that sends to an address
    """

    def __init__(self, name: str, target: str, connect: Callable[[ExitStack, str], Send]) -> None:
        super().__init__(name=name, daemon=True)
        self.target = target
        self.acknowledged: list[bytes] = []
        self.failed = 0
        self.gap_s = 0.0
        """Longest time between two acknowledgements."""
        self._connect = connect
        self._over = Event()
        self._number = 0

    def run(self) -> None:
        """Sends until `end`; connects again after an error, and to a new target."""
        last_s = monotonic()
        while not self._over.is_set():
            target = self.target
            with ExitStack() as stack, suppress(OSError, grpc.RpcError):
                send = self._connect(stack, target)
                while not self._over.is_set() and self.target == target:
                    self._number += 1
                    self.failed += 1  # Until it is acknowledged.
                    body = f"{self.name} {self._number}".encode()
                    if not send(body):
                        break
                    self.failed -= 1
                    self.acknowledged.append(body)
                    now_s = monotonic()
                    self.gap_s, last_s = max(self.gap_s, now_s - last_s), now_s
                    sleep(PAUSE_S / 4)
            sleep(PAUSE_S)

    def end(self) -> None:
        """Ends the producer."""
        self._over.set()
        self.join(LIMIT_S)
        assert not self.is_alive(), f"{self.name} hangs"


def v2(stack: ExitStack, target: str) -> Send:
    """Connects a producer of the v2 protocol."""
    channel = stack.enter_context(grpc.insecure_channel(target))
    call = channel.unary_unary(SEND)

    def send(body: bytes) -> bool:
        request = v2_request([Content(body, "TagA", ("k",), body.hex().upper().zfill(34))])
        return is_sent(call(request, timeout=CALL_S, metadata=((CLIENT_ID, "moving"),)))

    return send


def classic(stack: ExitStack, target: str) -> Send:
    """Connects a producer of the classic protocol."""
    host, _, port = target.rpartition(":")
    connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=CALL_S))

    def send(body: bytes) -> bool:
        fields = send_fields(len(body) % QUEUE_COUNT, "TAGS\x01TagA\x02", is_batch=False)
        connection.sendall(frame(310, {**fields, "n": "real"}, body))
        reader = CommandReader(lambda code: 0)
        while True:
            content = connection.recv(READ_SIZE)
            if not content:
                raise ConnectionResetError("the broker closed the connection")
            for found in reader.receive(content):
                assert isinstance(found, Command)
                return found.code == 0

    return send


class Move:
    """A master of RocketMQ, PocketMQ, and the producers."""

    def __init__(self, place: Path, jars: Path) -> None:
        place.mkdir(parents=True)
        self._store = place / "ours"
        self._jars = jars
        self.figures: Counter[str] = Counter()

    def go(self) -> None:
        """Follows, cuts, kills, promotes and compares.

        Errors   AssertionError: a message is lost, or a step takes too long
        """
        with ExitStack() as up:
            real = up.enter_context(sync_master(self._jars, SETTINGS))
            broker = f"127.0.0.1:{int(real.target.rpartition(':')[2]) - 3}"
            sizes = f"store.commit_log_file_size_bytes={SETTINGS['mappedFileSizeCommitLog']}"
            leader = f"replication.leader=rocketmq://{broker}"
            daemon = Daemon(
                self._store, "--set", sizes, "--set", leader, "--set", "brokerName=real"
            )
            daemon.begin()
            up.callback(daemon.end)
            daemon.serve()
            producers = [Producer("v2", real.target, v2), Producer("classic", broker, classic)]
            wait_for(lambda: bool(status_of(daemon).get("connected")), "it follows")
            for one in producers:
                one.start()
                up.callback(one.end)
            go_on(producers)
            self._cut(daemon, producers)
            self._move(daemon, real.process, producers)
            for one in producers:
                one.end()
                self.figures[f"{one.name}: acknowledged"] = len(one.acknowledged)
            stored = asyncio.run(bodies_of(daemon.endpoint))
            lost = [body for one in producers for body in one.acknowledged if body not in stored]
            assert not lost, f"{len(lost)} of {len(stored)} messages are lost: {lost[:5]!r}"
            self.figures["messages stored"] = len(stored)
            assert daemon.stop() == 0, daemon.log.read_text()

    def _cut(self, daemon: Daemon, producers: list[Producer]) -> None:
        """Lets the master end the connection, and PocketMQ connect again."""
        daemon.signal(signal.SIGSTOP)
        sleep(1.5 * SILENCE_S)
        daemon.signal(signal.SIGCONT)
        go_on(producers)
        for one in producers:
            self.figures[f"{one.name}: sends failed by the cut"] = one.failed
            one.failed, one.gap_s = 0, 0.0

    def _move(self, daemon: Daemon, master: Any, producers: list[Producer]) -> None:
        """Kills the master under load, promotes PocketMQ, and gives the producers its address."""
        killed_s = monotonic()
        master.kill()
        master.wait()
        done = daemon.ask("replica", "promote", "--force", "--yes")
        assert done.code == 0, done.err
        wait_for(lambda: status_of(daemon).get("role") == "leader", "it leads")
        self.figures["ms from the kill to the promotion"] = int(1_000 * (monotonic() - killed_s))
        for one in producers:
            one.target = daemon.endpoint
        go_on(producers)
        for one in producers:
            self.figures[f"{one.name}: sends failed by the move"] = one.failed
            self.figures[f"{one.name}: ms without an acknowledgement"] = int(1_000 * one.gap_s)


def go_on(producers: list[Producer]) -> None:
    """Returns once each producer has STEP more messages acknowledged."""
    for one in producers:
        goal = len(one.acknowledged) + STEP
        wait_for(lambda: len(one.acknowledged) >= goal, f"{one.name} sends")  # noqa: B023


def wait_for(is_so: Callable[[], bool], what: str) -> None:
    """Waits until a condition holds.

    Errors   AssertionError: it takes too long
    """
    until = monotonic() + LIMIT_S
    while not is_so():
        assert monotonic() < until, f"not within {LIMIT_S:.0f} s: {what}"
        sleep(0.02)


def status_of(daemon: Daemon) -> dict[str, Any]:
    """Returns the state of a broker's replication; {} if it does not answer."""
    done = daemon.ask("replica", "status", "-o", "jsonl")
    found: dict[str, Any] = done.rows[0] if done.code == 0 else {}
    return found


async def bodies_of(endpoint: str) -> set[bytes]:
    """Returns the bodies of all messages of the topic."""
    found: set[bytes] = set()
    async with AsyncClient(endpoint) as client:
        for queue in (await client.admin.describe_topic(TOPIC)).queues:
            at = queue.min_offset
            while at < queue.max_offset:
                pulled = await client.pull(
                    PullQuery(TOPIC, queue.queue_id, at, max_messages=PULLED_MAX)
                )
                assert pulled.messages, f"queue {queue.queue_id} at {at}: nothing is pulled"
                found |= {message.body for message in pulled.messages}
                at = pulled.messages[-1].queue_offset + 1
    return found


def jars_here() -> Path:
    """Returns the jars of RocketMQ with its proxy; Maven fetches them the first time.

    Errors   NotHere
    """
    need("java", "install a JRE 17")
    jars = JARS / VERSION / "proxy"
    if not (jars / f"rocketmq-proxy-{VERSION}.jar").exists():
        need("mvn", f"install Maven, which fetches {jars}")
        command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
        try:
            ended([*command, f"-DoutputDirectory={jars}"], timeout_s=FETCH_S)
        except Failed as why:
            raise NotHere(str(why)) from why
    return jars


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Moves producers from a master to PocketMQ, as long as there is time; returns the figures.

    Errors   NotHere; AssertionError: a message is lost
    """
    jars = jars_here()
    figures: Counter[str] = Counter()
    while budget.left():
        move = Move(place / f"move{figures['moves']}", jars)
        move.go()
        figures += move.figures
        figures["moves"] += 1
        budget.progress(json.dumps(dict(figures)))
    return dict(figures)
