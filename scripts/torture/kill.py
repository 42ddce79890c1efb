"""Kills brokers by SIGKILL, as often as the time allows, and checks that no message is lost.

Each worker is a process with one store at a time, which lives through some kills. After each start
it checks the new messages, after every 50th start all messages. Each store ends with an orderly
stop and `store verify`.

    --workload send   sends: tests/faults/lives.py kills, history.py checks. If a start or stop
                      takes more than 10 s, slowness.py prints stacks and processor times
    --workload pop    groups receive, acknowledge and change invisible durations; at the end of a
                      store all is consumed: tests/faults/consuming_lives.py, deliveries.py
    --workload later  timed and delayed messages, recalls, transactions: tests/faults/later_lives.py
    --workload official   RocketMQ's clients for Python and Java, with push consumers: official.py
    --workload classic    RocketMQ's classic clients for Java, two versions: classic.py
"""

import json
import multiprocessing
import shutil
from collections import Counter
from multiprocessing.queues import Queue
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

from harness.budget import Budget
from tests.faults import deliveries, later_lives
from tests.faults.consuming_lives import ConsumingLives
from tests.faults.history import WRONG
from tests.faults.later_lives import LaterLives
from tests.faults.lives import LOAD, ORDERLY, START, STOP, SYSCALL, Lives, can_trace
from torture import classic, official
from torture.classic import ClassicLives
from torture.official import OfficialLives, programs_of

ENDS: Final = (*[LOAD] * 12, *[SYSCALL] * 4, *[STOP] * 2, *[START] * 2, *[ORDERLY] * 2)
LIVES_PER_STORE: Final = 100
CONSUMING_LIVES_PER_STORE: Final = 40
LATER_LIVES_PER_STORE: Final = 12
OFFICIAL_LIVES_PER_STORE: Final = 30
OFFICIAL: Final = ("python", "java")
STRANGERS: Final = {"official": official.FIGURES, "classic": classic.FIGURES}
WHOLE_EVERY: Final = 50
Advance: TypeAlias = "Queue[tuple[str, Any]]"
WANTED: Final = (1, 500, 2_000, 4_000, 6_000)
SLOW: Final = "looks at slow starts and stops"
TOLD: Final = ("acknowledged", "read", "stored", "sent again and stored twice", "lost, allowed")


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Kills until the time is over; returns the figures.

    Errors   AssertionError: a violation, such as a lost message; the history is kept. NotHere
    """
    if budget.workload == "official":
        programs_of(*OFFICIAL)
    if budget.workload == "classic":
        classic.programs()
    context = multiprocessing.get_context("spawn")
    told: Advance = context.Queue()
    workers = [
        context.Process(
            target=work,
            args=(place, number, budget.seed, budget.seconds, budget.workload, told),
        )
        for number in range(budget.workers)
    ]
    for worker in workers:
        worker.start()
    figures: Counter[str] = Counter()
    wrong: list[str] = []
    slowest: dict[str, float] = {}
    latest_ms = 0
    left = len(workers)
    try:
        while left:
            kind, content = told.get()
            if kind == "done":
                left -= 1
            elif kind == "wrong":
                wrong.append(content)
            elif kind == "slow":
                print(content, flush=True)
                figures[SLOW] += 1
            elif kind == "latest":
                latest_ms = max(latest_ms, content)
            elif kind == "slowest":
                slowest = {
                    what: max(took, slowest.get(what, 0.0)) for what, took in content.items()
                }
            else:
                figures.update(content)
                shown = ("kills", "acknowledged", *deliveries.TOLD[:2])
                total = {name: figures[name] for name in shown if figures[name]}
                budget.progress(json.dumps(total))
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()
    assert not wrong, f"{dict(figures)}\n" + "\n".join(wrong)
    if budget.workload == "pop":
        done = ("kills", "sync flush", "async flush", "stores", "acknowledged", "stored")
        wanted = (*done, *deliveries.TOLD, *WRONG, *deliveries.WRONG)
        return {name: figures[name] for name in wanted}
    if budget.workload == "later":
        names = ("kills", "sync flush", "async flush", "stores", *later_lives.FIGURES)
        return {name: figures[name] for name in names} | {later_lives.LATEST: latest_ms}
    if budget.workload in STRANGERS:
        stores = ("kills", "sync flush", "async flush", "stores")
        return {name: figures[name] for name in (*stores, *STRANGERS[budget.workload])}
    return {
        "lives": figures["kills"],
        "killed": {end: figures[end] for end in dict.fromkeys(ENDS)},
        "stores": figures["stores"],
        **{name: figures[name] for name in TOLD},
        **{name: figures[name] for name in WRONG},
        **{f"slowest {what}, s": took for what, took in slowest.items()},
        SLOW: figures[SLOW],
        "traced": can_trace(),
    }


def work(place: Path, number: int, seed: int, seconds: float, workload: str, told: Advance) -> None:
    """Kills the brokers of one store after another; runs in a worker."""
    budget = Budget(seed, seconds)
    one_store = {
        "send": _one_store,
        "pop": _one_consuming_store,
        "later": _one_store_of_waiting,
        "official": _one_store_of_strangers,
        "classic": _one_store_of_classic_clients,
    }[workload]
    try:
        for round_number, _ in enumerate(budget.seeds()):
            own = place / f"worker-{number}-{round_number}"
            own.mkdir()
            one_store(own, f"{seed}-{number}-{round_number}", budget, told)
            shutil.rmtree(own)
    except BaseException as error:  # noqa: BLE001 – told to who waits
        kept = Path(shutil.move(own, Path("/tmp") / f"pocketmq-kill-{own.name}-{seed}"))
        told.put(("wrong", f"worker {number}, store {round_number}, kept in {kept}: {error!r}"))
    finally:
        told.put(("done", None))


def _one_store(place: Path, name: str, budget: Budget, told: Advance) -> None:
    chance = Random(name)
    lives = Lives(place, chance.randrange(2**31), tell=lambda text: told.put(("slow", text)))
    ends = ENDS if can_trace() else [end for end in ENDS if end != SYSCALL]
    for number in range(LIVES_PER_STORE):
        if number and not budget.left():
            break
        ended_by = chance.choice(ends)
        before = lives.history.figures.copy()
        lives.live(ended_by, chance.choice(WANTED), whole=number % WHOLE_EVERY == WHOLE_EVERY - 1)
        since = lives.history.figures - before
        told.put(("life", {"kills": 1, ended_by: 1, **since}))
        told.put(("slowest", dict(lives.slowest)))
    lives.end()
    told.put(("slowest", dict(lives.slowest)))
    told.put(("store", {"stores": 1}))


def _one_consuming_store(place: Path, name: str, budget: Budget, told: Advance) -> None:
    lives = ConsumingLives(place, Random(name).randrange(2**31))
    for number in range(CONSUMING_LIVES_PER_STORE):
        if number and not budget.left():
            break
        before, kills = lives.figures, lives.kills.copy()
        lives.live(number)
        flushes = {f"{flush} flush": count for flush, count in (lives.kills - kills).items()}
        told.put(("life", {"kills": 1, **flushes, **(lives.figures - before)}))
    before = lives.figures
    lives.end()
    told.put(("life", dict(lives.figures - before)))
    told.put(("store", {"stores": 1}))


def _one_store_of_waiting(place: Path, name: str, budget: Budget, told: Advance) -> None:
    lives = LaterLives(place, Random(name).randrange(2**31))
    for number in range(LATER_LIVES_PER_STORE):
        if number and not budget.left():
            break
        before = lives.figures.copy()
        flush = lives.live(number)
        told.put(("life", {"kills": 1, f"{flush} flush": 1, **(lives.figures - before)}))
    before = lives.figures.copy()
    lives.end()
    told.put(("life", dict(lives.figures - before)))
    told.put(("latest", lives.latest_ms))
    told.put(("store", {"stores": 1}))


def _one_store_of_strangers(place: Path, name: str, budget: Budget, told: Advance) -> None:
    chance = Random(name)
    _outlived(OfficialLives(place, chance.randrange(2**31), programs_of(*OFFICIAL)), budget, told)


def _one_store_of_classic_clients(place: Path, name: str, budget: Budget, told: Advance) -> None:
    chance = Random(name)
    _outlived(ClassicLives(place, chance.randrange(2**31), classic.programs()), budget, told)


def _outlived(lives: OfficialLives, budget: Budget, told: Advance) -> None:
    """Kills the broker of a store under clients that keep running, then compares."""
    try:
        for number in range(OFFICIAL_LIVES_PER_STORE):
            if number and not budget.left():
                break
            told.put(("life", {"kills": 1, f"{lives.live()} flush": 1}))
        lives.end()
    finally:
        lives.close()
    told.put(("life", dict(lives.figures)))
    told.put(("store", {"stores": 1}))
