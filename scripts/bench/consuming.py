"""Broker cost of receiving under leases and acknowledging: messages per CPU second.

Callers receive 32 messages of 1 KiB and acknowledge them by their handles, until all stored
messages are consumed. Storing them is not measured. For FIFO consumption the messages belong to 256
message groups, four consecutive messages each. The benchmark checks that each message was received
once and acknowledged, and that no lease is left.
"""

import asyncio
from typing import Final

import grpc

from bench.servers import (
    ADMIN,
    ASYNC,
    BODY,
    BROKER,
    TOPIC,
    Server,
    broker_server,
    load,
    send_request,
)
from harness.figures import Extent, Figure
from pocketmq.rpc.pb import admin_pb2
from pocketmq.rpc.pb import broker_pb2 as pb

GROUP: Final = "readers"
QUEUE_COUNT: Final = 8
BATCH: Final = 32
CALLERS: Final = 8
MESSAGES: Final = 96_000
MESSAGE_GROUPS: Final = 256
TOGETHER: Final = 4
"""Consecutive messages of one message group in their queue."""
FORMS: Final = {
    "async": ("async flush", (ASYNC,), False),
    "sync": ("sync flush", (), False),
    "ordered": ("in order, async flush", (ASYNC,), True),
    "ordered_sync": ("in order, sync flush", (), True),
}


def consuming_figures(extent: Extent) -> list[Figure]:
    """Messages received and acknowledged in a CPU-second of the broker, and in a second."""
    figures = []
    for name, (form, settings, is_ordered) in FORMS.items():
        by_cpu, by_clock = [], []
        sent = _grouped() if is_ordered else [send_request(BATCH)]
        with broker_server(*settings) as server:
            server.create_topics({TOPIC: QUEUE_COUNT})
            group = admin_pb2.CreateGroupRequest(name=GROUP)
            group.settings.begins_at_min = True
            group.settings.fifo = is_ordered
            server.call(ADMIN + "CreateGroup", group.SerializeToString())
            for _ in range(extent.rounds):
                count = extent.count(MESSAGES // BATCH) * BATCH
                calls = count // (TOGETHER if is_ordered else BATCH)
                load(server, BROKER + "SendMessage", *sent, in_flight=8, count=calls)
                server.catch_up()
                cpu, seconds = asyncio.run(_consume(server, count))
                by_cpu.append(count / cpu / 1000)
                by_clock.append(count / seconds / 1000)
        what = f"receive and ack of {BATCH} × 1 KiB, {form}"
        wanted = "≥ 60" if name == "async" else ""
        figures += [
            Figure.of(
                f"consume_{name}_cpu", f"{what}: messages a CPU-second of the broker", by_cpu,
                "k", wanted,
            ),
            Figure.of(f"consume_{name}", f"{what}: messages/s, {CALLERS} callers", by_clock, "k/s"),
        ]  # fmt: skip
    return figures


def _grouped() -> list[bytes]:
    """Returns a request for each message group."""
    return [
        pb.SendMessageRequest(
            messages=[pb.Message(topic=TOPIC, body=BODY, message_group=f"group-{number}")]
            * TOGETHER
        ).SerializeToString()
        for number in range(MESSAGE_GROUPS)
    ]


async def _consume(server: Server, count: int) -> tuple[float, float]:
    """Receives and acknowledges `count` messages; returns the broker's CPU-seconds, and seconds."""
    seen: set[str] = set()
    options = [("grpc.max_receive_message_length", -1)]
    request = pb.ReceiveRequest(
        group=GROUP, topic=TOPIC, max_messages=BATCH, invisible_ms=60_000, client_id="bench"
    ).SerializeToString()
    loop = asyncio.get_running_loop()

    async def caller(channel: grpc.aio.Channel) -> None:
        receive = channel.unary_unary(BROKER + "Receive")
        ack = channel.unary_unary(BROKER + "Ack")
        while len(seen) < count:
            answer = pb.ReceiveResponse.FromString(await receive(request))
            handles = list(answer.receipt_handles)
            if not handles:
                await asyncio.sleep(0.001)
                continue
            raw = pb.AckRequest(group=GROUP, topic=TOPIC, receipt_handles=handles)
            settled = pb.AckResponse.FromString(await ack(raw.SerializeToString()))
            if any(row.status != pb.SETTLED for row in settled.results):
                raise SystemExit("a lease ended before it was acknowledged")
            before = len(seen)
            seen.update(handles)
            if len(seen) != before + len(handles):
                raise SystemExit("a message was received twice")

    async with grpc.aio.insecure_channel(server.target, options=options) as channel:
        await channel.channel_ready()
        begun, cpu = loop.time(), server.cpu_seconds
        await asyncio.gather(*(caller(channel) for _ in range(CALLERS)))
        return server.cpu_seconds - cpu, loop.time() - begun
