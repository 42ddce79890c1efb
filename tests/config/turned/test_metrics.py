"""Contents of /metrics as the operator's settings choose them."""

import re
from pathlib import Path
from typing import Final

import pytest

from pocketmq.client import Message
from tests.running_broker import RunningBroker, broker_with

OF_A_QUEUE: Final = re.compile(r'topic="orders".*queue_id="0"|queue_id="0".*topic="orders"')


async def page(broker: RunningBroker) -> str:
    await broker.client.send_many([Message("orders", b"x", queue_id=0)])
    return await broker.page("/metrics")


@pytest.mark.knob("metrics.profile")
async def test_metrics_have_the_names_of_older_brokers_too(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "new") as broker:
        shown = await page(broker)
    assert "rocketmq_rpc_latency_milliseconds_bucket" in shown
    assert "rocketmq_rpc_latency_bucket" not in shown
    async with broker_with(tmp_path / "old", "metrics.profile=native-legacy") as broker:
        assert "rocketmq_rpc_latency_bucket" in await page(broker)


@pytest.mark.knob("metrics.detail")
async def test_full_detail_tells_of_each_queue(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "public") as broker:
        assert not OF_A_QUEUE.search(await page(broker))
    async with broker_with(tmp_path / "full", "metrics.detail=full") as broker:
        assert OF_A_QUEUE.search(await page(broker))


@pytest.mark.knob("metrics.max_series")
async def test_beyond_this_series_are_left_out_and_counted(tmp_path: Path) -> None:
    async with broker_with(tmp_path, "metrics.max_series=150") as broker:
        await page(broker)
        shown = await page(broker)
    # A page tells what the pages before it left out.
    name = "pocketmq_metrics_dropped_series_total "
    (count,) = [line for line in shown.splitlines() if line.startswith(name)]
    assert float(count.split()[-1]) > 0
