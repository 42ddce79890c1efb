"""kill -9 under load: whatever was acknowledged is there afterwards, once, in its order."""

import asyncio
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from broker.model.results import PullStatus
from broker.rpc.client import BrokerClient
from broker.rpc.client_values import ClientError, Outgoing, PullQuery
from tests.e2e.daemon import Daemon

TOPIC = "load"
QUEUE_COUNT = 4
PRODUCERS = 8
SMALL_FILES = (
    *("--set", "mappedFileSizeCommitLog=262144", "--set", "mappedFileSizeConsumeQueue=4000"),
    *("--set", "maxHashSlotNum=500", "--set", "maxIndexNum=3000"),
    *("--set", "maxMessageSize=65536"),
)
"""Everything rolls many times within a run."""

Acknowledged = dict[str, tuple[int, int]]
"""Queue and queue offset by message id."""


async def produce_until_killed(broker: Daemon, acknowledged: Acknowledged, wanted: int) -> None:
    """Send from several producers; kill the broker when so many more are acknowledged."""
    target = len(acknowledged) + wanted
    dice = random.Random(wanted)

    async def produce() -> None:
        async with BrokerClient(broker.endpoint) as client:
            while True:
                count = dice.choice([1, 1, 1, 20])
                body = dice.randbytes(dice.randrange(1, 2_000))
                try:
                    receipts = await client.send([Outgoing(TOPIC, body, keys=["k"])] * count)
                except ClientError:
                    return
                for receipt in receipts:
                    place = (receipt.queue_id, receipt.queue_offset)
                    acknowledged[receipt.message_id] = place
                if len(acknowledged) >= target:
                    broker.signal(signal.SIGKILL)

    await asyncio.gather(*(produce() for _ in range(PRODUCERS)))
    broker.wait()


async def stored(endpoint: str) -> dict[str, tuple[int, int]]:
    """Return every message of the topic; offsets must be dense and ids unique."""
    found: dict[str, tuple[int, int]] = {}
    times: Counter[str] = Counter()
    async with BrokerClient(endpoint) as client:
        for queue_id in range(QUEUE_COUNT):
            position = 0
            while True:
                page = await client.pull(PullQuery(TOPIC, queue_id, position, max_messages=512))
                if page.status is not PullStatus.FOUND:
                    break
                offsets = [message.queue_offset for message in page.messages]
                assert offsets == list(range(position, position + len(offsets)))
                for message in page.messages:
                    found[message.unique_key] = (queue_id, message.queue_offset)
                    times[message.unique_key] += 1
                position = page.next_begin_offset
    assert set(times.values()) <= {1}
    return found


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_what_was_acknowledged_survives_three_kills(tmp_path: Path, flush: str) -> None:
    acknowledged: Acknowledged = {}
    arguments = (*SMALL_FILES, "--set", f"store.flush={flush}")
    for run in range(3):
        with Daemon(tmp_path / "store", *arguments) as broker:
            if not run:
                created = broker.ask("topic", "create", TOPIC, "--queues", str(QUEUE_COUNT))
                assert created.code == 0, created.err
            else:
                assert asyncio.run(stored(broker.endpoint)).items() >= acknowledged.items()
            asyncio.run(produce_until_killed(broker, acknowledged, wanted=1_000 + 300 * run))
    with Daemon(tmp_path / "store", *arguments) as broker:
        assert asyncio.run(stored(broker.endpoint)).items() >= acknowledged.items()
        assert broker.stop() == 0
    assert len(acknowledged) > 3_000
