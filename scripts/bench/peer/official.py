"""Receives and acks by apache.rocketmq.v2, with the same bytes for both sides."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from bench.peer.clients import go_consume
from bench.peer.content import GROUP, TOPIC, equal_contents
from bench.peer.rows import Aim, Row, sides
from bench.peer.sends import told
from bench.peer.sides import Extent, Side, pair
from harness.figures import alternated, ratios
from pocketmq.rpc.pb import messaging_pb2 as pb

RECEIVED: Final = 32
LEASE_SECONDS: Final = 60
FILL: Final = 200
"""Requests of 32 messages that warm both consumers."""
RATE: Final = 6_000
"""Messages stored for each second of a round."""
ROUND_MAX: Final = 40_000

CONSUME: Final = Aim(2.0)
CONSUME_CPU: Final = Aim(0.5, at_most=True)


def consume_rows(jars: Path, extent: Extent) -> Iterator[Row]:
    """Receiving 32 messages and acknowledging them by one call, until all are consumed."""
    settings = ("broker.auto_create_groups=true", *extent.settings)
    with pair(jars, extent._replace(settings=settings), official=True) as both:
        for side in both:
            go_consume(side.target, requests(), 0, side.pid)  # Messages from before the rounds.
            _consumed(side, FILL)
        count = max(min(int(RATE * extent.seconds), ROUND_MAX) // RECEIVED, 1)
        subjects = {side.name: partial(_consumed, side, count) for side in both}
        runs = [*alternated(extent.rounds, subjects).values()]
    ours, real = ([rate for rate, _ in side] for side in runs)
    what = f"v2 to both: receive and ack of {RECEIVED} × 1 KiB, 8 callers, messages/s"
    yield told(Row("consume", what, CONSUME, ratios(ours, real), sides(ours, real, "/s")))
    ours, real = ([us for _, us in side] for side in runs)
    what = f"v2 to both: processor time of a message received and acknowledged, {RECEIVED} a call"
    plain = sides(ours, real, "µs", 1)
    yield told(Row("consume_cpu", what, CONSUME_CPU, ratios(ours, real), plain))


def _consumed(side: Side, count: int) -> tuple[float, float]:
    """Sends `count` requests of 32 messages and consumes them; returns rate and µs of a message."""
    messages = side.run(equal_contents(RECEIVED), count).messages
    run = go_consume(side.target, requests(), messages, side.pid)
    return run.per_second, 1e6 * run.cpu_seconds / messages


def requests() -> tuple[bytes, bytes]:
    """Returns the requests of a simple consumer: its settings, and its receive."""
    group, topic = pb.Resource(name=GROUP), pb.Resource(name=TOPIC)
    everything = pb.FilterExpression(type=pb.TAG, expression="*")
    settings = pb.Settings(client_type=pb.SIMPLE_CONSUMER)
    settings.subscription.group.CopyFrom(group)
    settings.subscription.subscriptions.add(topic=topic, expression=everything)
    settings.subscription.long_polling_timeout.seconds = 5
    settings.request_timeout.seconds = 3
    settings.user_agent.version = "5.1.0"
    receive = pb.ReceiveMessageRequest(
        group=group, filter_expression=everything, batch_size=RECEIVED
    )
    receive.message_queue.topic.CopyFrom(topic)
    receive.message_queue.id = -1
    receive.invisible_duration.seconds = LEASE_SECONDS
    receive.long_polling_timeout.seconds = 1
    return (
        pb.TelemetryCommand(settings=settings).SerializeToString(),
        receive.SerializeToString(),
    )
