"""Crashes at every step of receives, delays and transactions.

    for crash in crashes("delivered by the timer", 7, "sync", cuts=2):
        lived_on(crash)      raises AssertionError for a lost or repeated message

A case brings a walk to a due or requested delivery, and yields it. From each crash within it
another walk begins, with all answers until then. It ends as all walks do: everything due is
delivered and compared. A power cut may tear an unacknowledged put: a copy stays, and the ack after
it does not. Then there is one copy more (COPIES).
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from copy import deepcopy
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple

from pocketmq.model.transaction import Decision, Resolution
from pocketmq.services.produce.drafts import DeliveryRequest
from tests.kit.store_language import BORN_HOST
from tests.models import consume_operators
from tests.models.consume_model import BURIED, DELAYED, Asked, State, World
from tests.models.consume_model import WAITING as WAITS
from tests.models.consume_settling import DELAYS_MS, send_back
from tests.models.consume_walk import GROUPS, ConsumeWalk
from tests.models.later_model import HALF, WAITING
from tests.models.later_walk import LEVELS_MS, RULES, LaterWalk
from tests.sim.crash_points import CrashPoints, Point
from tests.sim.loop import SeededLoop
from tests.sim.seeded_store import stop_short, tell_seeded

Call = Callable[[], Awaitable[Any]]
Walk = LaterWalk | ConsumeWalk
Case = AsyncGenerator[Call, Any]
LEASE_MS: Final = 1_000
WRITTEN_AFTER_MS: Final = 10_100
"""Time after which every service has saved its progress."""


class Crash(NamedTuple):
    """A crash; `told`: attributes of the walk at that moment, as its clients knew them."""

    case: str
    seed: int
    flush: str
    point: Point
    told: dict[str, Any]


# -- what is delivered later -----------------------------------------------------------------------
async def _timer(walk: LaterWalk) -> Case:
    for delay_ms in (1_000, 1_000, 1_900, 60_000):
        await walk.send(WAITING, DeliveryRequest(delay_ms=delay_ms))
    walk.loop.clock.advance(4_000)
    yield walk.step_all
    await walk.look(is_stepped=True)


async def _arrival(walk: LaterWalk) -> Case:
    for delay_ms in (1_000, 7_000):
        await walk.send(WAITING, DeliveryRequest(delay_ms=delay_ms))
    yield walk.step_all
    await walk.look(is_stepped=True)


async def _level(walk: LaterWalk) -> Case:
    for level in (1, 1, 2):
        await walk.send(WAITING, DeliveryRequest(delay_level=level))
    await walk.pass_time(500)
    walk.loop.clock.advance(LEVELS_MS[1])
    yield walk.step_all
    await walk.look(is_stepped=True)


async def _recall(walk: LaterWalk) -> Case:
    await walk.send(WAITING, DeliveryRequest(delay_ms=7_000))
    await walk.steps()
    (key,) = walk.handles
    walk.model.recalled(key, walk.now, ok=None)
    yield partial(
        walk.sending.recall.recall, walk.model.sent[key].topic, walk.handles[key], BORN_HOST
    )
    walk.model.recalled(key, walk.now, ok=True)


async def _decided(walk: LaterWalk, resolution: Resolution) -> Case:
    for _ in range(3):
        await walk.send(HALF, DeliveryRequest(transactional=True))
    group = next(iter(walk.halves.values()))[0]
    keys = [key for key, (its_group, _) in walk.halves.items() if its_group == group]
    for key in keys:
        walk.model.decided(key, resolution.value, None, is_told=False)
    decisions = [Decision(walk.halves[key][1], resolution) for key in keys]
    answers = yield partial(walk.transactions.decide, group, decisions)
    for key, answer in zip(keys, answers, strict=True):
        assert answer.error is None
        walk.model.decided(key, resolution.value, None, is_told=True)


async def _check_back(walk: LaterWalk) -> Case:
    for _ in range(2):
        await walk.send(HALF, DeliveryRequest(transactional=True))
    await walk.pass_time(RULES.timeout_ms)
    walk.loop.clock.advance(RULES.interval_ms)
    yield walk.step_all
    assert walk.counts["asked"]
    await walk.look(is_stepped=True)


async def _given_up(walk: LaterWalk) -> Case:
    await walk.send(HALF, DeliveryRequest(transactional=True))
    for _ in range(RULES.checks_max):
        await walk.pass_time(RULES.timeout_ms + RULES.interval_ms)
    walk.loop.clock.advance(RULES.interval_ms)
    yield walk.step_all
    await walk.look(is_stepped=True)


async def _later_written_down(walk: LaterWalk) -> Case:
    """Saves the progress of each service after deliveries and transaction checks."""
    for delay in (
        DeliveryRequest(delay_ms=1_000),
        DeliveryRequest(delay_ms=1_900),
        DeliveryRequest(delay_level=1),
    ):
        await walk.send(WAITING, delay)
    await walk.send(HALF, DeliveryRequest(transactional=True))
    walk.loop.clock.advance(4_000)
    yield partial(_stepped_until_written, walk)
    await walk.look(is_stepped=True)


async def _stepped_until_written(walk: Walk) -> None:
    for pause_ms in (WRITTEN_AFTER_MS, 0):
        await walk.step_all()
        await walk.loop.pause(0.001)  # Another task writes the progress.
        walk.loop.clock.advance(pause_ms)


# -- what is consumed ------------------------------------------------------------------------------
async def _leased(walk: ConsumeWalk, group: str, attempts: int = 1) -> None:
    """Leases three messages a number of times."""
    await walk.send(GROUPS[group], 0, ("a", "x"), ("a", "x"), ("b", "x"))
    for number in range(attempts):
        if number:
            walk.loop.clock.advance(LEASE_MS)
            await walk.steps()
        assert await walk.receive(group, 32, LEASE_MS)


async def _received(walk: ConsumeWalk, group: str) -> Case:
    await walk.send(GROUPS[group], 0, ("a", "x"), ("a", "x"), ("b", "x"))
    asked, model = Asked(32, "", walk.now_ms), walk.models[group]
    before = deepcopy(model)
    walk.deliveries += 1
    model.received_unanswered(walk.now_ms, walk.now_ms + LEASE_MS, walk.deliveries)
    received = yield partial(walk.received, walk.request(group, asked, LEASE_MS))
    walk.models[group] = before
    before.received(walk.given(group, received), asked, walk.now_ms)


async def _ends(walk: ConsumeWalk, group: str, attempts: int) -> Case:
    await _leased(walk, group, attempts)
    walk.loop.clock.advance(LEASE_MS)
    yield walk.step_all
    for model in walk.models.values():
        model.steps_done(walk.now_ms)


async def _buried(walk: ConsumeWalk) -> Case:
    """Brings a FIFO receive to messages that reached their last attempt."""
    await _leased(walk, "readers", 3)
    walk.loop.clock.advance(LEASE_MS)
    await walk.steps()
    asked, model = Asked(32, "", walk.now_ms), walk.models["readers"]
    before = deepcopy(model)
    walk.deliveries += 1
    model.received_unanswered(walk.now_ms, walk.now_ms + LEASE_MS, walk.deliveries)
    received = yield partial(walk.received, walk.request("readers", asked, LEASE_MS))
    walk.models["readers"] = before
    before.received(walk.given("readers", received), asked, walk.now_ms)


async def _used(
    walk: ConsumeWalk, group: str, change: Callable[[State], World], call: Callable[..., Any]
) -> Case:
    """Uses all handles of a group: `call` gets the group, its topic and the handles."""
    await _leased(walk, group)
    model, handles = walk.models[group], walk.handles
    before = deepcopy(model)
    for handle in handles:
        model.applied(handle.body, handle.delivery, None, change)
        model.may_die_again[handle.body] += 1
    yield partial(call, group, GROUPS[group], [handle.text for handle in handles])
    walk.models[group] = before
    for handle in handles:
        before.applied(handle.body, handle.delivery, True, change)


def _acked(walk: ConsumeWalk, group: str) -> Case:
    return _used(walk, group, lambda _: (), walk.consume.ack)


def _changed(walk: ConsumeWalk, group: str) -> Case:
    def call(group: str, topic: str, texts: list[str]) -> Awaitable[Any]:
        return walk.consume.change_invisible(group, topic, [(text, 5_000) for text in texts])

    until_ms = walk.now_ms + 5_000
    return _used(walk, group, lambda s: (s._replace(at_ms=until_ms),), call)


def _sent_back(walk: ConsumeWalk) -> Case:
    def call(group: str, topic: str, texts: list[str]) -> Awaitable[Any]:
        return walk.consume.send_back(group, topic, [(text, 1) for text in texts])

    at_ms, model = walk.now_ms + DELAYS_MS[0], walk.models["workers"]
    return _used(walk, "workers", lambda s: (model.again(DELAYED, s, at_ms),), call)


def _forwarded(walk: ConsumeWalk, group: str) -> Case:
    return _used(walk, group, lambda _: (BURIED,), walk.consume.forward_to_dead_letters)


async def _consumed_written_down(walk: ConsumeWalk) -> Case:
    """Saves a group's offsets, and the offset a start reads from, after leases expired."""
    await _leased(walk, "workers")
    walk.loop.clock.advance(LEASE_MS)
    yield partial(_stepped_until_written, walk)
    for model in walk.models.values():
        model.steps_done(walk.now_ms)


async def _comes_again(walk: ConsumeWalk) -> Case:
    """Redelivers a message that was sent back, after its delay level."""
    await _leased(walk, "workers")
    await send_back(walk, "workers", walk.handles, 1)
    walk.loop.clock.advance(DELAYS_MS[1])
    yield walk.step_all
    for model in walk.models.values():
        model.steps_done(walk.now_ms)


CASES: Final[dict[str, Callable[[Any], Case]]] = {
    "taken in by the timer": _arrival,
    "delivered by the timer": _timer,
    "delivered by a level": _level,
    "recalled": _recall,
    "committed": partial(_decided, resolution=Resolution.COMMIT),
    "rolled back": partial(_decided, resolution=Resolution.ROLLBACK),
    "checked back": _check_back,
    "given up": _given_up,
    "received": partial(_received, group="workers"),
    "received in order": partial(_received, group="readers"),
    "revived": partial(_ends, group="workers", attempts=1),
    "revived to die": partial(_ends, group="workers", attempts=3),
    "buried in order": _buried,
    "acknowledged": partial(_acked, group="workers"),
    "acknowledged in order": partial(_acked, group="readers"),
    "hidden": partial(_changed, group="workers"),
    "hidden in order": partial(_changed, group="readers"),
    "sent back": _sent_back,
    "comes again": _comes_again,
    "made dead letters": partial(_forwarded, group="workers"),
    "made dead letters in order": partial(_forwarded, group="readers"),
}
LATER: Final = 8
"""Number of cases, from the first one on, that use the model of delays."""
WRITTEN: Final[dict[str, Callable[[Any], Case]]] = {
    "delivered and written down": _later_written_down,
    "consumed and written down": _consumed_written_down,
}
"""Cases in which services save their progress; they take longer."""


def _again(walk: ConsumeWalk, s: State) -> State:
    return walk.models["workers"].again(WAITS, s)


COPIES: Final[dict[str, Callable[[ConsumeWalk, State], State]]] = {
    "revived": _again,
    "revived to die": _again,
    "sent back": lambda walk, s: walk.models["workers"].again(
        DELAYED, s, walk.now_ms + DELAYS_MS[0]
    ),
}
"""Copies that a torn put may leave, by case: they precede the ack of a lease."""


class _CaseWalk(ConsumeWalk):
    """A walk whose groups begin at the first message, as cases send before they receive."""

    at_end_part = 0.0


def _begun(case: str, loop: SeededLoop, seed: int, flush: str) -> Walk:
    is_later = case in [*CASES][:LATER] or case == "delivered and written down"
    kind = LaterWalk if is_later else _CaseWalk
    return kind(loop, seed, flush=flush)


TOLD: Final = (
    "model", "models", "handles", "halves", "attempts", "sent", "number", "deliveries", "redriven"
)  # fmt: skip


def _told(walk: Walk) -> dict[str, Any]:
    return deepcopy({name: vars(walk)[name] for name in TOLD if name in vars(walk)})


def _torn(case: str, walk: Walk) -> dict[str, Any]:
    """Returns the state in which copies of leased messages may exist beside their leases."""
    told = _told(walk)
    if isinstance(walk, ConsumeWalk) and case in COPIES:
        copy = partial(COPIES[case], walk)
        for handle in told["handles"]:
            model = told["models"][handle.group]
            model.applied(handle.body, handle.delivery, None, lambda s: (s, copy(s)))
    return told


def crashes(
    case: str, seed: int, flush: str, *, cuts: int, is_log_behind: bool = False
) -> list[Crash]:
    """Returns the crashes of a case.

    cuts           how many power cuts at each call of the disk
    is_log_behind  instead: power cuts that leave the log behind all other files; what came before
                   the case is durable
    """
    found: list[Crash] = []

    async def story(loop: SeededLoop) -> None:
        walk = _begun(case, loop, seed, flush)
        await walk.begin()
        told = (CASES | WRITTEN)[case](walk)
        call = await anext(told)
        if is_log_behind:
            await walk.store.flush()
        random = Random(seed)
        points = CrashPoints(walk.disk, loop.clock, random, cuts=cuts, is_log_behind=is_log_behind)
        before = {True: _told(walk), False: _torn(case, walk)}
        with points.taken():
            answer = await call()
        with suppress(StopAsyncIteration):
            await told.asend(answer)
        last = CrashPoints(
            walk.disk, loop.clock, Random(seed), cuts=cuts, is_log_behind=is_log_behind
        )
        last.take("the answer")
        # With async flush, a power cut may remove acknowledged messages.
        after = before[False] if is_log_behind and flush == "async" else _told(walk)
        found.extend(Crash(case, seed, flush, p, before[p.is_kill]) for p in points.found)
        found.extend(Crash(case, seed, flush, point, after) for point in last.found)
        await stop_short()

    tell_seeded(seed, story, f"tests.sim.crash_deliveries.crashes({case!r}, {seed}, {flush!r})")
    return found


def lived_on(crash: Crash) -> None:
    """Starts again after a crash, waits for all messages, and compares.

    Errors   AssertionError, or whatever escaped
    """
    case, seed, flush, point, told = crash

    async def story(loop: SeededLoop) -> None:
        clock, passed_ms = loop.clock, int(loop.time() * 1_000)
        clock.wall = point.now.wall_ms - passed_ms
        clock.monotonic = point.now.monotonic_ms - passed_ms
        walk = _begun(case, loop, seed, flush)
        vars(walk).update(deepcopy(told))
        try:
            if isinstance(walk, LaterWalk):
                await walk.open_again(point.image)
                await walk.end()
            else:
                await walk.open_crashed(point.image)
                await walk.steps()
                await consume_operators.end(walk)
        except BaseException as error:
            error.add_note("\n".join(walk.calls))
            raise

    what = "killed" if point.is_kill else "power cut"
    tell_seeded(seed, story, f"{case}, {flush} flush, seed {seed}: {what} at {point.where}")
