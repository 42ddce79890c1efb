"""Successive lives of a store: each starts from the last one's state after a power cut.

Every third line has small limits. So the code for many queues, many dirty files and long logs runs
from the first record on.
"""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from unittest.mock import patch

from pocketmq.log import consume_queue_table, queue_end
from pocketmq.store.dispatch import flush as view_flush
from pocketmq.store.recovery import bulk_dispatch, log_survey
from tests.sim.crash_recovery import Started, Tally, recover
from tests.sim.crash_workload import Cut, Life
from tests.sim.disk_image import Image

OPS = (5, 20, 60, 60, 120, 200)
"""Numbers of operations of a life."""
CUT_SHARE = 0.1
SEED_STEP = 1_000_003
LATER = 500_000
"""Difference of the seeds of a life and of the one that continues its store."""
SMALL_SHARE = 1 / 3
SMALL_CHUNK = 300
SMALL_LIMITS = (
    (consume_queue_table, "FILES_APART_MAX", 0),
    (view_flush, "FILES_APART_MAX", 0),
    (bulk_dispatch, "COLLECTED_MAX", 3),
    (bulk_dispatch, "AHEAD_MAX", 5),
    (queue_end.written_end, "__defaults__", (20,)),
)


@contextmanager
def small_limits() -> Iterator[None]:
    """Sets low limits, so that little work exercises the code paths for many files."""
    with ExitStack() as patches:
        for where, name, value in SMALL_LIMITS:
            patches.enter_context(patch.object(where, name, value))
        for takes_chunks in (log_survey.survey_log, bulk_dispatch.BulkDispatch.__init__):
            defaults = takes_chunks.__kwdefaults__
            patches.enter_context(patch.dict(defaults, chunk_size=SMALL_CHUNK))
        yield


@dataclass(slots=True)
class Budgeted:
    """The budget of a run: a number of crash states, and processor time."""

    states: int = 1 << 62
    seconds: float = 1e9
    begun: float = field(default_factory=time.process_time)

    def is_left(self, tally: Tally) -> bool:
        """Returns whether the budget allows more lives."""
        return tally.states < self.states and time.process_time() - self.begun < self.seconds


def live_on(
    tally: Tally,
    *,
    seed: int,
    budget: Budgeted,
    tell: Callable[[Tally], object] = lambda tally: None,
) -> None:
    """Tries lives until the budget is used; adds the findings to the tally."""
    number = 0
    while budget.is_left(tally):
        one_line(tally, seed * SEED_STEP + number, budget)
        tell(tally)
        number += 1


def one_line(tally: Tally, seed: int, budget: Budgeted) -> None:
    """Tries a life from an empty disk, and sometimes a second one from a crash state."""
    with ExitStack() as limits:
        if Random(seed).random() < SMALL_SHARE:
            limits.enter_context(small_limits())
        _one_line(tally, seed, budget)


def _one_line(tally: Tally, seed: int, budget: Budgeted) -> None:
    life = Life(seed)
    _end(life, tally, budget)
    if life.rng.random() < 0.5 and life.cuts:
        cut = life.cuts[life.rng.randrange(len(life.cuts))]
        later = _continued(life, cut)
        _end(later, tally, budget)


def _continued(life: Life, cut: Cut) -> Life:
    """Returns a life that begins with a crash state, as its recovery leaves it."""
    image: Image = cut.image.copy()
    started = Started(image, cut.promise.geometry)
    promise = cut.promise
    later = Life(life.seed + LATER, image=started.disk.image.copy(), start=promise)
    later.flushed = later.appended = started.parts.log.appended
    later.number = life.number + 1_000
    later.dropped = [started.parts.log.min_offset] * 2
    later.offsets = {
        key: [(0, -1 if (found := started.tables.offsets.find(*key)) is None else found)]
        for key in promise.offsets
    }
    later.topics = set(promise.topics)
    later.removed = dict(promise.removed)
    return later


def _end(life: Life, tally: Tally, budget: Budgeted) -> None:
    cuts = life.run(life.rng.choice(OPS), share=CUT_SHARE)
    for call, count in life.calls.items():
        tally.calls[call] = tally.calls.get(call, 0) + count
    for number, cut in enumerate(cuts):
        if not budget.is_left(tally):
            return
        known = len(tally.violations)
        recover(cut, tally, nested=number % 2 == 0)
        for place in range(known, len(tally.violations)):
            first = life.seed - (LATER if life.start is not None else 0)
            tally.violations[place] += f"\nrepro: python -m tests.sim.crash_lives {first}"


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    told = Tally()
    one_line(told, int(sys.argv[1]), Budgeted())
    print("\n".join([f"{told.states} crash states", *told.violations]))
