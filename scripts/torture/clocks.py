"""Sets the wall clock of a broker while delayed messages are pending, and measures each delay.

    saw tooth of a second ─ 700 ms ─ an hour ─ 400 days, forward and back; starts between

Messages have a delivery time (0.3 to 6 s ahead) or a delay level; some are recalled. The broker
runs in this process, without transports, on real files, with a simulated wall clock. Time in which
the process waits for a core is reported separately and does not count as lateness.
"""

import asyncio
from bisect import bisect_left
from collections import Counter
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, Final

from harness.budget import Budget
from harness.inside import SetClock
from pocketmq.app.parts import Parts
from pocketmq.format.record import decode_record
from pocketmq.model.errors import BrokerError
from pocketmq.model.reading import ReadRange
from pocketmq.services.produce.drafts import DeliveryRequest
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of
from torture.handover import HOST
from torture.pending import KEY, TOPIC, sent, serving

HOUR_MS: Final = 3_600_000
DAYS_MS: Final = 400 * 24 * HOUR_MS
JUMPS_MS: Final = (1_000, 1_000, 1_000, 700, HOUR_MS, DAYS_MS)
JUMPS_PER_STORE: Final = 200
START_PART: Final = 0.04
"""Share of the clock's jumps after which the broker restarts."""
LEVELS_MS: Final = {1: 1_000, 2: 5_000}
EARLY_MS: Final = 50
LATE_MS: Final = 4_000
"""Allowed lateness: a slot's second, up to a second of rounding, and delays of a busy disk."""
WAITS: Final = Path("/proc/self/schedstat")
"""File whose second number is the time that this thread has waited for a core, in ns."""
RECALLED_MS: Final = 2_500
LOOK_S: Final = 0.02
FIGURES: Final = (
    "stores", "jumps", "starts", "sent for a time", "sent for a level", "recalled",
    "set while sent", "came", "early", "late", "lost", "twice", "came though recalled",
    "latest, ms", "waits for a core among it, ms",
)  # fmt: skip
LATEST: Final = FIGURES[13:]


class Watched:
    """Sent messages and their delivery times by number; times are monotonic ms."""

    def __init__(self) -> None:
        self.due_ms: dict[int, float] = {}
        self.levels: set[int] = set()
        self.recalled: set[int] = set()
        self.maybe: set[int] = set()
        """Messages recalled when they were nearly due: they may be delivered."""
        self.vague: set[int] = set()
        """Messages with a wall time during whose send the clock was set: the due time is vague."""
        self.came_ms: dict[int, float] = {}
        self.counts: Counter[int] = Counter()
        self._read: Counter[int] = Counter()
        self._waits: list[tuple[float, float]] = []
        """(Monotonic time, total time of waiting for a core) at each `look`, in ms."""
        self.number = 0

    async def look(self, store: MessageStore) -> None:
        """Reads the topic's new messages."""
        waited_ms = int(WAITS.read_text().split()[1]) / 1e6
        self._waits.append((monotonic() * 1_000, waited_ms))
        reading = store.reading
        for queue_id in reading.queue_ids(TOPIC):
            end = reading.queue_range(TOPIC, queue_id)[1]
            while self._read[queue_id] < end:
                asked = ReadRange(TOPIC, queue_id, self._read[queue_id], 99, 1 << 20)
                found = await value_of(reading.pull(asked))
                for record in found.records:
                    number = int(decode_record(record).keys[0].removeprefix(KEY))
                    self.counts[number] += 1
                    self.came_ms.setdefault(number, monotonic() * 1_000)
                self._read[queue_id] = found.next_begin_offset

    async def send(self, parts: Parts, chance: Random, clock: SetClock) -> None:
        """Sends a delayed message; one in four is recalled."""
        self.number += 1
        number, now_ms = self.number, monotonic() * 1_000
        if chance.random() < 0.2:
            level = chance.choice([*LEVELS_MS])
            self.levels.add(number)
            self.due_ms[number] = now_ms + LEVELS_MS[level]
            await sent(parts, TOPIC, number, DeliveryRequest(delay_level=level))
            return
        wait_ms, ahead_ms = chance.randrange(300, 6_000), clock.ahead_ms
        self.due_ms[number] = now_ms + wait_ms
        at_ms = DeliveryRequest(deliver_at_ms=clock.wall_ms() + wait_ms)
        wish = chance.choice((at_ms, DeliveryRequest(delay_ms=wait_ms)))
        done = await sent(parts, TOPIC, number, wish)
        if wish is at_ms and clock.ahead_ms != ahead_ms:
            self.vague.add(number)
        if chance.random() < 0.25:
            await asyncio.sleep(chance.uniform(0, 1))
            await self._take_back(parts, number, done.handles[0])

    async def _take_back(self, parts: Parts, number: int, handle: str) -> None:
        try:
            await parts.backing.send.recall.recall(TOPIC, handle, HOST)
        except BrokerError as error:
            if error.reason not in ("NotWaiting", "IllegalRecallHandle"):
                raise  # Allowed: by the current clock it is due, or too far ahead.
            return
        left_ms = self.due_ms[number] - monotonic() * 1_000
        (self.recalled if left_ms > RECALLED_MS else self.maybe).add(number)

    def figures(self) -> Counter[str]:
        """Returns the figures of the store."""
        late_ms = {
            n: came - self.due_ms[n] for n, came in self.came_ms.items() if n not in self.vague
        }
        timed = {n: ms for n, ms in late_ms.items() if n not in self.levels}
        waits = {n: self._waited_ms(self.due_ms[n], self.came_ms[n]) for n in timed}
        latest = max(timed, key=timed.__getitem__, default=None)
        wanted = self.due_ms.keys() - self.recalled - self.maybe - self.vague
        return Counter({
            "sent for a time": len(self.due_ms) - len(self.levels),
            "sent for a level": len(self.levels), "recalled": len(self.recalled),
            "set while sent": len(self.vague),
            "came": len(self.came_ms), "early": sum(ms < -EARLY_MS for ms in late_ms.values()),
            "late": sum(ms - waits[n] > LATE_MS for n, ms in timed.items()),
            "lost": len(wanted - self.came_ms.keys()),
            "twice": sum(count > 1 for count in self.counts.values()),
            "came though recalled": len(self.recalled & self.came_ms.keys()),
            LATEST[0]: 0 if latest is None else int(timed[latest]),
            LATEST[1]: 0 if latest is None else int(waits[latest]),
        })  # fmt: skip

    def _waited_ms(self, begin_ms: float, end_ms: float) -> float:
        """Returns the time that this process waited for a core between two times."""
        at = [bisect_left(self._waits, (ms, 0.0)) for ms in (begin_ms, end_ms)]
        first, last = (self._waits[min(max(n, 1), len(self._waits)) - 1][1] for n in at)
        return max(last - first, 0.0)


async def _one_store(directory: Path, seed: int, budget: Budget) -> Counter[str]:
    chance, clock, watched = Random(seed), SetClock(), Watched()
    jumps = starts = 0
    while jumps < JUMPS_PER_STORE and (budget.left() or not jumps):
        starts += 1
        async with serving(directory, clock) as (store, parts):
            if not watched.number:
                await store.tables.topics.create(TOPIC, queue_count=2)
            sends: list[asyncio.Task[None]] = []
            while jumps < JUMPS_PER_STORE and chance.random() > START_PART:
                jump_ms = chance.choice((1, -1)) * chance.choice(JUMPS_MS)
                if abs(clock.ahead_ms + jump_ms) > DAYS_MS:
                    jump_ms = -clock.ahead_ms
                clock.ahead_ms += jump_ms
                jumps += 1
                sends += [
                    asyncio.create_task(watched.send(parts, chance, clock))
                    for _ in range(chance.randint(0, 6))
                ]
                until = monotonic() + chance.uniform(0.05, 1.2)
                while monotonic() < until:
                    await watched.look(store)
                    await asyncio.sleep(LOOK_S)
            await asyncio.gather(*sends)
            await watched.look(store)
    async with serving(directory, clock) as (store, _):
        until = monotonic() + (6_000 + LATE_MS) / 1_000
        while monotonic() < until:
            await watched.look(store)
            await asyncio.sleep(LOOK_S)
    return watched.figures() + Counter({"jumps": jumps, "starts": starts, "stores": 1})


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Sets clocks until the time is over, for at least one store.

    Errors   AssertionError: a message was early, late, duplicate or lost, or delivered although
             recalled
    """
    total: Counter[str] = Counter()
    latest = dict.fromkeys(LATEST, 0)
    for seed in budget.seeds():
        figures = asyncio.run(_one_store(place / f"store{seed}", seed, budget))
        own = {name: figures.pop(name, 0) for name in LATEST}
        latest = max(latest, own, key=lambda one: one[LATEST[0]])
        total += figures
        wrong = {name: total[name] for name in FIGURES[8:13] if total[name]}
        assert not wrong, f"seed {seed}: {wrong}, {latest}; {dict(total)}"
        budget.progress(f"{total['jumps']} jumps, {total['came']} came")
    return {name: total[name] for name in FIGURES if name not in LATEST} | latest
