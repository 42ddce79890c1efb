"""Budget of a long battery: a seed, seconds and workers; and the error that it cannot run here.

A battery is a function of (place: Path, budget: Budget), a row of `torture.batteries.BATTERIES`. It
works below `place`, ends soon after `budget.left()` is false, calls `budget.progress` now and then,
and returns its figures. What it finds wrong it raises; `NotHere` where the machine lacks something.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Final, TypeVar

Case = TypeVar("Case")
Outcome = TypeVar("Outcome")

PROGRESS_SECONDS: Final = 15.0
WORKLOADS: Final = ("send", "pop", "later", "official")
"""What goes on while the battery kill kills."""
SEEDS_APART: Final = 10_000_000


class NotHere(Exception):
    """This machine lacks what a battery needs; the text says what."""


@dataclass
class Budget:
    """Limits of a battery, counted from when this is made.

    messages           for the batteries of a size
    cases              for the batteries of the wire and of sends
    versions, shapes   for the battery of real brokers; none: all there are
    keep               where that one leaves the stores that something is wrong with
    workload           for the battery kill
    """

    seed: int = 1
    seconds: float = 600.0
    workers: int = 1
    messages: int = 2_100_000
    cases: int = 2_000_000
    workload: str = WORKLOADS[0]
    versions: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    keep: Path | None = None
    _begun: float = field(default_factory=monotonic, repr=False)
    _told: float = field(default_factory=monotonic, repr=False)

    @property
    def spent(self) -> float:
        """Seconds since it began."""
        return monotonic() - self._begun

    def left(self) -> bool:
        """Tells whether there is time to do more."""
        return self.spent < self.seconds

    def seeds(self, *, apart: int = 1) -> Iterator[int]:
        """Yields seed after seed while there is time, and the first in any case.

        apart   how many numbers lie between the seeds of two budgets
        """
        for number in count():
            if number and not self.left():
                return
            yield self.seed * apart + number

    def in_portions(
        self, cases: Sequence[Case], size: int, work: Callable[[list[Case]], Outcome], *,
        share: float = 1.0,
    ) -> Iterator[Outcome]:  # fmt: skip
        """Runs portions of cases in processes while a share of the time is left, one at least."""
        step = size * max(self.workers, 1)
        with ProcessPoolExecutor(self.workers) as pool:
            for begin in range(0, len(cases), step):
                if begin and self.spent > self.seconds * share:
                    return
                some = cases[begin : begin + step]
                yield from pool.map(
                    work, [list(some[at : at + size]) for at in range(0, len(some), size)]
                )

    def progress(self, text: str) -> None:
        """Prints how far the battery is, at most every `PROGRESS_SECONDS`."""
        now = monotonic()
        if now - self._told >= PROGRESS_SECONDS:
            self._told = now
            print(f"  {self.spent:6.0f} s  {text}", flush=True)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppresses log events for a block: crashes are no news in a battery."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
