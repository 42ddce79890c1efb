"""Export of spans and metrics to a receiver of OpenTelemetry as the operator's settings choose."""

import asyncio
from pathlib import Path

import pytest

from pocketmq.client import Message, PullQuery, ReceiveQuery
from tests.kit.otlp_receiver import OtlpReceiver, attributes, otlp_receiver
from tests.running_broker import broker_with

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACED = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}


async def life(directory: Path, receiver: OtlpReceiver, *settings: str) -> None:
    """Sends, receives and acknowledges a message, and waits for the last export."""
    endpoint = f"otel.endpoint={receiver.endpoint}"
    async with broker_with(directory, endpoint, *settings) as broker:
        client = broker.client
        await client.admin.create_group("readers")
        await client.send(Message("orders", b"paid", properties=TRACED))
        query = ReceiveQuery("readers", "orders", wait_ms=10_000)
        (leased,) = await client.receive(query)
        await client.ack("readers", "orders", [leased.receipt_handle])
        if "otel.traces=false" not in settings:
            assert await asyncio.to_thread(receiver.has, "ack orders")


@pytest.mark.knob("otel.endpoint")
async def test_the_life_of_a_message_is_one_trace(tmp_path: Path) -> None:
    with otlp_receiver() as receiver:
        await life(tmp_path, receiver)
    assert receiver.names == ["send orders", "deliver orders", "ack orders"]
    assert {span.trace_id.hex() for span in receiver.spans} == {TRACE}
    assert attributes(receiver.spans[1])["messaging.consumer.group.name"] == "readers"
    assert receiver.service["service.instance.id"] == "broker-a"


async def test_a_pull_of_a_group_is_a_delivery_and_others_are_not(tmp_path: Path) -> None:
    with otlp_receiver() as receiver:
        async with broker_with(tmp_path, f"otel.endpoint={receiver.endpoint}") as broker:
            client = broker.client
            await client.admin.create_group("readers")
            sent = await client.send(Message("orders", b"paid", properties=TRACED))
            for group in ("", "readers"):
                query = PullQuery("orders", sent.queue_id, sent.queue_offset, group=group)
                assert len((await client.pull(query)).messages) == 1
            assert await asyncio.to_thread(receiver.has, "deliver orders")
    assert sorted(receiver.names) == ["deliver orders", "send orders"]
    (pulled,) = (span for span in receiver.spans if span.name == "deliver orders")
    assert attributes(pulled)["messaging.consumer.group.name"] == "readers"


@pytest.mark.knob("otel.traces")
async def test_without_traces_metrics_alone_are_exported(tmp_path: Path) -> None:
    with otlp_receiver() as receiver:
        await life(tmp_path, receiver, "otel.traces=false")
    assert receiver.spans == []
    assert "pocketmq_ack_total" in receiver.metrics


@pytest.mark.knob("otel.metrics_interval_ms")
async def test_metrics_are_exported_at_an_interval_or_never(tmp_path: Path) -> None:
    with otlp_receiver() as receiver:
        settings = (f"otel.endpoint={receiver.endpoint}", "otel.metrics_interval_ms=10ms")
        async with broker_with(tmp_path / "often", *settings):
            assert await asyncio.to_thread(receiver.has, "pocketmq_build_info")
    with otlp_receiver() as receiver:
        await life(tmp_path / "never", receiver, "otel.metrics_interval_ms=0ms")
        assert receiver.metrics == {}
