"""Kills brokers by SIGKILL while messages wait for delay levels, and checks all deliveries.

    receive and send back, level 1 or 2 ─► kill -9 ─► start ─► … ─► all levels over ─► compare

The schedule topic contains the delayed messages, the group's retry topic the delivered ones. At the
end both are read: each delayed message must have been delivered exactly once, unchanged, and not
before its level's delay.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Final

from harness.budget import Budget
from harness.process import Serving, running, serve
from pocketmq.client import AsyncClient, ClientError, Message, PullQuery
from pocketmq.client.values import ReceiveQuery
from pocketmq.model.administration import GroupSettings
from pocketmq.model.message import StoredMessage
from pocketmq.store.timer.level_clocks import DRIFT_MS

GROUP, TOPIC = "readers", "orders"
RETRY, SCHEDULE = f"%RETRY%{GROUP}", "SCHEDULE_TOPIC_XXXX"
LEVELS_MS: Final = {1: 1_000, 2: 5_000}
SENT: Final = 40
"""Messages sent in each life."""
ATTEMPTS: Final = 50
INVISIBLE_MS: Final = 3_600_000
"""So long that no lease expires: its redelivery would be in the retry topic without a delay."""
END_S: Final = 60
ROUNDING_MS: Final = DRIFT_MS + 1
"""How much earlier than its due time a message may come: both clocks of the broker are read in ms,
and differences of DRIFT_MS between them are not followed."""
FIGURES: Final = ("stores", "kills", "waited", "lost", "delivered twice", "early")
SMALL: Final = (
    "store.commit_log_file_size_bytes=1MiB",
    "store.consume_queue_file_size_bytes=20000",
)


@asynccontextmanager
async def _served(store: Path, flush: str) -> AsyncIterator[tuple[AsyncClient, Serving]]:
    """Serves a store; in any case the process is gone at the end of the block."""
    command = serve(store, *SMALL, f"store.flush={flush}", http="")
    with running(command, store.with_suffix(".log")) as broker:
        async with AsyncClient(broker.ready["grpc"], retry_ms=0) as client:
            yield client, broker


async def _work(client: AsyncClient, chance: Random, number: int) -> None:
    """Sends messages, receives them and sends them back, until the broker is gone."""
    with suppress(ClientError):
        await client.send_many([Message(TOPIC, f"{number}-{n}".encode()) for n in range(SENT)])
        while True:
            count = chance.randint(1, 32)
            asked = ReceiveQuery(GROUP, TOPIC, count, INVISIBLE_MS, wait_ms=500)
            entries = [
                (one.receipt_handle, chance.choice((1, 1, 2)))
                for one in await client.receive(asked)
            ]
            if entries:
                await client.send_back(GROUP, TOPIC, entries)


async def _all(client: AsyncClient, topic: str, queue_id: int) -> list[StoredMessage]:
    """Returns all messages of a queue."""
    found: list[StoredMessage] = []
    at = 0
    while True:
        page = await client.admin.pull(PullQuery(topic, queue_id, at, max_messages=1024))
        if not page.messages:
            return found
        found += page.messages
        at = page.next_begin_offset


def _mark(message: StoredMessage) -> tuple[str, int]:
    return message.unique_key, message.reconsume_times


async def _judged(client: AsyncClient) -> tuple[Counter[str], str]:
    """Waits until every delay is over; returns figures, and a description of errors."""
    figures: Counter[str] = Counter()
    for _ in range(END_S):
        waited = {level: await _all(client, SCHEDULE, level - 1) for level in LEVELS_MS}
        delivered = Counter(map(_mark, await _all(client, RETRY, 0)))
        if sum(map(len, waited.values())) <= sum(delivered.values()):
            break
        await asyncio.sleep(1)
    await asyncio.sleep(1)
    found = await _all(client, RETRY, 0)
    stored_ms = {_mark(message): message.store_timestamp_ms for message in found}
    delivered = Counter(map(_mark, found))
    wanted = Counter(_mark(message) for own in waited.values() for message in own)
    figures["waited"] = sum(wanted.values())
    figures["lost"] = sum((wanted - delivered).values())
    figures["delivered twice"] = sum((delivered - wanted).values())
    late_ms = [0]
    for level, own in waited.items():
        for message in own:
            if _mark(message) in stored_ms:
                due_ms = message.store_timestamp_ms + LEVELS_MS[level]
                late_ms.append(stored_ms[_mark(message)] - due_ms)
    figures["early"] = sum(late < -ROUNDING_MS for late in late_ms)
    wrong = [name for name in ("lost", "delivered twice", "early") if figures[name]]
    return figures, f"{dict(figures)}" if wrong else ""


async def _one_store(store: Path, seed: int, lives: int, flush: str) -> tuple[Counter[str], str]:
    chance = Random(seed)
    for number in range(lives):
        async with _served(store, flush) as (client, broker):
            if number == 0:
                await client.admin.create_group(GROUP, GroupSettings(max_attempts=ATTEMPTS))
            work = asyncio.create_task(_work(client, chance, number))
            await asyncio.sleep(chance.uniform(0.3, 4.0))
            broker.process.kill()
            await work
    async with _served(store, flush) as (client, _):
        figures, wrong = await _judged(client)
    return figures + Counter({"kills": lives, "stores": 1}), wrong


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Kills until the time is over; returns the figures.

    Errors   AssertionError: a message was lost, duplicate or early
    """
    total: Counter[str] = Counter()
    for seed in budget.seeds():
        flush = ("sync", "async")[seed % 2]
        figures, wrong = asyncio.run(_one_store(place / f"store{seed}", seed, 8, flush))
        assert not wrong, f"seed {seed}, {flush} flush: {wrong}"
        total += figures
        budget.progress(json.dumps(total))
    return {name: total[name] for name in FIGURES}
