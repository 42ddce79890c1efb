"""The same bytes for both sides: requests of apache.rocketmq.v2 to ours and to the real one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.peer.clients import go_consume, go_load
from bench.peer.content import GROUP, TOPIC, equal_contents, mixed_contents, unary_content
from bench.peer.rows import Aim, Row, ratios, sides
from bench.peer.sends import batches, cost, rate, told
from bench.peer.sides import Extent, Pair, Side, pair
from bench.table import turns
from pocketmq.rpc.pb import messaging_pb2 as pb

RECEIVED: Final = 32
LEASE_SECONDS: Final = 60
FILL: Final = 200
"""Requests of 32 messages that warm both consumers."""
RATE: Final = 6_000
"""Messages a second for which each round is filled."""
ROUND_MAX: Final = 40_000

UNARY: Final = Aim(3.0, 2.0)
UNARY_GO: Final = Aim(2.0, 1.4)
UNARY_CPU: Final = Aim(0.35, at_most=True)
UNARY_SYNC: Final = Aim(2.0, 1.4)
EQUAL: Final = Aim(2.0, 1.3)
MIXED: Final = Aim(1.5, 1.1)
CONSUME: Final = Aim(2.0)
CONSUME_CPU: Final = Aim(0.5, at_most=True)


def async_rows(jars: Path, extent: Extent) -> Iterator[Row]:
    """Sends that no disk is waited for."""
    unary = [unary_content()]
    with pair(jars, extent, official=True) as both:
        ours, real = both.rounds(unary, extent.rounds, extent.seconds)
        what = "v2 to both: unary send 1 KiB, 8 × 8 in flight, h2load"
        yield rate("official_unary", what, UNARY, ours, real)
        what = "v2 to both: processor time of a unary send"
        yield cost("official_unary_cpu", what, UNARY_CPU, ours, real)

        ours, real = both.rounds(
            unary,
            extent.rounds,
            extent.seconds,
            lambda target, method, request, calls: go_load(target, method, request, calls=calls),
        )
        what = "v2 to both: unary send 1 KiB, 8 × 8, grpc-go"
        yield rate("official_unary_go", what, UNARY_GO, ours, real)
        what = "v2 to both: processor time of a unary send from grpc-go"
        yield cost("official_unary_go_cpu", what, UNARY_CPU, ours, real)
        for size in (32, 100):
            contents = equal_contents(size)
            yield from batches(both, extent, size, "equal", EQUAL, contents, "official_")
            contents = mixed_contents(size)
            yield from batches(both, extent, size, "mixed", MIXED, contents, "official_")


def sync_rows(jars: Path, extent: Extent) -> Iterator[Row]:
    """Sends whose answers wait for the disk, on both sides."""
    with pair(jars, extent, sync=True, official=True) as both:
        ours, real = both.rounds([unary_content()], extent.rounds, extent.seconds)
        what = "v2 to both: unary send 1 KiB with sync flush, h2load"
        yield rate("official_unary_sync", what, UNARY_SYNC, ours, real)
        what = "v2 to both: processor time of a unary send with sync flush"
        yield cost("official_unary_sync_cpu", what, None, ours, real)


def consume_rows(jars: Path, extent: Extent) -> Iterator[Row]:
    """Receiving 32 messages and acknowledging them by one call, until what was sent is consumed."""
    settings = ("broker.auto_create_groups=true", *extent.settings)
    with pair(jars, extent._replace(settings=settings), official=True) as both:
        for side in both:
            go_consume(side.target, requests(), 0, side.pid)  # What lies there is no round's.
            _consumed(side, FILL)
        rates, costs = _rounds(both, extent)
    ours, real = (rates[side.name] for side in both)
    what = f"v2 to both: receive and ack of {RECEIVED} × 1 KiB, 8 callers, messages/s"
    yield told(Row("consume", what, CONSUME, ratios(ours, real), sides(ours, real, "/s")))
    ours, real = (costs[side.name] for side in both)
    what = f"v2 to both: processor time of a message received and acknowledged, {RECEIVED} a call"
    plain = sides(ours, real, "µs", 1)
    yield told(Row("consume_cpu", what, CONSUME_CPU, ratios(ours, real), plain))


def _rounds(both: Pair, extent: Extent) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Returns messages a second, and µs of each, by side."""
    rates: dict[str, list[float]] = {side.name: [] for side in both}
    costs: dict[str, list[float]] = {side.name: [] for side in both}
    count = min(int(RATE * extent.seconds), ROUND_MAX) // RECEIVED
    for number in range(extent.rounds):
        for side in turns(both, number):
            per_second, us = _consumed(side, max(count, 1))
            rates[side.name].append(per_second)
            costs[side.name].append(us)
    return rates, costs


def _consumed(side: Side, count: int) -> tuple[float, float]:
    """Sends so many requests of 32 messages, consumes them; returns rate and µs of one."""
    messages = side.run(equal_contents(RECEIVED), count).messages
    run = go_consume(side.target, requests(), messages, side.pid)
    return run.per_second, 1e6 * run.cpu_seconds / messages


def requests() -> tuple[bytes, bytes]:
    """Returns a simple consumer's settings, and what it receives by."""
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
