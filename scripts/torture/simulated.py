"""Batteries in memory: the simulations and models of the tests, seed after seed until time is up.

    crash        power cuts and kills of a store (tests/faults/test_power_cut.py)
    deliveries   power cuts and kills at every step of a delivery (test_crash_deliveries.py)
    semantics    random walks of consumption, delays and transactions, compared with models
    schedules    random orders of the asyncio core's tasks, random walks of a store, churn
    directories  directories with unexpected bytes, lengths and kinds of files

A failure is reported with its seed, or with the calls that led to it.
"""

import logging
import resource
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

from harness.budget import SEEDS_APART, Budget, quiet
from tests.kit.fuzzed_directory import Wrong, made, tried
from tests.models import consume_steps, later_steps
from tests.models.churn import ChurnTally, churn
from tests.models.model_walk import walk
from tests.sim.crash_deliveries import CASES, WRITTEN, crashes, lived_on
from tests.sim.crash_lives import Budgeted, live_on
from tests.sim.crash_recovery import Tally as CrashTally
from tests.sim.crash_recovery import figures
from tests.sim.schedules import Tally, play

LAP_SECONDS: Final = 20.0
"""Processor time of a worker between two reports of progress."""
CUTS: Final = {"sync": 3, "async": 0}
"""Power cuts at each call of the disk; none with async flush, where one may lose acked messages."""
WALK_STEPS: Final = 60
STORE_STEPS: Final = 100
DELETES: Final = 40
PORTION: Final = 50
MEMORY_BYTES: Final = 2 << 30
DIRECTORIES_MAX: Final = 50_000


def crash(_: Path, budget: Budget) -> dict[str, Any]:
    """Crashes lives of a store; worker n of N begins at seed + n.

    Errors   AssertionError: violations, each with its life, which `one_line` of
             tests/sim/crash_lives.py repeats
    """
    total = CrashTally()
    with ProcessPoolExecutor(budget.workers) as pool:
        for lap, seed in enumerate(budget.seeds()):
            seeds = [seed + lap * (budget.workers - 1) + n for n in range(budget.workers)]
            seconds = min(LAP_SECONDS, max(budget.seconds - budget.spent, 1.0))
            for found in pool.map(_crash_lap, seeds, [seconds] * budget.workers):
                total.add(found)
            if total.violations:
                raise AssertionError("\n".join([str(figures(total)), *total.violations[:10]]))
            budget.progress(f"{total.states} crash states, {total.distinct} distinct")
    rate = round(total.states / max(budget.spent, 1e-9))
    return figures(total) | {"call kinds": len(total.calls), "states a second": rate}


def _crash_lap(seed: int, seconds: float) -> CrashTally:
    logging.disable(logging.CRITICAL)
    tally = CrashTally()
    live_on(tally, seed=seed, budget=Budgeted(seconds=seconds))
    return tally


def deliveries(_: Path, budget: Budget) -> dict[str, Any]:
    """Crashes at every step of timers, delay levels, recalls, transactions, receives and revivals.

    At each call of the disk a power cut also leaves the log behind all other files.

    Errors   AssertionError, or an escaped error; its notes contain the step of the crash
    """
    states, kills, rounds = Counter[str](), 0, 0
    with quiet():
        for seed in budget.seeds(apart=1_000_000):
            for case in CASES | WRITTEN:
                for flush, cuts in CUTS.items():
                    found = crashes(case, seed, flush, cuts=cuts) if case in CASES else []
                    found += crashes(case, seed, flush, cuts=0, is_log_behind=True)
                    for one in found:
                        lived_on(one)
                    states[case] += len(found)
                    kills += sum(one.point.is_kill for one in found)
                    budget.progress(f"{states.total()} states")
            rounds += 1
    total = states.total()
    return {"rounds": rounds, "states": total, "kills": kills, "power cuts": total - kills} | {
        "by case": dict(states)
    }


def semantics(_: Path, budget: Budget) -> dict[str, Any]:
    """Alternates walks of consumption and of delayed delivery.

    Errors   AssertionError, or an escaped error; its notes contain the steps
    """
    consuming, later = Counter[str](), Counter[str]()
    with quiet():
        for seed in budget.seeds(apart=SEEDS_APART):
            consume_steps.walk(seed, WALK_STEPS, consuming)
            later_steps.walk(seed, WALK_STEPS, later)
            budget.progress(f"{consuming['walks']} + {later['walks']} walks")
    return {"consuming": dict(sorted(consuming.items())), "later": dict(sorted(later.items()))}


def schedules(_: Path, budget: Budget) -> dict[str, Any]:
    """Alternates random orders of tasks, walks beside the model of a store, and churn.

    Errors   AssertionError, or an escaped error; its notes state how to repeat it
    """
    tally, churned, steps = Tally(), ChurnTally(), Counter[str]()
    with quiet():
        for seed in budget.seeds(apart=SEEDS_APART):
            play(seed, tally)
            play(seed + 1_000_000, tally)
            walk(seed, STORE_STEPS, steps)
            if seed % 20 == 0:
                churn(seed, churned, deletes=DELETES)
            budget.progress(f"{tally.schedules} schedules, {steps['walks']} walks")
    kept = [tally.acknowledged, tally.given_up, tally.kept]
    return {
        "schedules": tally.schedules,
        "operations": sum(tally.operations.values()),
        "awaits cancelled": sum(tally.cancelled.values()),
        "puts acknowledged, given up, of those stored": kept,
        "walks beside the model": steps["walks"],
        "kills, power cuts, restarts": [steps["kill"], steps["cut"], steps["restart"]],
        "topics deleted under load": churned.deletes,
        "files expired under load": churned.expired_files,
    }


def directories(place: Path, budget: Budget) -> dict[str, Any]:
    """Changes directories, and opens them with the broker and every tool.

    Each must open the directory or refuse it with a typed error, within 20 s and 2 GiB of address
    space, and never change a byte outside the directory.
    """
    stock = made(place / "stock")
    first = budget.seed * 1_000_000
    seeds = range(first, first + min(budget.cases, DIRECTORIES_MAX))
    ends, wrong, cases = Counter[str](), list[str](), 0
    for done, found, its_wrong in budget.in_portions(seeds, PORTION, partial(_tried, stock)):
        cases += done
        ends += found
        wrong += its_wrong
        budget.progress(f"{cases} cases, {len(wrong)} wrong")
    if wrong:
        raise AssertionError("\n".join(wrong[:20]))
    return {"cases": cases, "opened": ends.pop("opened"), "refused": dict(ends.most_common())}


def _tried(stock: Path, seeds: list[int]) -> tuple[int, Counter[str], list[str]]:
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    ends, wrong = Counter[str](), list[str]()
    with tempfile.TemporaryDirectory(dir=stock.parent) as scratch:
        for seed in seeds:
            try:
                ends += tried(stock, Path(scratch) / "case", seed)
            except Wrong as error:
                wrong.append(str(error))
    return len(seeds), ends, wrong
