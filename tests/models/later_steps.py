"""Random walks through delays and transactions; the same seed gives the same walk.

    walk(7, 50, counts)        raises AssertionError at the first thing that differs

A step is one awaited call, an end of the broker while it is under way, or time that passes.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from pocketmq.model.transaction import Resolution
from pocketmq.services.produce.drafts import AT_ONCE, DeliveryRequest
from tests.models.later_model import CAME, HALF, WAITING
from tests.models.later_walk import GROUPS, JUMPS_MS, LEVELS_MS, LaterWalk
from tests.sim.loop import SeededLoop
from tests.sim.seeded_store import tell_seeded

DELAYS_MS: Final = (1, 400, 1_000, 2_600, 7_000, 30_000, 150_000)
PASSED_MS: Final = (0, 40, 300, 700, 1_000, 1_000, 2_000, 5_000, 31_000)
CUT_PART: Final = 0.15
"""Share of calls during which the broker ends."""
TURNS_MAX: Final = 14
TURNS_OF_STEPS_MAX: Final = 60
DECIDED_MAX: Final = 4
UNSET_PART: Final = 0.6
"""Share of walks in which the clock is never set."""
DECISIONS: Final = (Resolution.COMMIT, Resolution.ROLLBACK)
Take = Callable[[LaterWalk, Random], Awaitable[None]]


def _turns(chance: Random, most: int = TURNS_MAX) -> int | None:
    """Returns the iterations from a call's begin to the broker's end; None, mostly: no end."""
    return chance.randint(0, most) if chance.random() < CUT_PART else None


# -- producing -------------------------------------------------------------------------------------
async def _send(walk: LaterWalk, chance: Random) -> None:
    await walk.send(CAME, AT_ONCE, _turns(chance))


async def _send_level(walk: LaterWalk, chance: Random) -> None:
    level = chance.randint(1, len(LEVELS_MS))
    await walk.send(WAITING, DeliveryRequest(delay_level=level), _turns(chance))


async def _send_timed(walk: LaterWalk, chance: Random) -> None:
    delay_ms = chance.choice(DELAYS_MS) + chance.choice((0, chance.randrange(1_000)))
    at_ms = walk.now.wall_ms + delay_ms
    delivery = chance.choice(
        (
            DeliveryRequest(delay_ms=delay_ms),
            DeliveryRequest(deliver_at_ms=at_ms),
            DeliveryRequest(deliver_at_ms=at_ms // 1_000 * 1_000),
        )
    )
    await walk.send(WAITING, delivery, _turns(chance))


async def _send_half(walk: LaterWalk, chance: Random) -> None:
    await walk.send(HALF, DeliveryRequest(transactional=True), _turns(chance))


# -- settling --------------------------------------------------------------------------------------
async def _recall(walk: LaterWalk, chance: Random) -> None:
    waiting = [key for key in walk.model.waiting() if key in walk.handles]
    keys = waiting if chance.random() < 0.8 else [*walk.handles]
    if keys:
        await walk.recall(chance.choice(keys), _turns(chance))


async def _decide(walk: LaterWalk, chance: Random) -> None:
    left = [key for key in walk.model.open_halves() if key in walk.halves]
    keys = left if chance.random() < 0.8 else [*walk.halves]
    group = chance.choice(GROUPS)
    keys = [key for key in keys if walk.halves[key][0] == group]
    if keys:
        chosen = chance.sample(keys, min(len(keys), chance.randint(1, DECIDED_MAX)))
        await walk.decide(chosen, chance.choice(DECISIONS), _turns(chance))


async def _decide_wrongly(walk: LaterWalk, chance: Random) -> None:
    keys = [*walk.halves]
    if len(keys) > 1:
        key, other = chance.sample(keys, 2)
        await walk.decide_wrongly(key, other, chance.choice(DECISIONS))


# -- time and lives --------------------------------------------------------------------------------
async def _time_passes(walk: LaterWalk, chance: Random) -> None:
    await walk.pass_time(chance.choice(PASSED_MS), _turns(chance, TURNS_OF_STEPS_MAX))


async def _jump(walk: LaterWalk, chance: Random) -> None:
    back = -walk.set_ms if walk.set_ms and chance.random() < 0.5 else 0
    by_ms = back or chance.choice((1, -1)) * chance.choice(JUMPS_MS)
    await walk.jump(by_ms, is_seen=chance.random() < 0.7)


async def _restart(walk: LaterWalk, chance: Random) -> None:
    await walk.restart()


async def _kill(walk: LaterWalk, chance: Random) -> None:
    await walk.kill()


async def _cut(walk: LaterWalk, chance: Random) -> None:
    if walk.is_sync:
        await walk.cut()


TAKEN: Final[dict[Take, int]] = {
    _send: 2, _send_level: 5, _send_timed: 7, _send_half: 6, _recall: 4, _decide: 6,
    _decide_wrongly: 1, _time_passes: 14, _jump: 3, _restart: 1, _kill: 1, _cut: 1,
}  # fmt: skip
"""Weights of the steps."""


async def _walk_on(
    loop: SeededLoop, seed: int, steps: int, counts: Counter[str], kind: type[LaterWalk]
) -> None:
    chance = Random(seed)
    walk = kind(loop, seed, flush=chance.choice(("sync", "async")))
    try:
        await walk.begin()
        weights = dict(TAKEN)
        if chance.random() < UNSET_PART:
            del weights[_jump]
        for take in chance.choices([*weights], [*weights.values()], k=steps):
            await take(walk, chance)
        await walk.end()
    except BaseException as error:
        error.add_note("\n".join(walk.calls))
        raise
    counts.update(walk.counts)
    for states in walk.model.states.values():
        counts.update(states)
    counts["walks"] += 1


def walk(seed: int, steps: int, counts: Counter[str], kind: type[LaterWalk] = LaterWalk) -> None:
    """Takes one walk, of any kind.

    Errors   AssertionError, or whatever escaped; how to do it again is part of its notes
    """
    repro = f"tests.models.later_steps.walk({seed}, {steps}, Counter())"
    tell_seeded(seed, lambda loop: _walk_on(loop, seed, steps, counts, kind), repro)
