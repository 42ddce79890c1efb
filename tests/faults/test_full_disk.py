"""D4: a disk that fills and has room again, by the store's own data and by a stranger's.

While it is full sends are refused, everything else goes on: reads, consumer offsets, an orderly
stop. No acknowledged message is lost, no page is written that has no block (a real disk answers
that with SIGBUS), no half-made file stays, and sends resume by themselves.
"""

import asyncio
import errno
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from pocketmq.client import AsyncClient, ClientError, Message
from pocketmq.files.disk import Disk
from pocketmq.model.errors import DiskFull
from pocketmq.store.message_store import MessageStore, open_store
from tests.e2e.daemon import Daemon, is_busy, messages_of
from tests.kit.store_language import TalkingStore, queue_bodies, small_settings, until
from tests.sim.clock import FakeClock, at
from tests.sim.failing_os import FailingOs

CYCLES = 24
"""Fillings of the small store; each meets the end of room at another call.
`scripts/torture/run full` fills real file systems for long."""
KIB = 1024
RESUME_S = 5.0
REFUSED_S = 1.5
FILE_SIZE = 1024 * KIB
SEED = 20261121
SETTINGS = (
    *("--set", f"mappedFileSizeCommitLog={FILE_SIZE}", "--set", "mappedFileSizeConsumeQueue=20000"),
    *("--set", "maxHashSlotNum=5000", "--set", "maxIndexNum=20000"),
    *("--set", "maxMessageSize=262144", "--set", "retention.mode=off"),
    *("--set", "retention.disk_margin_bytes=0"),
)
FILES = {
    "commit_log_file_size_bytes": 32 * KIB,
    "consume_queue_file_size_bytes": 4_000,
    "index_entry_count_max": 200,
}
"""In proportion to each other about as by default: one page of a queue serves five log files."""
ROOM = 128 * KIB
"""At most half goes to a stranger: the reserve, a log file and pages of views have room again."""
STATE = 'state="disk_full"} 1.0'
TMPFS_SIZE = "64m"


# -- in this process -------------------------------------------------------------------------------
class FilledStore:
    """A store on a disk of some bytes, and what it acknowledged."""

    def __init__(self, system: FailingOs, store: MessageStore, clock: FakeClock) -> None:
        self.system, self.store, self.clock = system, store, clock
        self.talking = TalkingStore(store, clock, Disk())
        self.acknowledged: list[str] = []
        self.read_count = 0

    async def fill(self, dice: random.Random) -> None:
        """Sends until the disk is full."""
        while True:
            body = f"{len(self.acknowledged)}." + "x" * dice.randrange(1_500)
            try:
                result = await self.talking.send("T", body, key=f"k{len(self.acknowledged)}")
            except DiskFull:
                return
            assert result.queue_offset == len(self.acknowledged)
            self.acknowledged.append(body)
            if len(self.acknowledged) % 100 == 0:
                assert self.system.room_bytes >= 0

    async def resume(self) -> None:
        """Returns when a send succeeds; time passes a second at a time, as in the loops."""
        for _ in range(int(RESUME_S)):
            self.clock.advance(1_000)
            self.store.writing.allocation.step(at(self.clock.monotonic_ms()))
            await until(lambda: self.store.writing.allocation._job is None)
            await until(
                lambda: (
                    not self.store.views.dispatcher.is_blocked or not self.store.writing.is_writable
                )
            )
            if self.store.writing.is_writable:
                await self.fill_one()
                return
        pytest.fail(f"still {self.store.state} with room for {self.system.room_bytes} bytes")

    async def fill_one(self) -> None:
        """Sends one message that must be taken."""
        await self.talking.send("T", "resumed", key="r")
        self.acknowledged.append("resumed")

    async def read(self) -> None:
        """Reads what is in the queue and was not read before; a start reads it all again."""
        found = queue_bodies(self.store, "T", begin=self.read_count)
        assert found == self.acknowledged[self.read_count :][: len(found)]
        self.read_count += len(found)


async def fill_and_free(system: FailingOs, directory: Path, cycles: int, seed: int) -> int:
    """Fills a store's disk and free it again and again; returns how many messages it took."""
    dice, clock = random.Random(seed), FakeClock()
    store = await open_store(small_settings(directory, **FILES), clock, Disk())
    filled = FilledStore(system, store, clock)
    await filled.talking.stocked()
    await store.tables.offsets.commit("G", "T", 0, 0)
    try:
        for number in range(cycles):
            system.stranger_bytes = 0
            room = ROOM + dice.randrange(12 * KIB, 160 * KIB)
            system.capacity_bytes = system.used_bytes + room
            system.stranger_bytes = dice.randrange(64 * KIB)
            if number:
                await filled.resume()
            await filled.fill(dice)
            assert not store.writing.is_writable
            assert store.state == "disk_full"
            await filled.read()
            taken = max(system.room_bytes, 0)  # Another program fills what the reserve gave back.
            system.stranger_bytes += taken
            await store.tables.offsets.commit("G", "T", 0, number)
            system.stranger_bytes -= taken
            assert system.room_bytes >= 0
    finally:
        await store.close()
    assert system.room_bytes >= 0
    assert not store.failure.done()
    await reopened(directory, filled.acknowledged, cycles - 1)
    return len(filled.acknowledged)


async def reopened(directory: Path, acknowledged: list[str], offset: int) -> None:
    """Opens the store again on the disk that is still full: all is there."""
    store = await open_store(small_settings(directory, **FILES), FakeClock(), Disk())
    try:
        await until(lambda: store.dispatched >= store.flushed)
        assert queue_bodies(store, "T") == acknowledged
        assert store.tables.offsets.find("G", "T", 0) == offset
    finally:
        await store.close()


def strays(directory: Path) -> list[str]:
    """Returns what no store should leave behind."""
    found = [path for path in directory.rglob("*") if path.is_file()]
    return [str(p) for p in found if p.suffix == ".draft" or p.stat().st_size == 0]


@pytest.mark.knob("store.reserve_size_bytes")
def test_a_small_disk_filled_again_and_again(memory: Path) -> None:
    system = FailingOs(memory / "store")
    print(f"repro: seed {SEED}")
    with pytest.MonkeyPatch.context() as patch:
        system.under_disk(patch)
        count = asyncio.run(fill_and_free(system, memory / "store", CYCLES, SEED))
    assert count > CYCLES * 5
    assert strays(memory / "store") == []


# -- the broker on a file system of its own --------------------------------------------------------
@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system in memory of 64 MiB."""
    if os.geteuid() != 0:
        pytest.skip("root: it mounts a file system of its own")
    where = tmp_path / "small"
    where.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_SIZE}", "tmpfs", str(where)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mount: {done.stderr.strip()}")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


class Producer:
    """Sends to a broker until it is refused."""

    def __init__(self, broker: Daemon, client: AsyncClient) -> None:
        self.broker, self.client = broker, client
        self.acknowledged: dict[str, tuple[int, int]] = {}

    async def send(self, size: int) -> bool:
        """Sends one message; False when it is refused for want of room."""
        try:
            receipts = await self.client.send_many([Message("T", os.urandom(size), keys=["k"])])
        except ClientError as error:
            if error.reason not in ("DiskFull", "DiskAboveLimit", "DiskNearlyFull"):
                raise
            return False
        for receipt in receipts:
            self.acknowledged[receipt.message_id] = (receipt.queue_id, receipt.queue_offset)
        return True

    async def fill(self, size: int) -> None:
        """Sends until nothing has been taken for longer than a retry takes."""
        taken_at = monotonic()
        while monotonic() - taken_at < REFUSED_S:
            if await self.send(size):
                taken_at = monotonic()
            else:
                await asyncio.sleep(0.1)

    async def resume(self) -> float:
        """Returns after how many seconds a whole new file of messages has been taken."""
        begun, count = monotonic(), 0
        while count * 200_000 < 2 * FILE_SIZE:
            assert monotonic() - begun < RESUME_S * (4 if is_busy() else 1), "it does not resume"
            if await self.send(200_000):
                count += 1
            else:
                await asyncio.sleep(0.1)
        return monotonic() - begun

    async def read(self) -> set[str]:
        """Returns the ids of all messages."""
        queues = {queue_id for queue_id, _ in self.acknowledged.values()}
        found = [await messages_of(self.client, "T", queue_id) for queue_id in queues]
        return {message.unique_key for messages in found for message in messages}


async def fill_with(broker: Daemon, where: Path) -> dict[str, tuple[int, int]]:
    """Fills it by a stranger, free it, fill it by messages; returns what was acknowledged."""
    async with AsyncClient(broker.endpoint, retry_ms=0) as client:
        producer = Producer(broker, client)
        assert await producer.send(10_000)
        for _ in range(2):
            stranger = where / "stranger"
            take_all(stranger)
            await producer.fill(20_000)
            assert await producer.read() == set(producer.acknowledged)
            assert broker.page("/readyz").status == 200
            assert STATE in broker.page("/metrics").text
            take_all(stranger)
            assert not await producer.send(200_000)
            stranger.unlink()
            print(f"resumed after {await producer.resume():.1f} s")
        await producer.fill(100_000)
        assert await producer.read() == set(producer.acknowledged)
        resize(where, "96m")
        print(f"resumed after {await producer.resume():.1f} s")
        take_all(where / "stranger")
        await producer.fill(100_000)
        return producer.acknowledged


def resize(where: Path, size: str) -> None:
    """Gives a file system in memory another size."""
    subprocess.run(["mount", "-o", f"remount,size={size}", str(where)], check=True)


def take_all(path: Path) -> None:
    """Takes every byte that is left of a file system."""
    with path.open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


async def all_of(broker: Daemon, acknowledged: dict[str, tuple[int, int]]) -> set[str]:
    async with AsyncClient(broker.endpoint, retry_ms=0) as client:
        producer = Producer(broker, client)
        producer.acknowledged = acknowledged
        return await producer.read()


def beside(where: Path, broker: Daemon) -> Daemon:
    """Puts a broker's log outside the file system that is to be filled."""
    broker.log = where.with_name("broker.log")
    return broker


def test_a_small_file_system_filled_by_a_stranger(small: Path) -> None:
    store = small / "store"
    with beside(small, Daemon(store, *SETTINGS)) as broker:
        broker.ask("topic", "create", "T", "--queues", "2")
        acknowledged = asyncio.run(fill_with(broker, small))
        assert broker.stop() == 0
    assert len(acknowledged) > 300
    assert strays(store) == []
    with beside(small, Daemon(store, *SETTINGS)) as broker:
        assert asyncio.run(all_of(broker, acknowledged)) == set(acknowledged)
