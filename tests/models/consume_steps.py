"""Random walks through consuming, step by step; the same seed gives the same walk.

    walk(7, 50, counts)        raises AssertionError at the first answer that differs

A step is one awaited call, a kill while it is under way, or time that passes.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from pocketmq.model.administration import ResetTarget
from tests.models.consume_operators import (
    check_topics,
    end,
    leave_order,
    make_again,
    redrive,
    reset,
    turn,
)
from tests.models.consume_settling import DELAYS_MS, ack, change, give_up, send_back
from tests.models.consume_topics import extend, purge, remove
from tests.models.consume_walk import GROUPS, ConsumeWalk, Handle
from tests.sim.loop import SeededLoop
from tests.sim.seeded_store import tell_seeded

SECONDS: Final = (0, 1, 5, 10, 30, 60)
KILLED_PART: Final = 0.15
"""Share of calls during which the broker is killed."""
TURNS_MAX: Final = 12
HANDLES_MAX: Final = 6
WORDS_MAX: Final = 4
COUNT_MAX: Final = 9
ATTEMPTS: Final = "pq"
AGAIN_PART: Final = 0.5
"""Share of receives with an attempt id that are repeated at once."""
Take = Callable[[ConsumeWalk, Random], Awaitable[None]]


def _turns(chance: Random) -> int | None:
    """Returns the iterations from a call's begin to the kill; None, mostly: no kill."""
    return chance.randint(0, TURNS_MAX) if chance.random() < KILLED_PART else None


def _group(chance: Random) -> str:
    return chance.choice(tuple(GROUPS))


# -- producing, receiving --------------------------------------------------------------------------
async def _send(walk: ConsumeWalk, chance: Random) -> None:
    words = [
        (chance.choice("abc"), chance.choice("xy")) for _ in range(chance.randint(1, WORDS_MAX))
    ]
    topic = GROUPS[_group(chance)]
    await walk.send(topic, chance.randrange(walk.queues[topic]), *words)


async def _receive(walk: ConsumeWalk, chance: Random) -> None:
    count, lease_ms = chance.randint(1, COUNT_MAX), max(chance.choice(SECONDS), 1) * 1_000
    await walk.receive(_group(chance), count, lease_ms, turns=_turns(chance))


async def _receive_in_order(walk: ConsumeWalk, chance: Random) -> None:
    count, lease_ms = chance.randint(1, COUNT_MAX), max(chance.choice(SECONDS), 1) * 1_000
    await walk.receive("readers", count, lease_ms, turns=_turns(chance))


async def _receive_some_tag(walk: ConsumeWalk, chance: Random) -> None:
    await walk.receive(_group(chance), chance.randint(1, COUNT_MAX), tag=chance.choice("xy"))


async def _receive_again(walk: ConsumeWalk, chance: Random) -> None:
    group, count = _group(chance), chance.randint(1, COUNT_MAX)
    attempt = chance.choice(ATTEMPTS)
    await walk.receive(group, count, 10_000, attempt=attempt)
    if chance.random() < AGAIN_PART:
        await walk.receive(group, count, 10_000, attempt=attempt)


async def _receive_renewed(walk: ConsumeWalk, chance: Random) -> None:
    lease_ms = chance.choice((1_000, 30_000))
    await walk.receive(_group(chance), chance.randint(1, COUNT_MAX), lease_ms, renews=True)


async def _wait(walk: ConsumeWalk, chance: Random) -> None:
    lease_ms, wait_ms = chance.choice((1_000, 30_000)), chance.choice((500, 20_000))
    await walk.park(_group(chance), chance.randint(1, COUNT_MAX), lease_ms, wait_ms)


async def _leave(walk: ConsumeWalk, chance: Random) -> None:
    walk.note("hang ups")
    await walk.leave()


# -- settling --------------------------------------------------------------------------------------
def _chosen(walk: ConsumeWalk, chance: Random, most: int = HANDLES_MAX) -> list[Handle]:
    """Returns handles of one group, old ones too, each message once."""
    if not walk.handles:
        return []
    picked = [chance.choice(walk.handles) for _ in range(chance.randint(1, most))]
    return [*{h.body: h for h in picked if h.group == picked[0].group}.values()]


async def _ack(walk: ConsumeWalk, chance: Random) -> None:
    if handles := _chosen(walk, chance):
        await ack(walk, handles[0].group, handles, _turns(chance))


async def _change(walk: ConsumeWalk, chance: Random) -> None:
    if handles := _chosen(walk, chance):
        lease_ms = chance.choice(SECONDS) * 1_000
        await change(walk, handles[0].group, handles, lease_ms, _turns(chance))


async def _send_back(walk: ConsumeWalk, chance: Random) -> None:
    handles = _chosen(walk, chance)
    if handles and not walk.models[handles[0].group].is_ordered:  # It would leave its order.
        level = chance.randint(1, len(DELAYS_MS))
        await send_back(walk, handles[0].group, handles, level, _turns(chance))


async def _give_up(walk: ConsumeWalk, chance: Random) -> None:
    if handles := _chosen(walk, chance, most=2):
        await give_up(walk, handles[0].group, handles, _turns(chance))


# -- what operators do -----------------------------------------------------------------------------
async def _reset(walk: ConsumeWalk, chance: Random) -> None:
    group = _group(chance)
    topic = GROUPS[group]
    queue_ids = _queues(walk, topic, chance)
    ranges = [
        walk.store.reading.queue_range(topic, queue_id)
        for queue_id in queue_ids or range(walk.queues[topic])
    ]
    begin, end = max(lower for lower, _ in ranges), min(upper for _, upper in ranges)
    times = _times(walk)
    target = chance.choice(
        (
            ResetTarget(),
            ResetTarget(latest=True),
            ResetTarget(queue_offset=chance.randint(begin, end)) if begin <= end else ResetTarget(),
            ResetTarget(time_ms=chance.choice(times)),
        )
    )
    # Of a reset in order two tables are written, one after the other.
    turns = None if walk.models[group].is_ordered else _turns(chance)
    await reset(walk, group, target, queue_ids, turns)


async def _redrive(walk: ConsumeWalk, chance: Random) -> None:
    await redrive(walk, _group(chance), chance.randint(1, 3), _turns(chance))


def _queues(walk: ConsumeWalk, topic: str, chance: Random) -> list[int]:
    """Returns one queue of a topic, or an empty list, which means all."""
    return chance.choice(([], [chance.randrange(walk.queues[topic])]))


def _times(walk: ConsumeWalk) -> list[int]:
    return [at_ms for queue in walk.sent.values() for _, at_ms in queue] or [walk.now_ms]


async def _purge(walk: ConsumeWalk, chance: Random) -> None:
    topic = GROUPS[_group(chance)]
    queue_ids, before_ms = _queues(walk, topic, chance), chance.choice((0, *_times(walk)[-8:]))
    await purge(walk, topic, queue_ids, before_ms, _turns(chance))


async def _extend(walk: ConsumeWalk, chance: Random) -> None:
    await extend(walk, GROUPS[_group(chance)], _turns(chance))


async def _remove(walk: ConsumeWalk, chance: Random) -> None:
    meanwhile = chance.choice((_ack, _change, _give_up, _time_passes, _restart, _kill, _cut))
    await remove(walk, GROUPS[_group(chance)], lambda: meanwhile(walk, chance), _turns(chance))


async def _settle_while_off(walk: ConsumeWalk, chance: Random) -> None:
    group = _group(chance)
    await turn(walk, group, is_on=False)
    await chance.choice((_ack, _change, _give_up, _time_passes))(walk, chance)
    await turn(walk, group, is_on=True)


async def _make_again(walk: ConsumeWalk, chance: Random) -> None:
    async def nothing(walk: ConsumeWalk, chance: Random) -> None:
        pass

    meanwhile = chance.choice((nothing, _send, _time_passes, _restart, _kill))
    await make_again(walk, _group(chance), lambda: meanwhile(walk, chance))


async def _leave_order(walk: ConsumeWalk, chance: Random) -> None:
    if walk.models["auditors"].is_ordered:
        await leave_order(walk, "auditors")


# -- time and lives --------------------------------------------------------------------------------
async def _time_passes(walk: ConsumeWalk, chance: Random) -> None:
    seconds = chance.choice(SECONDS)
    walk.note("time passes", seconds)
    walk.loop.clock.advance(seconds * 1_000)
    await walk.steps()


async def _time_passes_unseen(walk: ConsumeWalk, chance: Random) -> None:
    seconds = chance.choice(SECONDS)
    walk.note("time passes unseen", seconds)
    walk.loop.clock.advance(seconds * 1_000)


async def _restart(walk: ConsumeWalk, chance: Random) -> None:
    await walk.restart()


async def _kill(walk: ConsumeWalk, chance: Random) -> None:
    await walk.kill()


async def _cut(walk: ConsumeWalk, chance: Random) -> None:
    if walk.is_sync:
        await walk.cut()


async def _pull(walk: ConsumeWalk, chance: Random) -> None:
    await check_topics(walk)


TAKEN: Final[dict[Take, int]] = {
    _send: 5, _receive: 5, _receive_in_order: 3, _receive_some_tag: 2, _receive_again: 2,
    _receive_renewed: 1, _wait: 4, _leave: 1, _ack: 6, _change: 4, _send_back: 3, _give_up: 3,
    _reset: 3, _redrive: 6, _purge: 2, _extend: 1, _remove: 1, _settle_while_off: 2,
    _make_again: 1, _leave_order: 1, _time_passes: 5,
    _time_passes_unseen: 2, _restart: 2, _kill: 2, _cut: 2, _pull: 1,
}  # fmt: skip
"""Weights of the steps."""


async def _walk_on(
    loop: SeededLoop, seed: int, steps: int, counts: Counter[str], kind: type[ConsumeWalk]
) -> None:
    chance = Random(seed)
    walk = kind(loop, seed, flush=chance.choice(("sync", "async")))
    try:
        await walk.begin()
        for take in chance.choices([*TAKEN], [*TAKEN.values()], k=steps):
            await take(walk, chance)
        await end(walk)
    except BaseException as error:
        error.add_note("\n".join(walk.calls))
        raise
    counts.update(walk.counts)
    counts["walks"] += 1


def walk(
    seed: int, steps: int, counts: Counter[str], kind: type[ConsumeWalk] = ConsumeWalk
) -> None:
    """Takes one walk, of any kind.

    Errors   AssertionError, or whatever escaped; how to do it again is part of its notes
    """
    repro = f"tests.models.consume_steps.walk({seed}, {steps}, Counter())"
    tell_seeded(seed, lambda loop: _walk_on(loop, seed, steps, counts, kind), repro)
