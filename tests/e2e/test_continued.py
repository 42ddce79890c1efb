"""The daemon goes on with stores of a real RocketMQ, is killed, starts again, and all is there."""

import asyncio
import signal
from pathlib import Path
from typing import Final

import pytest

from pocketmq.client import AsyncClient, Message, PullQuery
from pocketmq.model.reading import PullStatus
from tests.e2e.daemon import Daemon, bodies_of, here, messages_of
from tests.golden_stores import GoldenStores

COUNT: Final = 300
POLL_S: Final = 0.02

FEATURES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "extension": ("cqext", ()),
    "property crc": ("propcrc", ("enabledAppendPropCRC=true",)),
    "pool": ("basic", ("flushDiskType=ASYNC_FLUSH", "transientStorePoolEnable=true")),
    "warm files": ("basic", ("warmMapedFileEnable=true",)),
}


def settings(*assignments: str) -> tuple[str, ...]:
    return tuple(part for text in assignments for part in ("--set", text))


async def go_on(endpoint: str, topic: str) -> list[bytes]:
    """Sends messages one after the other; returns their bodies when all of them can be pulled."""
    bodies = [b"continued %d " % number + b"x" * 500 for number in range(COUNT)]
    async with AsyncClient(endpoint, retry_ms=0) as client:
        before = len(await messages_of(client, topic))
        for body in bodies:
            await client.send_many([Message(topic, body, tag="TagA", keys=["k"], queue_id=0)])
        while len(await messages_of(client, topic)) < before + COUNT:  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
    return bodies


@pytest.mark.parametrize("feature", FEATURES)
def test_a_real_store_goes_on_through_a_stop_and_a_kill(
    feature: str, golden: GoldenStores, tmp_path: Path
) -> None:
    name, given = FEATURES[feature]
    store = golden.copy(name, tmp_path / name)
    topic = next(
        t for t in sorted(q["topic"] for q in golden.manifest(name)["queues"]) if t[0] != "%"
    )
    with Daemon(store, *settings(*given)) as broker:
        old = bodies_of(broker.endpoint, topic)
        first = asyncio.run(go_on(broker.endpoint, topic))
        assert broker.stop() == 0
    with Daemon(store, *settings(*given)) as broker:
        assert bodies_of(broker.endpoint, topic) == old + first
        second = asyncio.run(go_on(broker.endpoint, topic))
        broker.signal(signal.SIGKILL)
        broker.wait()
    with Daemon(store, *settings(*given)) as broker:
        assert bodies_of(broker.endpoint, topic) == old + first + second
        assert broker.stop() == 0
    done = here("store", "verify", str(store))
    assert (done.code, done.err.count("Error")) == (0, 0), done.out + done.err


RETAINED_BYTES: Final = 200_000
RETENTION: Final = settings(
    "retention.mode=on", "retention.hours=", "retention.age_ms=0",
    f"retention.size_bytes={RETAINED_BYTES}", "retention.interval_ms=20ms",
    "retention.pause_ms=1ms", "store.view_flush_thorough_interval_ms=100ms",
)  # fmt: skip


def test_old_messages_go_and_the_rest_survives_a_kill(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("basic", tmp_path / "basic")
    files = sorted((store / "commitlog").iterdir())
    size = files[0].stat().st_size
    with Daemon(store) as broker:  # A store found keeps its messages.
        asyncio.run(all_are_there(broker.endpoint, len(files)))
        assert broker.stop() == 0
    assert sorted((store / "commitlog").iterdir())[: len(files)] == files
    topic = "expiring"
    with Daemon(store, *RETENTION) as broker:
        asyncio.run(produce(broker.endpoint, topic, 1_200))
        asyncio.run(until_retention_rests(broker.endpoint, topic, size))
        kept = bodies_of(broker.endpoint, topic)
        assert 0 < len(kept) < 1_200
        refused = asyncio.run(pulled_at_zero(broker.endpoint, topic))
        assert refused in (PullStatus.OFFSET_TOO_SMALL, PullStatus.EXPIRED)
        broker.signal(signal.SIGKILL)
        broker.wait()
    with Daemon(store, *settings("retention.mode=off")) as broker:
        assert bodies_of(broker.endpoint, topic) == kept
        assert broker.stop() == 0
    done = here("store", "verify", str(store))
    assert done.code == 0, done.out + done.err


async def all_are_there(endpoint: str, file_count: int) -> None:
    async with AsyncClient(endpoint, retry_ms=0) as client:
        status = await client.admin.store_status()
    assert status.min_offset == 0
    assert file_count > 1


async def produce(endpoint: str, topic: str, count: int) -> None:
    async with AsyncClient(endpoint, retry_ms=0) as client:
        await client.admin.create_topic(topic, queue_count=1)
        for begin in range(0, count, 20):
            batch = range(begin, begin + 20)
            await client.send_many(
                [Message(topic, b"%05d" % n + b"x" * 500, queue_id=0) for n in batch]
            )


async def until_retention_rests(endpoint: str, topic: str, file_size: int) -> None:
    """Returns when the log is short enough, and the queue begins with a message that is there."""
    async with AsyncClient(endpoint, retry_ms=0) as client:
        while True:
            status = await client.admin.store_status()
            first, last = status.min_offset // file_size, status.appended_offset // file_size
            begin = (await client.admin.describe_topic(topic)).queues[0].min_offset
            page = await client.pull(PullQuery(topic, 0, begin))
            is_short = (last - first + 1) * file_size <= RETAINED_BYTES
            if is_short and page.status is PullStatus.FOUND:
                return
            await asyncio.sleep(POLL_S)


async def pulled_at_zero(endpoint: str, topic: str) -> PullStatus:
    async with AsyncClient(endpoint, retry_ms=0) as client:
        return (await client.pull(PullQuery(topic, 0, 0))).status
