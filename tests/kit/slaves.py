"""A leader on a simulated disk with its port of slaves, and slaves that a test plays.

async with serving(InSync(2, counts_legacy=True), flush="sync") as pair:
    slave = await pair.slave()                 connected, and its first report was read
    sending = await pair.send(b"a")
    await slave.copy_upto(pair.broker.store.appended)
    assert await sending is PutStatus.OK
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_network
from pathlib import Path
from struct import Struct
from typing import Any, Final

from pocketmq.model.batch import PutStatus
from pocketmq.model.step import Now
from pocketmq.rpc.replication.slave_port import Networks, SlavePort
from pocketmq.services.replication.confirming import InSync
from pocketmq.services.replication.follower import REPORT as OWN_REPORT
from pocketmq.services.replication.leader import Leader
from tests.kit.store_broker import StoreBroker, store_broker
from tests.kit.store_language import turns, until

HEAD, REPORT = Struct(">qi"), Struct(">q")
LOCAL: Final = (ip_network("127.0.0.0/8"),)
LAG_MAX: Final = 1 << 16
TIMEOUT_MS: Final = 3_000
"""Default time in which followers must have a message."""


class Slave:
    """A slave's end of a connection, and the log that it has."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.log = b""
        self.begin = 0

    def report(self, offset: int) -> None:
        self.writer.write(REPORT.pack(offset))

    async def frame(self) -> tuple[int, bytes]:
        offset, size_bytes = HEAD.unpack(await self.reader.readexactly(HEAD.size))
        return offset, await self.reader.readexactly(size_bytes)

    async def take_upto(self, end: int) -> None:
        """Reads the log up to an offset, and reports nothing."""
        while self.begin + len(self.log) < end:
            await self._take()

    async def copy_upto(self, end: int) -> None:
        """Reads frames, and reports each, until the log reaches an offset."""
        while self.begin + len(self.log) < end:
            self.report(await self._take())

    async def _take(self) -> int:
        """Reads a frame, and returns its end."""
        offset, content = await self.frame()
        if not self.log:
            self.begin = offset
        assert offset == self.begin + len(self.log)
        self.log += content
        return offset + len(content)

    async def is_cut(self) -> bool:
        """Waits until the leader has closed the connection; ignores frames before that."""
        while await self.reader.read(1 << 16):
            pass
        return self.reader.at_eof()


class Pair:
    """A leader, its port, and the store behind both."""

    def __init__(self, broker: StoreBroker, leader: Leader, port: SlavePort) -> None:
        self.broker, self.leader, self.port = broker, leader, port
        self.writers: list[asyncio.StreamWriter] = []

    async def slave(self, first: int | None = 0) -> Slave:
        """Connects a slave, which makes its first report."""
        slave = Slave(*await asyncio.open_connection("127.0.0.1", self.port.number))
        self.writers.append(slave.writer)
        if first is not None:
            slave.report(first)
            await until(lambda: any(row.acknowledged >= 0 for row in self.leader.rows()))
        return slave

    async def send(self, body: bytes) -> "asyncio.Task[PutStatus]":
        """Begins to put a message; its status is the task's result."""

        async def put() -> PutStatus:
            return (await self.broker.put("orders", body)).status

        before = self.broker.store.appended
        task = asyncio.create_task(put())
        await until(lambda: self.broker.store.appended > before)
        if self.broker.store.settings.is_sync:
            await until(lambda: self.broker.store.flushed == self.broker.store.appended)
        return task

    def pass_time(self, by_ms: int) -> None:
        """Advances the clock and calls the leader's step."""
        clock = self.broker.clock
        clock.advance(by_ms)
        self.leader.step(Now(clock.monotonic_ms(), clock.wall_ms()))

    async def late(self) -> None:
        """Advances the clock beyond the time limit of an acknowledgement."""
        self.pass_time(TIMEOUT_MS + 1)
        clock = self.broker.clock
        self.broker.store.writing.durability.step(Now(clock.monotonic_ms(), clock.wall_ms()))
        await turns(5)

    @property
    def visible(self) -> int:
        return self.broker.store.marks.visible().value

    @property
    def log(self) -> bytes:
        """The flushed log."""
        return self.broker.store.log.read(0, self.broker.store.flushed)


class Own:
    """A PocketMQ follower that a test plays, without a socket."""

    def __init__(self, pair: Pair, name: str, port: int) -> None:
        self.leader = pair.leader
        self.stream = self.leader.admit(f"127.0.0.1:{port}", name, 0)

    async def take(self) -> None:
        """Receives the whole log, and all tables."""
        while (piece := self.leader.next_piece(self.stream)) is not None:
            self.leader.said(self.stream, piece)
        while await self.leader.table(self.stream):
            pass

    def report(self, end: int) -> None:
        self.leader.receive(self.stream, OWN_REPORT.pack(end, self.stream.cursor.seq))


@asynccontextmanager
async def serving(
    in_sync: InSync | None = None,
    *,
    allowed: Networks = LOCAL,
    directory: Path | None = None,
    **settings: Any,
) -> AsyncIterator[Pair]:
    """Opens a store and the port of its slaves; ends their connections, then closes both."""
    in_sync = in_sync or InSync()
    settings["in_sync_replicas"] = in_sync.replicas
    async with store_broker(directory, **settings) as broker:
        leader = Leader(broker.store, LAG_MAX, in_sync)
        port = SlavePort(allowed)
        await port.start(leader, "127.0.0.1:0")
        made = Pair(broker, leader, port)
        try:
            yield made
        finally:
            await port.close()
            for writer in made.writers:
                writer.transport.abort()
                with suppress(ConnectionError):
                    await writer.wait_closed()
