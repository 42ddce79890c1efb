"""Cost of timed messages: a million pending, a burst that is due, lateness.

    python -m bench.timers PIECE DIRECTORY …        one piece in a separate process, as JSON

    pending   timed sends beside few and beside a million pending messages; memory of a million
    start     seconds until a store with a million is open, and until its timer has loaded them
    burst     cost of delivering 100,000 messages that are due at once
    late      lateness of 1,000 messages a second, by the real clock

Store, services and runner are in one process, as in the broker, without a transport. A send lasts
from request bytes to reply bytes, and until the timer has enqueued the message. The benchmark
checks that no message is lost or early.
"""

import asyncio
import gc
import json
import os
import random
import sys
import tempfile
from bisect import bisect_right
from collections.abc import Coroutine, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final

from bench.serving_inside import DIFFERENT, TOPIC, Broker, serving
from harness.figures import Extent, Figure, turns
from harness.inside import PassedClock
from harness.process import anonymous_mib, apart
from pocketmq.format.names import TIMER_WHEEL_FILE
from pocketmq.format.record import decode_record
from pocketmq.model.reading import ReadRange
from pocketmq.model.step import SystemClock
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of

PENDING: Final = 1_000_000
BURST: Final = 100_000
BEHIND: Final = 10_000
"""Timed messages sent just before a kill."""
RATE: Final = 1_000
SECONDS: Final = 10.0
BODY_SIZE: Final = 100
FILL_BATCH: Final = 500
SENDS: Final[dict[int, int]] = {1: 3_000, 100: 20_000}
"""Messages of a round by messages of a request."""
TURN: Final = 64
"""Unary sends in one iteration of the loop."""
HOUR_MS: Final = 3_600_000
_apart = partial(apart, "bench.timers")
LEAD_MS: Final = 3_000
"""Time between the last send and the first delivery."""
STATES: Final = {
    "closed": "closed in order",
    "killed": "killed after some more came",
    "no_wheel": "closed, its wheel lost",
}


def _requests(batch: int, times_ms: Sequence[int]) -> list[bytes]:
    """Returns requests of `batch` messages each; a body begins with its delivery time."""
    messages = [
        pb.Message(
            topic=TOPIC, body=str(at_ms).encode().ljust(BODY_SIZE), tag="TagA", deliver_at_ms=at_ms
        )
        for at_ms in times_ms
    ]
    return [
        pb.SendMessageRequest(messages=messages[at : at + batch]).SerializeToString()
        for at in range(0, len(messages), batch)
    ]


def _far(batch: int, count: int) -> list[bytes]:
    """Returns requests of messages that are due within the next hours, in random order."""
    chance, now_ms = random.Random(batch), SystemClock().wall_ms()
    some = range(batch * min(max(count // batch, 1), DIFFERENT))
    return _requests(batch, [now_ms + chance.randrange(HOUR_MS, 20 * HOUR_MS) for _ in some])


# -- a million that wait ---------------------------------------------------------------------------
async def _pending(directory: Path, count: int, rounds: int, scale: float) -> dict[str, Any]:
    """Returns µs of a send by (messages of a request, whether many are pending), and their MiB."""
    clock = SystemClock()
    filling = min(FILL_BATCH, count)
    raws = _far(filling, count)
    sends = {batch: max(round(of * scale) // batch, 1) for batch, of in SENDS.items()}
    own = {batch: _far(batch, of * batch) for batch, of in sends.items()}
    taken: dict[str, list[float]] = {}
    few_directory, many_directory = directory / "few", directory / "many"
    async with serving(few_directory, clock) as few, serving(many_directory, clock) as many:
        for broker in (few, many):  # Creates everything that is created once.
            await broker.filled(raws[:4], 4 * filling, filling)
        begun, before_mib = process_time(), anonymous_mib(os.getpid())
        await many.filled(raws, count, filling)
        fill_us = (process_time() - begun) * 1e6 / count
        memory_mib = anonymous_mib(os.getpid()) - before_mib
        _check(many, count // filling * filling + 4 * filling)
        for number in range(rounds + 1):  # The first round is a warm-up.
            kinds = [(batch, broker) for batch in SENDS for broker in (few, many)]
            for batch, broker in turns(kinds, number):
                raws = [own[batch][one % len(own[batch])] for one in range(sends[batch])]
                us = await _send_us(broker, raws, batch)
                if number:
                    name = f"{batch}_{'many' if broker is many else 'few'}"
                    taken.setdefault(name, []).append(us)
        waiting = many.parts.timer.waiting_count
    return {"us": taken, "memory_mib": memory_mib, "fill_us": fill_us, "waiting": waiting}


async def _send_us(broker: Broker, raws: Sequence[bytes], batch: int) -> float:
    """Returns the processor time of a message until it is in the timer wheel."""
    gc.collect()
    begun = process_time()
    await broker.sent(raws, TURN if batch == 1 else 1)
    await broker.settled()
    return (process_time() - begun) * 1e6 / (len(raws) * batch)


def _check(broker: Broker, count: int) -> None:
    waiting = broker.parts.timer.waiting_count
    if waiting != count or broker.delivered():
        raise SystemExit(f"{waiting} wait and {broker.delivered()} came of {count} messages")


# -- starts ----------------------------------------------------------------------------------------
async def _start(directory: Path, waiting: int, behind: int) -> None:
    """Prints the phases of a start; kills the process after `behind` messages, or ends it if 0."""
    cpu = process_time()
    async with serving(directory, SystemClock()) as broker:
        cpu = process_time() - cpu
        _check(broker, waiting)
        batch = min(FILL_BATCH, behind or 1)
        told = {**broker.phases, "cpu": cpu, "waiting": waiting + behind // batch * batch}
        print(json.dumps(told), flush=True)
        if behind:
            await broker.filled(_far(batch, behind), behind, batch)
            _check(broker, int(told["waiting"]))
            os._exit(0)


def _start_figures(extent: Extent, directory: Path, waiting: int) -> list[Figure]:
    """Returns seconds of starts of a closed store, a killed store, and one without timer wheel."""
    found: dict[str, list[dict[str, float]]] = {state: [] for state in STATES}
    order = [state for state in STATES for _ in range(extent.rounds)]
    for state, following in zip(order, [*order[1:], "closed"], strict=True):
        if state == "no_wheel":
            (directory / TIMER_WHEEL_FILE).unlink()
        behind = extent.count(BEHIND) if following == "killed" else 0
        one = _apart("start", directory, waiting, behind)
        waiting = one["waiting"]
        found[state].append(one)
    figures = []
    for state, why in STATES.items():
        what = f"start with {extent.count(PENDING):,} pending timers, {why}"
        runs = found[state]
        beyond = [one["leases"] + one["timer"] for one in runs]
        figures += [
            Figure.of(f"timers_start_{state}_log", f"{what}: log and views",
                      [one["log"] for one in runs], "s"),
            Figure.of(f"timers_start_{state}", f"{what}: beyond that, until the timer knows all",
                      beyond, "s", "≤ 3"),
            Figure.of(f"timers_start_{state}_leases", "of that leases and transactions, which look "
                      "through their journals", [one["leases"] for one in runs], "s"),
        ]  # fmt: skip
    return figures


# -- a burst, and lateness -------------------------------------------------------------------------
async def _burst(directory: Path, count: int, rounds: int) -> dict[str, Any]:
    """Returns thousands of messages delivered in a CPU-second, all due at once, with dispatch."""
    rates, seconds = [], []
    clock = PassedClock()
    batch = min(FILL_BATCH, count)
    count = count // batch * batch
    async with serving(directory, clock) as broker:
        for _ in range(rounds):
            at_ms = (clock.wall_ms() + HOUR_MS) // 1000 * 1000
            raws = _requests(batch, [at_ms] * batch * min(count // batch, DIFFERENT))
            before = broker.delivered()
            await broker.filled(raws, count, batch)
            clock.ahead_ms += at_ms - 2_000 - clock.wall_ms()
            await asyncio.sleep(1)  # Lets hourly tasks finish.
            if broker.delivered() != before:
                raise SystemExit("messages came early")
            clock.ahead_ms += at_ms - clock.wall_ms()
            begun, cpu = perf_counter(), process_time()
            await broker.came(before + count)
            await broker.settled()
            rates.append(count / (process_time() - cpu) / 1000)
            seconds.append(perf_counter() - begun)
            if broker.delivered() != before + count or broker.parts.timer.waiting_count:
                raise SystemExit(f"{broker.delivered() - before} messages came, {count} were due")
    return {"rates": rates, "seconds": seconds}


async def _late(directory: Path, count: int, milliseconds: int) -> dict[str, float]:
    """Returns p99 of the lateness of messages against the promised second, and the exact time."""
    clock, chance = SystemClock(), random.Random(count)
    async with serving(directory, clock, queue_count=1) as broker:
        begin_ms = clock.wall_ms() + LEAD_MS
        times_ms = [begin_ms + chance.randrange(milliseconds) for _ in range(count)]
        await broker.sent(_requests(100, times_ms))
        if clock.wall_ms() >= begin_ms:
            raise SystemExit(f"sending took longer than {LEAD_MS} ms")
        ends, seen_ms, end = [], [], 0
        while end < count:
            await broker.store.reading.arrivals(TOPIC, 0).reached(end + 1)
            seen_ms.append(clock.wall_ms())
            end = broker.store.reading.queue_range(TOPIC, 0)[1]
            ends.append(end)
        due_ms = await _due_ms(broker.store, count)
    if sorted(due_ms) != sorted(times_ms):
        raise SystemExit("other messages came than were sent")
    came_ms = [seen_ms[bisect_right(ends, offset)] for offset in range(count)]
    # Promised is the end of the second of the delivery time; a full second ends the one before.
    promised = [at_ms - -(-due // 1000) * 1000 for at_ms, due in zip(came_ms, due_ms, strict=True)]
    raw = [at_ms - due for at_ms, due in zip(came_ms, due_ms, strict=True)]
    if min(promised) < 0:
        raise SystemExit(f"a message came {-min(promised)} ms early")
    return {"promised": _p99(promised), "raw": _p99(raw)}


async def _due_ms(store: MessageStore, count: int) -> list[int]:
    """Returns the delivery times of the queue's messages, in queue order."""
    due_ms: list[int] = []
    while len(due_ms) < count:
        wanted = ReadRange(TOPIC, 0, len(due_ms), 256, 1 << 20)
        found = await value_of(store.reading.pull(wanted))
        due_ms += [int(decode_record(one).body) for one in found.records]
    return due_ms


def _p99(values: Sequence[int]) -> float:
    return float(sorted(values)[len(values) * 99 // 100])


# -- figures ---------------------------------------------------------------------------------------
def timers_figures(extent: Extent) -> list[Figure]:
    """Sends, memory and starts with a million pending timers; a burst; lateness."""
    count = extent.count(PENDING)
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as temporary:
        place = Path(temporary)
        found = _apart("pending", place, count, extent.rounds, extent.scale)
        figures = _pending_figures(found, count)
        if extent.scale >= 1:  # With fewer messages noise dominates.
            what = f"RssAnon more with {count:,} pending timers"
            figures.append(Figure.of("timers_memory", what, [found["memory_mib"]], "MiB", "≤ 60"))
        figures += _start_figures(extent, place / "many", found["waiting"])
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as temporary:
        burst = extent.count(BURST)
        found = _apart("burst", Path(temporary), burst, extent.rounds)
    what = f"{burst:,} messages due at once: delivered a CPU-second, dispatch included"
    figures.append(Figure.of("timers_burst", what, found["rates"], "k", "≥ 50"))
    what = "from the first look after they were due until all can be pulled"
    figures.append(Figure.of("timers_burst_seconds", what, found["seconds"], "s"))
    late = []
    seconds = extent.seconds(SECONDS)
    for _ in range(extent.rounds):
        with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as temporary:
            rate = extent.count(RATE)
            of_all = max(round(rate * seconds), 1)
            late.append(_apart("late", Path(temporary), of_all, round(seconds * 1000)))
    what = f"{rate:,} due a second for {seconds:g} s: p99 of how late they can be pulled"
    return [
        *figures,
        Figure.of("timers_late", f"{what}, to the end of their second (docs/howto/delays.md)",
                  [one["promised"] for one in late], "ms", "≤ 200"),
        Figure.of("timers_late_raw", "the same to their own ms",
                  [one["raw"] for one in late], "ms"),
    ]  # fmt: skip


def _pending_figures(found: dict[str, Any], count: int) -> list[Figure]:
    figures: list[Figure] = []
    us = found["us"]
    for batch in SENDS:
        few, many = us[f"{batch}_few"], us[f"{batch}_many"]
        what = f"CPU of a timed message of {BODY_SIZE} B, {batch} in a call"
        ratios = [one / other for one, other in zip(many, few, strict=True)]
        figures += [
            Figure.of(f"timers_send_{batch}_few", f"{what}, few pending", few, "µs"),
            Figure.of(f"timers_send_{batch}_many", f"{what}, {count:,} pending", many, "µs"),
            Figure.of(f"timers_send_{batch}", f"{what}: {count:,} ÷ few", ratios, "ratio"),
        ]
    return figures


def _piece(name: str, directory: Path, numbers: Sequence[str]) -> None:
    work: Coroutine[Any, Any, dict[str, Any]]
    match name, [float(number) for number in numbers]:
        case "pending", [count, rounds, scale]:
            work = _pending(directory, int(count), int(rounds), scale)
        case "start", [waiting, behind]:
            asyncio.run(_start(directory, int(waiting), int(behind)))
            return
        case "burst", [count, rounds]:
            work = _burst(directory, int(count), int(rounds))
        case "late", [count, milliseconds]:
            work = _late(directory, int(count), int(milliseconds))
        case _:
            raise SystemExit(__doc__)
    print(json.dumps(asyncio.run(work)))


if __name__ == "__main__":
    _piece(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
