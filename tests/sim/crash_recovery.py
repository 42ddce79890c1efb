"""Starts of a store after a power cut, with further cuts during recovery."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from pocketmq.format.names import BACKUP_SUFFIX
from pocketmq.log.checkpoint import QUEUE_ENDS_FILE
from pocketmq.model.errors import BrokerError
from pocketmq.store.recovery.components import StoreComponents
from pocketmq.store.recovery.start import start_at_once
from pocketmq.store.tables.tables import Tables
from tests.kit.store_language import small_settings
from tests.sim.clock import FakeClock
from tests.sim.crash_checks import (
    Violation,
    check_index,
    check_log,
    check_queues,
    lasting,
)
from tests.sim.crash_workload import STORE, Cut, Promise
from tests.sim.disk import SimDisk
from tests.sim.disk_image import Image

ENDS = f"pocketmq/{QUEUE_ENDS_FILE}"

DEPTH_MAX = 3


@dataclass(slots=True)
class Tally:
    """Counts of the states tried, and the outcomes."""

    states: int = 0
    keys: set[int] = field(default_factory=set)
    nested: int = 0
    violations: list[str] = field(default_factory=list)
    plans: dict[str, int] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)

    def add(self, other: "Tally") -> None:
        """Adds the counts of another tally."""
        self.states += other.states
        self.keys |= other.keys
        self.nested += other.nested
        self.violations += other.violations
        for mine, theirs in ((self.plans, other.plans), (self.calls, other.calls)):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count

    @property
    def distinct(self) -> int:
        """Crash states that differ in some byte or name."""
        return len(self.keys)


class Started:
    """A store that was recovered, on its disk."""

    def __init__(
        self,
        image: Image,
        geometry: dict[str, int],
        hook: Callable[[str, Path], object] | None = None,
        **settings: Any,
    ) -> None:
        self.geometry = geometry
        self.disk = disk = SimDisk(image)
        disk.hook = hook
        clock = FakeClock()
        self.tables = Tables(disk, STORE, clock)
        self.removed = self.tables.removed.next_offsets
        self.parts = StoreComponents(
            small_settings(STORE, **geometry, **settings), disk, self.removed
        )
        self.tables.removed.load()
        self.recovery = start_at_once(self.parts, clock).recovery
        self.tables.read()
        disk.hook = None

    def check(self, promise: Promise) -> None:
        """Raises Violation unless all promises hold."""
        parts, image = self.parts, self.disk.image
        if self.recovery.damage is not None:
            raise Violation(f"a power cut was taken for damage: {self.recovery.damage}")
        log = check_log(image, parts.log.appended, promise, self.removed)
        parts.queues.settle(parts.queues.doubtful)  # A running store does that in its first pass.
        check_queues(image, log, self.removed)
        check_index(image, log, self.geometry["index_slot_count"])
        self._check_tables(promise)

    def _check_tables(self, promise: Promise) -> None:
        for key, values in promise.offsets.items():
            found = self.tables.offsets.find(*key)
            if (-1 if found is None else found) not in values:
                raise Violation(f"C-tables: offset {found} of {key}, not one of {values}")
        for topic in promise.topics:
            if self.tables.topics.find(topic) is None:
                raise Violation(f"C-tables: the topic {topic} is gone")
        for queue, end in promise.removed.items():
            if self.removed.get(queue, -1) < end:
                raise Violation(f"C-tables: removed queue {queue} begins at {end} no more")


def recover(cut: Cut, tally: Tally, *, nested: bool, depth: int = 1) -> Image | None:
    """Starts the store of a crash state and checks it, with cuts meanwhile; returns the result.

    Effects  `tally` counts it; a violation is noted there, with the seed
    """
    rng = Random(cut.seed)
    key = cut.image.key()
    if key in tally.keys:
        tally.states += 1
        return None
    tally.keys.add(key)
    tally.states += 1
    later: list[Cut] = []
    count = 0
    image = cut.image

    def hook(call: str, path: Path) -> None:
        nonlocal count
        count += 1
        if rng.randrange(count) == 0:  # Each call is the one with the same probability.
            seed = rng.getrandbits(32)
            later[:] = [Cut(image.cut(Random(seed), torn=cut.promise.torn), cut.promise, seed)]

    # Brokers with followers also compare the begin of the log with the mark.
    settings = {"in_sync_replicas": 1 + cut.seed % 2}
    try:
        started = Started(
            image, cut.promise.geometry, hook if nested and depth <= DEPTH_MAX else None, **settings
        )
        plan = started.recovery.plan.label
        tally.plans[plan] = tally.plans.get(plan, 0) + 1
        started.check(cut.promise)
        if rng.random() < 0.1:
            check_second_start(started, **settings)
    except (AssertionError, BrokerError, OSError, ValueError, KeyError, IndexError) as error:
        what = f"{type(error).__name__}: {error}"
        tally.violations.append(f"{what} [depth {depth}, at {cut.promise.call}, seed {cut.seed}]")
        return None
    for one in later:
        tally.nested += 1
        recover(one, tally, nested=True, depth=depth + 1)
    return image


def check_second_start(started: Started, **settings: Any) -> None:
    """Checks that a second start changes nothing more.

    After an orderly stop the list of views is used up by the first start: the second one looks at
    them once more, and may build an index anew. With much to sync, the first one leaves the
    checkpoint, and the table of queue ends with it, to a store that runs; the second one, which
    finds nothing to sync, writes them.
    """
    if not started.parts.was_aborted:
        return
    before = lasting(started.disk.image)
    again = Started(started.disk.image.copy(), started.geometry, **settings)
    after = lasting(again.disk.image)
    if started.parts.queues.has_much_to_sync:
        for name in ("checkpoint", ENDS, ENDS + BACKUP_SUFFIX):
            for found in (before, after):
                found.pop(name, None)
    if before != after:
        names = sorted(p for p in before.keys() | after.keys() if before.get(p) != after.get(p))
        raise Violation(f"no-op: a second start changes {', '.join(names)}")


def figures(tally: Tally) -> dict[str, Any]:
    """Returns the figures to report."""
    return {
        "crash states": tally.states,
        "distinct": tally.distinct,
        "in recovery": tally.nested,
        "violations": len(tally.violations),
        "plans": dict(sorted(tally.plans.items())),
    }
