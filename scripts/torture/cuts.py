"""Cuts every file of a store to every length, one at a time, and reads everything of each.

Log, queues, their extension, index, checkpoint, mark and tables of 200 records, by turns as an
orderly stop and as a kill left them. Nothing escapes, no wrong byte is served, nothing is lost
without a word, nothing takes longer than two seconds.
"""

import asyncio
import logging
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from tests.kit.damaged_image import Seen, Stock, cut, stocked
from torture.budget import Budget

FILE_SIZE: Final = 16_384
RECORDS: Final = 200
PORTION: Final = 1_024

Case = tuple[int, str, int]
"""Which store, a file of it, and how much of that is left."""


@dataclass
class Found:
    """Outcomes of the starts: refused, damaged, whole; and what was wrong."""

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest_ms: float = 0.0

    def add(self, other: "Found") -> None:
        """Takes what another run found."""
        self.outcomes += other.outcomes
        self.wrong += other.wrong
        self.slowest_ms = max(self.slowest_ms, other.slowest_ms)


async def _stocks() -> list[Stock]:
    """Returns the store as it was stopped, and as it was killed."""
    return [
        await stocked(
            file_size=FILE_SIZE, count=RECORDS, killed=killed, consume_queue_extension=True
        )
        for killed in (False, True)
    ]


def _cases(stocks: list[Stock]) -> list[Case]:
    """Returns every length of every file, by turns of the stores that have so much of it."""
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
    """Cuts some files, in a process of its own; the log events of the starts are suppressed."""
    logging.disable()
    return asyncio.run(_cut_all(cases))


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Cuts to every length in an order of the seed; reports those that the time left out."""
    del place  # Everything is in memory.
    cases = _cases(asyncio.run(_stocks()))
    random.Random(budget.seed).shuffle(cases)
    found = Found()
    for one in budget.in_portions(cases, PORTION, cut_portion):
        found.add(one)
        budget.progress(f"{found.outcomes.total()} of {len(cases)} lengths")
    file_count = len({path for _, path, _ in cases})
    figures = {
        "lengths": f"{found.outcomes.total()} of {len(cases)}, of {file_count} files",
        "outcomes": dict(found.outcomes),
        "slowest_ms": round(found.slowest_ms, 1),
    }
    if found.wrong:
        raise AssertionError("; ".join(found.wrong[:20]) + f"; {figures}")
    return figures
