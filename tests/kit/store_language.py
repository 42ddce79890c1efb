"""Stores that a test drives in a few words: send, pull, kill.

    async with store_at(tmp_path / "s") as store:
        await store.send("orders", "a", "b", key="k")
        assert await store.pulled("orders") == ["a", "b"]
        image = store.killed(tmp_path / "image")        what kill -9 would leave now
    async with store_at(image) as store: …

Files are small, so that everything rolls; time stands still; the disk does not wait.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pocketmq.files.disk import Disk
from pocketmq.format.addresses import host_from_text
from pocketmq.format.names import COMMIT_LOG_DIRECTORY, CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY
from pocketmq.format.properties import encode_properties
from pocketmq.format.record import decode_record
from pocketmq.model.batch import Destination, PutResult
from pocketmq.model.message import KEYS, TAGS, UNIQUE_KEY
from pocketmq.model.reading import KeyRange, PullResult, PullStatus, ReadRange
from pocketmq.model.step import Now
from pocketmq.services.retention import Retention
from pocketmq.store.message_store import MessageStore, open_store
from pocketmq.store.read.cold_read import NowOrLater
from pocketmq.store.settings import FLUSH_SYNC, StoreSettings
from tests.kit.golden_log import files_below
from tests.kit.rows import Row, batch
from tests.sim.clock import FakeClock
from tests.sim.quick_disk import QuickDisk, copied

STORE_HOST = host_from_text("127.0.0.1:10911")
BORN_HOST = host_from_text("10.0.0.7:4711")
BORN_MS = 1_700_000_000_000
VIEWS = (CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY)
END_OF_TIME_MS = 2**62
UNTIL_S = 30.0
"""Time after which a condition that a test waits for counts as missed."""


async def until(condition: Callable[[], bool]) -> None:
    """Runs iterations of the event loop until a condition holds.

    Errors   TimeoutError: it does not hold after UNTIL_S
    """
    async with asyncio.timeout(UNTIL_S):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in threads too
            await asyncio.sleep(0)


async def turns(count: int = 5) -> None:
    """Runs some iterations of the event loop."""
    for _ in range(count):
        await asyncio.sleep(0)


def small_settings(directory: Path, **changes: Any) -> StoreSettings:
    """Settings of a store whose files roll after a few messages."""
    fields: dict[str, Any] = {
        "directory": directory,
        "commit_log_file_size_bytes": 4096,
        "consume_queue_file_size_bytes": 200,
        "index_slot_count": 8,
        "index_entry_count_max": 16,
        "time_zone": "UTC",
    }
    return StoreSettings(**(fields | changes))


def put_row(body: str | bytes, *, key: str = "", tag: str = "", unique_key: str = "") -> Row:
    """A message to put; several keys are joined by spaces."""
    pairs = {UNIQUE_KEY: unique_key, KEYS: key, TAGS: tag}
    block = encode_properties({name: value for name, value in pairs.items() if value})
    content = body if isinstance(body, bytes) else body.encode()
    return Row(content, block, 0, BORN_MS, BORN_HOST, unique_key, key, tag)


def at_once(found: NowOrLater[PullResult]) -> PullResult:
    """Returns the result of a pull that must not have to wait."""
    assert isinstance(found, PullResult)
    return found


class TalkingStore:
    """A message store, its clock and its disk."""

    def __init__(self, store: MessageStore, clock: FakeClock, disk: Disk) -> None:
        self.store = store
        self.clock = clock
        self.disk = disk

    @property
    def directory(self) -> Path:
        """The store's directory."""
        return self.store.settings.directory

    @property
    def quick_disk(self) -> QuickDisk:
        """The store's disk, which must be a QuickDisk."""
        assert isinstance(self.disk, QuickDisk)
        return self.disk

    async def send(
        self,
        topic: str,
        *bodies: str | bytes,
        queue_id: int = 0,
        wait: bool = True,
        system_flag: int = 0,
        **words: str,
    ) -> PutResult:
        """Puts one message, or several as a batch; words are those of `put_row`."""
        rows = [put_row(body, **words) for body in bodies]
        destination = Destination(topic, queue_id, STORE_HOST, system_flag)
        (result,) = await self.store.writing.put([(destination, batch(*rows))], wait=wait)
        return result

    async def settled(self) -> None:
        """Waits until the views contain everything visible."""
        is_sync = self.store.settings.flush == FLUSH_SYNC
        visible = self.store.flushed if is_sync else self.store.appended
        await until(lambda: self.store.dispatched >= visible)

    async def stocked(self) -> None:
        """Waits until the next log file is made; a damaged store makes none."""
        if self.store.damage is None:
            await until(lambda: self.store.log.spare_base is None)

    def pull(self, topic: str, queue_offset: int, *, queue_id: int = 0) -> PullResult:
        """Pulls at most 7 messages from an offset on."""
        return at_once(
            self.store.reading.pull(ReadRange(topic, queue_id, queue_offset, 7, 1 << 20))
        )

    async def pulled(self, topic: str, queue_id: int = 0) -> list[str]:
        """Returns the bodies of all messages of a queue."""
        await self.settled()
        return queue_bodies(self.store, topic, queue_id)

    async def found(self, topic: str, key: str, *, index_type: str = "") -> list[str]:
        """Returns the bodies of all messages with a key, newest first."""
        await self.settled()
        wanted = KeyRange(topic, key, 999, index_type=index_type)
        result = await self.store.reading.query(wanted)
        assert result.complete
        return [message.body.decode() for message in result.messages]

    def killed(self, to: Path) -> Path:
        """Copies the directory as kill -9 would leave it now; returns the copy."""
        return copied(self.directory, to)


def queue_bodies(
    store: MessageStore, topic: str, queue_id: int = 0, *, begin: int = 0
) -> list[str]:
    """Returns the bodies of a queue from an offset on; asserts their queue offsets."""
    lower, upper = store.reading.queue_range(topic, queue_id)
    position = max(lower, begin)
    bodies: list[str] = []
    while position < upper:
        result = at_once(store.reading.pull(ReadRange(topic, queue_id, position, 7, 1 << 20)))
        assert result.status is PullStatus.FOUND
        messages = [decode_record(record) for record in result.records]
        assert [m.queue_offset for m in messages] == list(range(position, result.next_begin_offset))
        bodies += [message.body.decode() for message in messages]
        position = result.next_begin_offset
    return bodies


@asynccontextmanager
async def store_at(
    directory: Path,
    *,
    clock: FakeClock | None = None,
    disk: Disk | None = None,
    **settings: Any,
) -> AsyncIterator[TalkingStore]:
    """Opens a store of small files, its next log file made, and closes it in the end."""
    clock, disk = clock or FakeClock(), disk or QuickDisk()
    store = await open_store(small_settings(directory, **settings), clock, disk)
    talking = TalkingStore(store, clock, disk)
    try:
        await talking.stocked()
        yield talking
    finally:
        await store.close()


def view_files(directory: Path) -> dict[str, bytes]:
    """The content of every file of the views, by its path in the store."""
    return {
        f"{view}/{name}": content
        for view in VIEWS
        for name, content in files_below(directory / view).items()
    }


async def rebuilt_views(directory: Path, scratch: Path, **settings: Any) -> dict[str, bytes]:
    """The files of the views, built anew from the log of a closed store."""
    shutil.copytree(directory / COMMIT_LOG_DIRECTORY, scratch / COMMIT_LOG_DIRECTORY)
    async with store_at(scratch, **settings):
        pass
    return view_files(scratch)


async def pauses_of(retention: Retention, now: Now, *, longest_ms: int) -> list[int]:
    """Runs retention until it asks for a longer pause; returns its pauses."""
    pauses: list[int] = []
    while not pauses or pauses[-1] <= longest_ms:
        following = retention.step(now)
        if following.mark is not None:
            await following.mark.reached(following.value)
        else:
            assert following.at_ms is not None
            pauses.append(following.at_ms - now.monotonic_ms)
    return pauses
