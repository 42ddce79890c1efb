"""Flips every bit of a log of 64 KiB, one at a time, and reads through the store.

For each bit, in an open store whose map shows it: the message it hit and its two neighbours in the
queue are pulled, through the hot path, then the cold one with its search. For one bit in STARTS
also: the store is started on the damaged bytes, after an orderly stop and after a kill by turns,
and everything is read. With property CRC every flip must be seen or change nothing that is served;
without, the table tells field by field what is not seen.
"""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from pocketmq.model.errors import MessageDamaged
from pocketmq.model.reading import ReadRange
from pocketmq.store.message_store import MessageStore, open_store
from pocketmq.store.read.cold_read import value_of
from tests.kit.damaged_image import HANG_SECONDS, QueueKey, Stock, file_of, flip, stocked
from tests.sim.clock import FakeClock
from tests.sim.disk import SimDisk
from torture.budget import Budget
from torture.damage import field_of

FILE_SIZE: Final = 16_384
FILE_COUNT: Final = 4
RECORDS: Final = 200
BITS: Final = FILE_SIZE * FILE_COUNT * 8
STARTS: Final = 256
"""One flip of so many is started on: 2,048 starts of some 15 ms."""
PORTION: Final = 16_384


@dataclass
class Found:
    """Outcomes of flips: seen by field, served unnoticed by field, and what was wrong."""

    seen: Counter[str] = field(default_factory=Counter)
    served: Counter[str] = field(default_factory=Counter)
    flips: int = 0
    starts: int = 0
    wrong: list[str] = field(default_factory=list)
    slowest_ms: float = 0.0

    def add(self, other: "Found") -> None:
        """Takes what another run found."""
        self.seen += other.seen
        self.served += other.served
        self.flips += other.flips
        self.starts += other.starts
        self.wrong += other.wrong
        self.slowest_ms = max(self.slowest_ms, other.slowest_ms)


class Flipping:
    """An open store in memory whose log is flipped in place."""

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
        """Flips a bit, reads, and flips it back."""
        place = bit // 8
        file = self.store.log.files.file_at(place)
        owner = self._owners[place]
        self.found.flips += 1
        if file is None:
            return
        begun = perf_counter()
        name = "outside records"
        if owner >= 0:
            content = self._contents[place // FILE_SIZE]
            name = field_of(content, owner % FILE_SIZE, place % FILE_SIZE)
        file.view[place % FILE_SIZE] ^= 1 << bit % 8
        file.checked.clear()  # As if it had never been read.
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
        """Returns the record of a queue offset, None where it is told to be damaged."""
        reading = self.store.reading
        reading.repair.forget()
        try:
            result = await value_of(reading.pull(ReadRange(*key, number, 1, 1)))
        except MessageDamaged as error:
            return None if error.next_begin_offset == number + 1 else b""
        return result.records[0] if result.records else b""


def owners_of(stock: Stock) -> list[int]:
    """Returns for every byte of the log the record it is part of, -1 for none."""
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
    """Starts on a damaged log and reads everything."""
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
    """Flips some bits, in a process of its own."""
    return asyncio.run(_flip_all(bits, property_crc=property_crc))


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Flips every bit, in an order of the seed; what does not fit into the time is told."""
    del place  # Everything is in memory.
    bits = list(range(BITS))
    random.Random(budget.seed).shuffle(bits)
    with_crc, without = Found(), Found()
    for found, has_crc, share in ((with_crc, True, 0.85), (without, False, 1.0)):
        flip_some = partial(flip_portion, property_crc=has_crc)
        for one in budget.in_portions(bits, PORTION, flip_some, share=share):
            found.add(one)
            budget.progress(f"{found.flips} bits, property CRC {'on' if has_crc else 'off'}")
    figures = {
        "with_property_crc": f"{with_crc.flips} of {BITS} bits, {with_crc.seen.total()} seen or "
        f"outside records, {with_crc.served.total()} served",
        "starts": with_crc.starts,
        "slowest_ms": round(max(with_crc.slowest_ms, without.slowest_ms), 1),
        "without_property_crc": f"{without.flips} bits, {without.served.total()} not seen",
        "without_by_field": {
            name: f"{without.served[name]} of {without.seen[name] + without.served[name]} not seen"
            for name in sorted(without.seen | without.served)
        },
    }
    wrong = with_crc.wrong + without.wrong
    if wrong or with_crc.served:
        served = [f"{name}: {count} served" for name, count in with_crc.served.items()]
        raise AssertionError("; ".join((wrong + served)[:20]) + f"; {figures}")
    return figures
