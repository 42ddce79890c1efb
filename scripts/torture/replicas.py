"""A leader and its follower under faults: no acknowledged message is lost, both end equal.

    replicas        two daemons under load: kills of either or both, also while they start, power
                    cuts of both, pauses of the leader around a promotion, cuts and stalls between
                    them, full disks, clocks that differ by hours (tests/faults/replica_lives.py).
                    Each pair lives through EVENTS_PER_PAIR events and is then compared
    replica_walks   both in one process on simulated disks and a simulated network, with power cuts
                    and deaths within any call of the disk (tests/sim/replica_walk.py)

Acknowledgements wait for the follower. Both take their events from the seed.
"""

import shutil
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Final

from harness.budget import SEEDS_APART, Budget, quiet
from tests.faults.replica_lives import EVENTS, ReplicaLives
from tests.sim.replica_walk import walk

EVENTS_PER_PAIR: Final = 60
WALKS_MAX: Final = 1_000_000
PORTION: Final = 20
SLOW_S: Final = 15.0
"""Duration from which an event is printed."""
STEPS, LONG_STEPS = 40, 140
WRONG_TOLD: Final = 10


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Lets one pair of daemons after another live through events; returns the figures.

    Errors   AssertionError: a violation; the stores and logs of the pair are kept
    """
    figures = Counter[str]()
    for number, seed in enumerate(budget.seeds(apart=SEEDS_APART)):
        own = place / f"pair-{number}"
        own.mkdir()
        try:
            figures += _one_pair(own, seed, budget)
        except BaseException as error:
            kept = shutil.move(own, Path("/tmp") / f"pocketmq-replicas-{seed}")
            error.add_note(f"seed {seed}, kept in {kept}; before: {dict(figures)}")
            raise
        shutil.rmtree(own)
        figures["pairs"] += 1
        shown = ("pairs", "kills", "power cuts of both", "pauses", "promotions", "acknowledged")
        budget.progress(str({name: figures[name] for name in shown}))
    return dict(sorted(figures.items()))


def _one_pair(place: Path, seed: int, budget: Budget) -> Counter[str]:
    chance = Random(seed)
    with ReplicaLives(place, seed) as lives:
        for number in range(EVENTS_PER_PAIR):
            if number and not budget.left():
                break
            event, begun = chance.choice(EVENTS), budget.spent
            try:
                lives.live(event)
                if budget.spent - begun > SLOW_S:
                    print(f"  {budget.spent:6.0f} s  slow: {event}, {budget.spent - begun:.0f} s")
            except BaseException as error:
                error.add_note(f"event {number}: {event}")
                raise
        lives.compare()
    return lives.figures


def walks(_: Path, budget: Budget) -> dict[str, Any]:
    """Takes walks in processes; returns the figures.

    Errors   AssertionError: the faults found, with how to repeat each
    """
    figures, wrong = Counter[str](), list[str]()
    first = budget.seed * SEEDS_APART
    seeds = range(first, first + WALKS_MAX)
    for counts, found in budget.in_portions(seeds, PORTION, _walked):
        figures += counts
        wrong += found
        shown = ("walks", "acknowledged", "deaths", "promotions")
        budget.progress(f"{ {name: figures[name] for name in shown} }, {len(wrong)} wrong")
        if len(wrong) >= WRONG_TOLD:
            break
    if wrong:
        raise AssertionError(f"{dict(figures)}\n" + "\n".join(wrong))
    return dict(sorted(figures.items()))


def _walked(seeds: list[int]) -> tuple[Counter[str], list[str]]:
    counts, wrong = Counter[str](), list[str]()
    with quiet():
        for seed in seeds:
            try:
                steps = LONG_STEPS if seed % 2 else STEPS  # Old files are damaged in long ones.
                walk(seed, counts, steps=steps, flush="async" if seed % 4 == 3 else "sync")
            except BaseException as error:  # noqa: BLE001 - told, and the other walks go on
                notes = " ".join(getattr(error, "__notes__", ()))
                wrong.append(f"seed {seed}: {type(error).__name__}: {error} {notes}")
                print(f"  wrong: {wrong[-1]}", flush=True)
    return counts, wrong
