"""A store with the timer service, on a clock that a test moves.

async with timing() as desk:
    await desk.wait("a", 5_000)         a message that is due in five seconds
    await desk.pass_time(5_000)
    assert desk.bodies() == ["a"]
    await desk.killed()                 what kill -9 leaves, and a new process on it
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pocketmq.files.disk import Disk
from pocketmq.format.properties import encode_properties
from pocketmq.format.record import decode_record
from pocketmq.model.batch import Destination
from pocketmq.model.message import DELIVER_AT, StoredMessage
from pocketmq.model.reading import ReadRange
from pocketmq.model.step import Now
from pocketmq.model.system_topics import TIMER_TOPIC, QueuePlace, timed
from pocketmq.services.delay.timer import Timer
from pocketmq.store.message_store import MessageStore, open_store
from tests.kit.rows import Row, batch
from tests.kit.store_language import BORN_HOST, STORE_HOST, at_once, small_settings, until
from tests.sim.clock import FakeClock
from tests.sim.disk import SimDisk
from tests.sim.disk_image import Image

DIRECTORY = Path("/store")
SETTINGS: dict[str, Any] = {
    "commit_log_file_size_bytes": 1 << 18,
    "consume_queue_file_size_bytes": 2_000,
    "index_slot_count": 101,
    "index_entry_count_max": 2_000,
    "timer_slot_count": 4_096,
    "timer_log_file_size_bytes": 1_000,
}

ORDERS = QueuePlace("orders", 0)
TURNS_MAX = 20_000
"""Iterations of the loop after which a busy timer counts as endless."""


def no_lease(_: int) -> bool:
    """Returns that no lease is open."""
    return False


class TimingDesk:
    """A store, its timer, its clock and its disk."""

    def __init__(
        self, disk: Disk, clock: FakeClock, directory: Path, is_open: Callable[[int], bool],
        **settings: Any,
    ) -> None:  # fmt: skip
        self.disk = disk
        self.clock = clock
        self.directory = directory
        self.is_open = is_open
        self.settings = small_settings(directory, **(SETTINGS | settings))
        self.store: MessageStore
        self.timer: Timer

    async def open(self, *, runs: bool = True) -> None:
        """Opens the store, and begins the timer, whose work waits for `part` unless it `runs`."""
        self.store = await open_store(self.settings, self.clock, self.disk)
        await until(lambda: self.store.log.spare_base is None)
        self.timer = Timer(self.store, STORE_HOST, self.is_open)
        if runs:
            await self.run()

    async def close(self) -> None:
        """Stops cleanly."""
        await self.timer.close()
        await self.store.close()

    async def restarted(self) -> None:
        """Stops cleanly, and starts again."""
        await self.close()
        await self.open()

    async def killed(self, image: Image | None = None, *, runs: bool = True) -> None:
        """Starts again on what kill -9 leaves: all written bytes, without a clean stop.

        image   what a power cut left instead
        runs    as of `open`
        """
        assert isinstance(self.disk, SimDisk)
        before, image = self.store, image or self.disk.image.copy()
        await self.close()
        assert before is self.store
        self.disk = SimDisk(image)
        await self.open(runs=runs)

    async def wait(
        self, name: str, in_ms: int, *, topic: str = "orders", queue_id: int = 0,
        key: str | None = None, **more: str,
    ) -> None:  # fmt: skip
        """Puts a message that is due in some ms."""
        place = QueuePlace(topic, queue_id)
        await self.put_waiting(row_of(self, name, in_ms, place=place, key=key, **more))

    async def put_waiting(self, *rows: Row) -> None:
        """Puts messages into the timer's topic."""
        destination = Destination(TIMER_TOPIC, 0, STORE_HOST)
        self.store.timer.observe_clock(Now(self.clock.monotonic, self.clock.wall))
        await self.store.writing.put([(destination, batch(*rows))])
        await self.settled()

    async def settled(self) -> None:
        """Waits until the views contain everything visible."""
        await until(lambda: self.store.dispatched >= self.store.appended)

    async def run(self) -> None:
        """Runs the service until it waits for time to pass."""
        pauses = 0
        for _ in range(TURNS_MAX):
            now = Now(self.clock.monotonic, self.clock.wall)
            following = self.timer.step(now)
            is_later = following.at_ms is None or following.at_ms > now.monotonic_ms
            if following.mark is not None and following.at_ms is None:
                await following.mark.reached(following.value)
            elif is_later and following.at_ms is not None:
                lag = self.timer.lag
                if not lag:
                    break
                self.clock.advance(following.at_ms - now.monotonic_ms)
                pauses += 1
                if pauses > 100:
                    break
            await asyncio.sleep(0)
        else:
            raise AssertionError("it has work without end")
        await self.settled()

    async def part(self, count: int) -> None:
        """Runs only some steps of the service, which may stay in the middle of its work."""
        for _ in range(count):
            self.timer.step(Now(self.clock.monotonic, self.clock.wall))
            for _ in range(3):
                await asyncio.sleep(0)
        await self.settled()

    async def pass_time(self, ms: int, *, step_ms: int = 1_000) -> None:
        """Advances the clock and runs the service each second."""
        await self.run()
        end = self.clock.monotonic + ms
        while self.clock.monotonic < end:
            self.clock.advance(min(step_ms, end - self.clock.monotonic))
            await self.run()

    def messages(self, topic: str = "orders", queue_id: int = 0) -> list[StoredMessage]:
        """Returns the messages that were delivered to a queue."""
        lower, upper = self.store.reading.queue_range(topic, queue_id)
        found: list[StoredMessage] = []
        while lower < upper:
            wanted = ReadRange(topic, queue_id, lower, 1_024, 1 << 24)
            result = at_once(self.store.reading.pull(wanted))
            found += [decode_record(record) for record in result.records]
            lower = result.next_begin_offset
        return found

    def bodies(self, topic: str = "orders", queue_id: int = 0) -> list[str]:
        """Returns the bodies of the messages that were delivered to a queue."""
        return [message.body.decode() for message in self.messages(topic, queue_id)]


def row_of(
    desk: TimingDesk, name: str, in_ms: int, *, place: QueuePlace = ORDERS,
    key: str | None = None, **more: str,
) -> Row:  # fmt: skip
    """Returns a message in its waiting form, due in some ms."""
    deliver_ms = desk.clock.wall + in_ms
    key = f"KEY{name}" if key is None else key
    said = {DELIVER_AT: str(deliver_ms), **more}
    if key:
        said["UNIQ_KEY"] = key
    block = encode_properties(timed(place, deliver_ms).applied(said))
    keys, tag = more.get("KEYS", ""), more.get("TAGS", "")
    return Row(name.encode(), block, 0, desk.clock.wall, BORN_HOST, key, keys, tag)


@asynccontextmanager
async def timing(
    directory: Path = DIRECTORY,
    *,
    disk: Disk | None = None,
    clock: FakeClock | None = None,
    is_open: Callable[[int], bool] = no_lease,
    **settings: Any,
) -> AsyncIterator[TimingDesk]:
    """Opens a store and its timer for a block."""
    desk = TimingDesk(disk or SimDisk(), clock or FakeClock(), directory, is_open, **settings)
    await desk.open()
    if desk.store.tables.topics.find("orders") is None:
        desk.store.tables.topics.adopt("orders", 4)
    try:
        yield desk
    finally:
        await desk.close()
