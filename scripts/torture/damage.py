"""Damages stores byte by byte, and counts detected damage, lost messages and served damage.

    damage   changes single bytes of RocketMQ's stores by field, and runs `store verify`. With
             a property CRC it must detect all; without one the table shows the detected shares
    flips    flips every bit of a log of 64 KiB, one at a time. The damaged message and its
             neighbours are pulled by the hot path, then by the cold path. At every 256th bit the
             store is also started
    cuts     truncates every file of a store to every length, and reads the whole store

No unexpected error may escape, no wrong byte may be served, no loss may be silent, and no step may
take more than two seconds. A flip with a property CRC must be detected or change no served byte.
"""

import asyncio
import logging
import random
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from harness.budget import Budget
from harness.figures import table
from pocketmq.format.record import RECORD_HEAD, split_record
from pocketmq.model.errors import MessageDamaged
from pocketmq.model.reading import ReadRange
from pocketmq.store.message_store import MessageStore, open_store
from pocketmq.store.read.cold_read import value_of
from tests.golden_stores import GoldenStores
from tests.kit.checked_store import CheckedStore
from tests.kit.damaged_image import (
    HANG_SECONDS,
    QueueKey,
    Seen,
    Stock,
    cut,
    file_of,
    flip,
    stocked,
)
from tests.sim.clock import FakeClock
from tests.sim.disk import SimDisk

CHANGES: Final = 1_000
WITH_CRC: Final = "propcrc"
WITHOUT_CRC: Final = ("basic", "v533", "semantics")
VIEWS: Final = ("basic", "semantics", "cqext", "rebuild-base")
FILE_SIZE: Final = 16_384
FILE_COUNT: Final = 4
RECORDS: Final = 200
BITS: Final = FILE_SIZE * FILE_COUNT * 8
STARTS: Final = 256
"""Bits for each start: 2,048 starts of about 15 ms."""
FLIPS_AT_ONCE: Final = 16_384
CUTS_AT_ONCE: Final = 1_024

Case = tuple[int, str, int]
"""(Number of the store, path of a file, remaining length of the file)."""


@dataclass
class Found:
    """Outcomes of damages by field or kind, unnoticed served damage, and errors."""

    seen: Counter[str] = field(default_factory=Counter)
    served: Counter[str] = field(default_factory=Counter)
    done: int = 0
    starts: int = 0
    wrong: list[str] = field(default_factory=list)
    slowest_ms: float = 0.0

    def add(self, other: "Found") -> None:
        """Adds the outcomes of another run."""
        self.seen += other.seen
        self.served += other.served
        self.done += other.done
        self.starts += other.starts
        self.wrong += other.wrong
        self.slowest_ms = max(self.slowest_ms, other.slowest_ms)

    def judge(self, figures: dict[str, Any]) -> dict[str, Any]:
        """Returns the figures.

        Errors   AssertionError: there are errors
        """
        if self.wrong:
            raise AssertionError("; ".join(self.wrong[:20]) + f"; {figures}")
        return figures


# -- what `store verify` sees ----------------------------------------------------------------------
def field_of(content: bytes, record: int, position: int) -> str:
    """Returns the field of a record to which a byte belongs."""
    _, body, topic, topic_end, block, _ = split_record(content, record)
    at = position - record
    if position < body:
        begins = [(begin, name) for name, begin in RECORD_HEAD.positions.items() if begin <= at]
        is_long = body - record > RECORD_HEAD.size
        return "a longer head (IPv6)" if is_long and at >= 48 else max(begins)[1]
    for end, name in ((topic - 1, "body"), (topic, "topic_length"), (topic_end, "topic")):
        if position < end:
            return name
    return "property_length" if position < block else "properties"


def fields(place: Path, budget: Budget) -> dict[str, Any]:
    """Changes bytes of records, queues and index files; returns the figures."""
    seed = budget.seed
    golden = GoldenStores(place)
    figures: dict[str, Any] = {}
    store = CheckedStore(golden, WITH_CRC, place / "with-crc")
    seen, missed = _count(store, CHANGES, seed)
    figures["with_property_crc"] = f"{sum(seen.values())} of {CHANGES}"
    total_seen: Counter[str] = Counter()
    total_missed: Counter[str] = Counter()
    for name in WITHOUT_CRC:
        store = CheckedStore(golden, name, place / f"without-{name}")
        seen, missed = _count(store, CHANGES // len(WITHOUT_CRC) + 1, seed)
        total_seen += seen
        total_missed += missed
    figures["without_by_field"] = {
        field: f"{total_seen[field]} of {total_seen[field] + total_missed[field]}"
        for field in sorted(total_seen | total_missed)
    }
    figures["without_in_all"] = f"{total_seen.total()} of {(total_seen + total_missed).total()}"
    caught = 0
    for name in VIEWS:
        store = CheckedStore(golden, name, place / f"views-{name}")
        for path, position in store.view_bytes(CHANGES // len(VIEWS), seed):
            with store.changed(path, position):
                caught += bool(store.kinds())
    figures["in_views"] = f"{caught} of {CHANGES}"
    counts = sorted((total_seen + total_missed).items(), key=lambda pair: -pair[1])
    rows = [
        (name, f"{total_seen[name]} of {total} ({100 * total_seen[name] // total} %)")
        for name, total in counts
    ]
    print(f"\n{table(('field', 'changes seen'), rows)}")
    return figures


def _count(store: CheckedStore, count: int, seed: int) -> tuple[Counter[str], Counter[str]]:
    seen: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    chance = random.Random(seed)
    for path, position, record in store.record_bytes(count, seed):
        content = path.read_bytes()
        bit = bytes([content[position] ^ (1 << chance.randrange(8))])
        with store.changed(path, position, bit):
            (seen if store.kinds() else missed)[field_of(content, record, position)] += 1
    return seen, missed


# -- flips -----------------------------------------------------------------------------------------
class Flipping:
    """An open store in memory, in whose log bits are flipped."""

    def __init__(self, stock: Stock, store: MessageStore, disk: SimDisk) -> None:
        self.stock = stock
        self.store = store
        self.disk = disk
        self.found = Found()
        self._owners = owners_of(stock)
        self._contents = [
            file_of(stock.whole, stock.path(number * FILE_SIZE)).content
            for number in range(len(stock.files("/commitlog/")))
        ]

    async def flip(self, bit: int) -> None:
        """Flips a bit, reads the neighbourhood, and restores the bit."""
        place = bit // 8
        file = self.store.log.files.file_at(place)
        owner = self._owners[place]
        self.found.done += 1
        if file is None:
            return
        begun = perf_counter()
        name = "outside records"
        if owner >= 0:
            content = self._contents[place // FILE_SIZE]
            name = field_of(content, owner % FILE_SIZE, place % FILE_SIZE)
        file.view[place % FILE_SIZE] ^= 1 << bit % 8
        file.checked.clear()  # Forgets which records were checked.
        try:
            await self._judge(bit, owner, name)
        except Exception as error:  # noqa: BLE001 – what the battery is about
            self.found.wrong.append(f"bit {bit}: {type(error).__name__}: {error}")
        file.view[place % FILE_SIZE] ^= 1 << bit % 8
        taken = perf_counter() - begun
        self.found.slowest_ms = max(self.found.slowest_ms, taken * 1000)
        if taken > HANG_SECONDS:
            self.found.wrong.append(f"bit {bit}: it took {taken:.1f} s")

    async def _judge(self, bit: int, owner: int, name: str) -> None:
        if owner < 0:
            self.found.seen[name] += 1
            return
        key, number, _ = self.stock.places[owner]
        records = self.stock.records[key]
        for neighbour in (number - 1, number + 1):
            if neighbour in records and await self._pulled(key, neighbour) != records[neighbour]:
                self.found.wrong.append(f"bit {bit}: neighbour {neighbour} is not served")
        if await self._pulled(key, number) is None:
            self.found.seen[name] += 1
        else:
            self.found.served[name] += 1

    async def _pulled(self, key: QueueKey, number: int) -> bytes | None:
        """Returns the record of a queue offset; None: the broker reports it as damaged."""
        reading = self.store.reading
        reading.repair.forget()
        try:
            result = await value_of(reading.pull(ReadRange(*key, number, 1, 1)))
        except MessageDamaged as error:
            return None if error.next_begin_offset == number + 1 else b""
        return result.records[0] if result.records else b""


def owners_of(stock: Stock) -> list[int]:
    """Returns for every byte of the log the number of its record, -1 without one."""
    owners = [-1] * (FILE_SIZE * FILE_COUNT)
    for place, (_, _, size) in stock.places.items():
        owners[place : place + size] = [place] * size
    return owners


async def _flip_all(bits: list[int], *, property_crc: bool) -> Found:
    stock = await stocked(file_size=FILE_SIZE, count=RECORDS, property_crc=property_crc)
    killed = await stocked(
        file_size=FILE_SIZE, count=RECORDS, property_crc=property_crc, killed=True
    )
    disk = SimDisk(stock.image())
    store = await open_store(stock.settings, FakeClock(), disk)
    flipping = Flipping(stock, store, disk)
    for bit in bits:
        await flipping.flip(bit)
    await store.close()
    for bit in bits if property_crc else ():
        if bit % STARTS == 0:
            await _start(killed if bit // STARTS % 2 else stock, bit, flipping.found)
    return flipping.found


async def _start(stock: Stock, bit: int, found: Found) -> None:
    """Starts a store with a damaged log, and reads all messages."""
    image = stock.image()
    path = stock.path(bit // 8)
    if image.find(path) is None or file_of(image, path).size <= bit // 8 % FILE_SIZE:
        return
    flip(image, path, bit % (8 * FILE_SIZE))
    seen = await stock.opened(image)
    found.starts += 1
    hit = stock.hit(bit // 8, bit // 8 + 1)
    if complaints := stock.complaints(seen):
        found.wrong.append(f"start on bit {bit}: {complaints[0]}")
    elif seen.refused is not None or not stock.lost(seen) <= hit:
        found.wrong.append(f"start on bit {bit}: {len(stock.lost(seen))} messages lost")


def flip_portion(bits: list[int], property_crc: bool) -> Found:
    """Flips some bits, in a separate process."""
    return asyncio.run(_flip_all(bits, property_crc=property_crc))


def flips(place: Path, budget: Budget) -> dict[str, Any]:
    """Flips every bit in an order given by the seed; reports bits left out for lack of time."""
    del place  # Everything is in memory.
    bits = list(range(BITS))
    random.Random(budget.seed).shuffle(bits)
    with_crc, without = Found(), Found()
    for found, has_crc, share in ((with_crc, True, 0.85), (without, False, 1.0)):
        flip_some = partial(flip_portion, property_crc=has_crc)
        for one in budget.in_portions(bits, FLIPS_AT_ONCE, flip_some, share=share):
            found.add(one)
            budget.progress(f"{found.done} bits, property CRC {'on' if has_crc else 'off'}")
    figures = {
        "with_property_crc": f"{with_crc.done} of {BITS} bits, {with_crc.seen.total()} seen or "
        f"outside records, {with_crc.served.total()} served",
        "starts": with_crc.starts,
        "slowest_ms": round(max(with_crc.slowest_ms, without.slowest_ms), 1),
        "without_property_crc": f"{without.done} bits, {without.served.total()} not seen",
        "without_by_field": {
            name: f"{without.served[name]} of {without.seen[name] + without.served[name]} not seen"
            for name in sorted(without.seen | without.served)
        },
    }
    with_crc.wrong += without.wrong
    with_crc.wrong += [f"{name}: {count} served" for name, count in with_crc.served.items()]
    return with_crc.judge(figures)


# -- cuts ------------------------------------------------------------------------------------------
async def _stocks() -> list[Stock]:
    """Returns a stopped store, and a killed store."""
    return [
        await stocked(
            file_size=FILE_SIZE, count=RECORDS, killed=killed, consume_queue_extension=True
        )
        for killed in (False, True)
    ]


def _cases(stocks: list[Stock]) -> list[Case]:
    """Returns every length of every file; the stores with that length alternate."""
    files = [stock.files("/") for stock in stocks]
    cases: list[Case] = []
    for path in sorted({path for found in files for path in found}):
        sizes = [found.get(path, 0) for found in files]
        for length in range(max(sizes)):
            having = [number for number, size in enumerate(sizes) if size > length]
            cases.append((having[length % len(having)], path, length))
    return cases


async def _cut_all(cases: list[Case]) -> Found:
    found = Found()
    stocks = await _stocks()
    for number, path, length in cases:
        stock = stocks[number]
        image = stock.image()
        cut(image, path, length)
        begun = perf_counter()
        seen = await stock.opened(image)
        found.slowest_ms = max(found.slowest_ms, (perf_counter() - begun) * 1000)
        found.seen[_outcome(stock, seen)] += 1
        found.wrong += [f"{path} cut to {length}: {text}" for text in stock.complaints(seen)]
    return found


def _outcome(stock: Stock, seen: Seen) -> str:
    if seen.refused is not None:
        return "refused"
    if seen.damaged is not None:
        return "damaged"
    return "told" if stock.lost(seen) else "whole"


def cut_portion(cases: list[Case]) -> Found:
    """Truncates some files, in a separate process; the log events of the starts are suppressed."""
    logging.disable()
    return asyncio.run(_cut_all(cases))


def cuts(place: Path, budget: Budget) -> dict[str, Any]:
    """Truncates to every length in an order given by the seed; reports lengths left out."""
    del place  # Everything is in memory.
    cases = _cases(asyncio.run(_stocks()))
    random.Random(budget.seed).shuffle(cases)
    found = Found()
    for one in budget.in_portions(cases, CUTS_AT_ONCE, cut_portion):
        found.add(one)
        budget.progress(f"{found.seen.total()} of {len(cases)} lengths")
    file_count = len({path for _, path, _ in cases})
    figures = {
        "lengths": f"{found.seen.total()} of {len(cases)}, of {file_count} files",
        "outcomes": dict(found.seen),
        "slowest_ms": round(found.slowest_ms, 1),
    }
    return found.judge(figures)
