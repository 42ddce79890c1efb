"""Cuts every file of a store to every length, one at a time, and reads everything of each.

Log, queues, their extension, index, checkpoint, mark and tables of 200 records, by turns as an
orderly stop and as a kill left them. Nothing escapes, no wrong byte is served, nothing is lost
without a word, nothing takes longer than two seconds.
"""

import asyncio
import logging
import random
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.fakes.damaged_image import Seen, Stock, cut, stocked
from torture_budget import Budget

FILE_SIZE: Final = 16_384
RECORDS: Final = 200
PORTION: Final = 1_024

Case = tuple[str, int]
"""A file, and how much of it is left."""


@dataclass
class Found:
    """What became of the starts: refused, damaged, whole; and what was wrong."""

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest_ms: float = 0.0

    def add(self, other: "Found") -> None:
        """Take what another run found."""
        self.outcomes += other.outcomes
        self.wrong += other.wrong
        self.slowest_ms = max(self.slowest_ms, other.slowest_ms)


async def _stock(*, killed: bool) -> Stock:
    return await stocked(
        file_size=FILE_SIZE, count=RECORDS, killed=killed, consume_queue_extension=True
    )


async def _cut_all(cases: list[Case]) -> Found:
    found = Found()
    stocks = [await _stock(killed=killed) for killed in (False, True)]
    for path, length in cases:
        stock = stocks[length % 2]
        image = stock.image()
        if path not in stock.files(path):  # A stop and a kill do not leave the same files.
            stock = stocks[1 - length % 2]
            image = stock.image()
        cut(image, path, length)
        begun = perf_counter()
        seen = await stock.opened(image)
        found.slowest_ms = max(found.slowest_ms, (perf_counter() - begun) * 1000)
        found.outcomes[_outcome(stock, seen)] += 1
        found.wrong += [f"{path} cut to {length}: {text}" for text in stock.complaints(seen)]
    return found


def _outcome(stock: Stock, seen: Seen) -> str:
    if seen.refused is not None:
        return "refused"
    if seen.damaged is not None:
        return "damaged"
    return "told" if stock.lost(seen) else "whole"


def cut_portion(cases: list[Case]) -> Found:
    """Cut some files, in a process of its own; what the starts log is nobody's news here."""
    logging.disable()
    return asyncio.run(_cut_all(cases))


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Cut to every length, in an order of the seed; what does not fit into the time is told."""
    del place  # Everything is in memory.
    stocks = [asyncio.run(_stock(killed=killed)) for killed in (False, True)]
    sizes = stocks[0].files("/") | stocks[1].files("/")
    cases = [(path, length) for path, size in sorted(sizes.items()) for length in range(size)]
    random.Random(budget.seed).shuffle(cases)
    found, step = Found(), PORTION * max(budget.workers, 1)
    with ProcessPoolExecutor(budget.workers) as pool:
        for begin in range(0, len(cases), step):
            if not budget.left():
                break
            some = cases[begin : begin + step]
            portions = [some[at : at + PORTION] for at in range(0, len(some), PORTION)]
            for one in pool.map(cut_portion, portions):
                found.add(one)
            budget.progress(f"{found.outcomes.total()} of {len(cases)} lengths")
    figures = {
        "lengths": f"{found.outcomes.total()} of {len(cases)}, of {len(sizes)} files",
        "outcomes": dict(found.outcomes),
        "slowest_ms": round(found.slowest_ms, 1),
    }
    if found.wrong:
        raise AssertionError("; ".join(found.wrong[:20]) + f"; {figures}")
    return figures
