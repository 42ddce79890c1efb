"""Budget of a long battery: a seed, seconds and workers; and the error `NotHere`.

A battery is a function of (place: Path, budget: Budget), a row of `torture.batteries.BATTERIES`. It
works below `place`, ends soon after `budget.left()` becomes false, and regularly calls
`budget.progress`. It returns its figures, raises an error for a violation, and raises `NotHere` if
the machine lacks something.
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
WORKLOADS: Final = ("send", "pop", "later", "official", "classic")
"""Workloads of the battery `kill`."""
TARGETS: Final = ("directory", "s3")
"""Places that the batteries `archive_…` archive to."""
SEEDS_APART: Final = 10_000_000


class NotHere(Exception):
    """This machine lacks something that a battery requires; the text names it."""


@dataclass
class Budget:
    """Limits of a battery; its time begins when this object is created.

    messages           for batteries with a given number of messages
    cases              for the batteries `wire`, `sends` and `classic_frames`
    versions, shapes   for the battery `versions`; empty: all
    keep               directory in which that battery keeps failed stores
    workload           for the battery `kill`
    target             where the batteries `archive_…` archive to
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
    target: str = TARGETS[0]
    _begun: float = field(default_factory=monotonic, repr=False)
    _told: float = field(default_factory=monotonic, repr=False)

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return monotonic() - self._begun

    def left(self) -> bool:
        """Returns whether there is time left."""
        return self.spent < self.seconds

    def seeds(self, *, apart: int = 1) -> Iterator[int]:
        """Yields seeds while there is time, but at least one.

        apart   distance between the first seeds of consecutive budgets
        """
        for number in count():
            if number and not self.left():
                return
            yield self.seed * apart + number

    def in_portions(
        self, cases: Sequence[Case], size: int, work: Callable[[list[Case]], Outcome], *,
        share: float = 1.0,
    ) -> Iterator[Outcome]:  # fmt: skip
        """Runs portions of cases in processes while `share` of the time lasts, but at least one."""
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
        """Prints the battery's progress, at most every `PROGRESS_SECONDS`."""
        now = monotonic()
        if now - self._told >= PROGRESS_SECONDS:
            self._told = now
            print(f"  {self.spent:6.0f} s  {text}", flush=True)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppresses log events during the block: in a battery crashes are expected."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
