"""A small store in memory that a test damages, opens and reads as a whole.

    stock = await stocked(file_size=16_384, count=200, property_crc=True)
    image = stock.image()                         a copy to damage
    write(image, path, position, content)
    seen = await stock.opened(image)              open, read everything, look up every key, close
    assert not stock.complaints(seen)             no wrong byte, no silent loss

A case costs about 10 ms.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pocketmq.format.record import decode_record
from pocketmq.model.errors import BrokerError, Corruption, MessageDamaged, StoreDamaged
from pocketmq.model.reading import KeyRange, PullResult, PullStatus, ReadRange
from pocketmq.store.message_store import MessageStore, open_store
from pocketmq.store.read.cold_read import value_of
from pocketmq.store.settings import StoreSettings
from tests.kit.store_language import TalkingStore, at_once, small_settings
from tests.sim.clock import FakeClock
from tests.sim.disk import SimDisk
from tests.sim.disk_image import File, Image

ROOT = Path("/sim/store")
KEYS = 20
KEYS_LOOKED_UP = 4
QUEUES = (("orders", 0), ("orders", 1), ("other", 0))
GROUP = "readers"
HANG_SECONDS = 2.0
MOMENTS_MAX = 10_000
"""Calls of the disk after which one read counts as endless."""

QueueKey = tuple[str, int]


@dataclass(repr=False)
class Seen:
    """Results of a start and of reading everything.

    refused    why the store did not open
    damaged    why it opened and took nothing
    served     records by queue and queue offset
    reported   (queue, queue offset) of what was answered with Corruption
    answers    bodies by key, and whether the answer reports that it is complete
    escaped    an error that is no BrokerError
    """

    refused: BrokerError | None = None
    damaged: StoreDamaged | None = None
    served: dict[QueueKey, dict[int, bytes]] = field(default_factory=dict)
    ranges: dict[QueueKey, tuple[int, int]] = field(default_factory=dict)
    reported: dict[tuple[QueueKey, int], MessageDamaged] = field(default_factory=dict)
    answers: dict[str, tuple[list[str], bool]] = field(default_factory=dict)
    sent: str = ""
    escaped: str = ""
    mended: int = 0
    offsets: dict[QueueKey, int] = field(default_factory=dict)
    plan: str = ""


@dataclass(repr=False)
class Stock:
    """A store as it was stopped or killed, and the messages that it contained."""

    settings: StoreSettings
    whole: Image
    records: dict[QueueKey, dict[int, bytes]]
    places: dict[int, tuple[QueueKey, int, int]]
    keys: dict[str, list[str]]

    def image(self) -> Image:
        """Returns a copy, which shares all files until a test damages them."""
        return self.whole.copy()

    def path(self, place: int) -> Path:
        """Returns the log file that contains a physical offset."""
        size = self.settings.commit_log_file_size_bytes
        return ROOT / "commitlog" / f"{place - place % size:020d}"

    def files(self, *words: str) -> dict[str, int]:
        """Returns path and length of each file whose path contains one of some words."""
        found = {path: file.size for path, file in self.whole.files()}
        return {p: n for p, n in sorted(found.items()) if any(word in p for word in words)}

    @property
    def end(self) -> int:
        place = max(self.places)
        return place + self.places[place][2]

    def hit(self, begin: int, end: int) -> set[tuple[QueueKey, int]]:
        """Returns (queue, queue offset) of the records that overlap [begin, end) of the log."""
        return {
            (key, number)
            for place, (key, number, size) in self.places.items()
            if begin < end and begin < place + size and place < end
        }

    async def opened(self, image: Image, *, send: bool = False, **changes: Any) -> Seen:
        """Opens a store on an image and reads everything."""
        seen = Seen()
        try:
            async with asyncio.timeout(HANG_SECONDS):
                await _look(self, SimDisk(image), seen, send=send, **changes)
        except TimeoutError:
            seen.escaped = f"it hangs for more than {HANG_SECONDS} s"
        except BrokerError as error:
            seen.refused = error
        except Exception as error:  # noqa: BLE001 - what the rows are about: nothing else may escape
            seen.escaped = f"{type(error).__name__}: {error}"
        return seen

    # -- judging -------------------------------------------------------------------------------
    def lost(self, seen: Seen) -> set[tuple[QueueKey, int]]:
        """Returns (queue, queue offset) of the messages that were not served."""
        return {
            (key, number)
            for key, numbers in self.records.items()
            for number in numbers
            if number not in seen.served.get(key, {})
        }

    def wrong(self, seen: Seen) -> list[str]:
        """Returns served messages that were never stored at their queue offset."""
        return [
            f"{key} {number}"
            for key, numbers in seen.served.items()
            for number, record in numbers.items()
            if self.records.get(key, {}).get(number) != record
        ]

    def complaints(self, seen: Seen, *, may_lose: bool = False) -> list[str]:
        """Returns the broken promises; `may_lose`: damage may have removed the end of the log.

        Nothing escapes, no wrong byte is served, nothing is lost without a word.
        """
        if seen.escaped:
            return [seen.escaped]
        found = [f"served what was not stored: {text}" for text in self.wrong(seen)]
        if seen.refused is not None:
            return found
        silent = {one for one in self.lost(seen) if one not in seen.reported}
        if silent and seen.damaged is None and not may_lose:
            found.append(f"{len(silent)} lost without a word, first {min(silent)}")
        for key, (bodies, is_complete) in seen.answers.items():
            if set(bodies) - set(self.keys[key]):
                found.append(f"key {key!r} brought others")
            lacking = set(self.keys[key]) - set(bodies)
            if lacking and is_complete and seen.damaged is None and not may_lose:
                found.append(f"key {key!r} claims to be complete")
        return found


async def stocked(
    *, file_size: int, count: int, property_crc: bool = True, killed: bool = False, **changes: Any
) -> Stock:
    """Makes a store of some messages; `killed`: as kill -9 leaves it."""
    settings = small_settings(
        ROOT,
        commit_log_file_size_bytes=file_size,
        property_crc=property_crc,
        **{
            "consume_queue_file_size_bytes": 2_000,
            "index_slot_count": 61,
            "index_entry_count_max": 400,
            "consume_queue_extension_file_size_bytes": 4_096,
            "reserve_size_bytes": 0,
        }
        | changes,
    )
    disk = SimDisk()
    store = await open_store(settings, FakeClock(), disk)
    talking = TalkingStore(store, FakeClock(), disk)
    keys: dict[str, list[str]] = {}
    for number in range(count):
        topic, queue_id = QUEUES[number % len(QUEUES)]
        body, key = f"{number:05d}" + "ab" * (number % 185), f"k{number % KEYS}"
        await talking.stocked()
        await talking.send(topic, body, queue_id=queue_id, key=key, tag="A")
        if topic == "orders":
            keys.setdefault(key, []).append(body)
    await talking.settled()
    await store.tables.topics.create("orders", queue_count=2)
    await store.tables.groups.ensure(GROUP)
    for one in QUEUES:
        await store.tables.offsets.commit(GROUP, *one, count // 9)
    records: dict[QueueKey, dict[int, bytes]] = {}
    places: dict[int, tuple[QueueKey, int, int]] = {}
    for topic, queue_id in QUEUES:
        held = records[topic, queue_id] = {}
        for number in range(store.reading.queue_range(topic, queue_id)[1]):
            (found,) = at_once(store.reading.pull(ReadRange(topic, queue_id, number, 1, 1))).records
            place = decode_record(found).physical_offset
            held[number], places[place] = found, ((topic, queue_id), number, len(found))
    left = disk.image.copy() if killed else None
    await store.close()
    return Stock(settings, left or disk.image.copy(), records, places, keys)


async def _look(stock: Stock, disk: SimDisk, seen: Seen, *, send: bool, **changes: Any) -> None:
    """Opens, reads everything, and closes."""
    store = await open_store(replace(stock.settings, **changes), FakeClock(), disk)
    try:
        seen.damaged = store.damage
        seen.plan = store._start.recovery.plan.label
        for queue in QUEUES:
            await _read(store, queue, seen)
        for key in sorted(stock.keys)[:KEYS_LOOKED_UP]:
            await _query(store, key, seen)
        if send:
            seen.sent = await _sent(store, disk)
        seen.mended = store.reading.repair.repaired_count
    finally:
        await store.close()


async def _read(store: MessageStore, key: QueueKey, seen: Seen) -> None:
    served: dict[int, bytes] = {}
    seen.served[key] = served
    position, upper = seen.ranges[key] = store.reading.queue_range(*key)
    for _ in range(MOMENTS_MAX):
        if position >= upper:
            return
        try:
            result = await _pull(store, key, position)
        except MessageDamaged as error:
            seen.reported[key, position] = error
            if error.next_begin_offset <= position:
                raise
            position = error.next_begin_offset
            continue
        numbers = [decode_record(record).queue_offset for record in result.records]
        served.update(zip(numbers, result.records, strict=True))
        if result.status is PullStatus.FOUND:
            assert numbers == sorted({*numbers}) != []
            assert position <= numbers[0] <= numbers[-1] < result.next_begin_offset
        if result.next_begin_offset <= position:
            return
        position = result.next_begin_offset
    raise AssertionError("the reading does not end")


async def _pull(store: MessageStore, key: QueueKey, position: int) -> PullResult:
    return await value_of(store.reading.pull(ReadRange(*key, position, 64, 1 << 20)))


async def _query(store: MessageStore, key: str, seen: Seen) -> None:
    try:
        found = await store.reading.query(KeyRange("orders", key, 999))
    except Corruption:
        seen.answers[key] = ([], False)
        return
    seen.answers[key] = ([m.body.decode() for m in found.messages], found.complete)


async def _sent(store: MessageStore, disk: SimDisk) -> str:
    """Sends one message and reads it again; returns the result."""
    talking = TalkingStore(store, FakeClock(), disk)
    try:
        put = await talking.send("orders", "one more")
    except BrokerError as error:
        return error.reason
    await talking.settled()
    (record,) = at_once(store.reading.pull(ReadRange("orders", 0, put.queue_offset, 1, 1))).records
    assert decode_record(record).body == b"one more"
    return "sent"


# -- damaging --------------------------------------------------------------------------------------
def file_of(image: Image, path: str | Path) -> File:
    """Returns a file of an image."""
    found = image.find(Path(path))
    assert isinstance(found, File)
    return found


def change(image: Image, path: str | Path, make: Callable[[bytes], bytes]) -> None:
    """Replaces a file's bytes; the new ones are durable."""
    file = file_of(image, path)
    file.durable = file.seen = make(file.content)
    file.live = None
    file.blocks |= (1 << (len(file.durable) // 4096 + 1)) - 1 if file.blocks else 0


def write(image: Image, path: str | Path, position: int, content: bytes) -> None:
    """Overwrites some bytes."""
    change(image, path, lambda was: was[:position] + content + was[position + len(content) :])


def flip(image: Image, path: str | Path, bit: int) -> None:
    """Changes one bit."""
    was = file_of(image, path).content[bit // 8]
    write(image, path, bit // 8, bytes([was ^ (1 << bit % 8)]))


def cut(image: Image, path: str | Path, length: int) -> None:
    """Truncates a file."""
    change(image, path, lambda was: was[:length])


def sample(seed: int, count: int, upper: int) -> list[int]:
    """Returns some numbers below a bound, without repeats, in order."""
    return sorted(random.Random(seed).sample(range(upper), min(count, upper)))
