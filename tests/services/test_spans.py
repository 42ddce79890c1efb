"""Spans of messages that belong to a trace, as the log tells them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pocketmq.filter.tag import EVERYTHING
from pocketmq.format.properties import encode_properties
from pocketmq.model.administration import GroupSettings
from pocketmq.model.batch import Destination
from pocketmq.model.reading import ReadRange
from pocketmq.model.spans import Span
from pocketmq.model.step import Now
from pocketmq.services import spans as spans_module
from pocketmq.services.pull import Pull, PullRequest
from pocketmq.services.spans import SpanSource
from pocketmq.store.job import Job
from pocketmq.store.read.cold_read import value_of
from tests.kit.consuming import GROUP, TOPIC, ConsumeDesk, consuming
from tests.kit.rows import Row, batch
from tests.kit.store_language import BORN_HOST, BORN_MS, STORE_HOST

TRACE = "0af7651916cd43dd8448eb211c80319c"
PRODUCER = "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{PRODUCER}-01", f"00-{TRACE}-{PRODUCER}-00"


class TracedDesk:
    """Consuming, and the spans that its log gives."""

    def __init__(self, desk: ConsumeDesk) -> None:
        self.desk = desk
        self.spans: list[Span] = []
        self.source = SpanSource(desk.store, self.spans.extend)

    async def send(self, *bodies: bytes, born_ms: int = BORN_MS, **properties: str) -> None:
        """Stores messages, and examines them."""
        block = encode_properties(properties)
        rows = [Row(body, block, 0, born_ms, BORN_HOST) for body in bodies]
        await self.desk.store.writing.put([(Destination(TOPIC, 0, STORE_HOST), batch(*rows))])
        await self.examined()

    async def examined(self) -> None:
        """Runs the step until it waits for a further record."""
        await self.desk.settled()
        while isinstance((following := self.source.step(Now(0, 0))).mark, Job):
            await following.mark.reached()
        assert following.value == self.desk.store.dispatched + 1

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.spans]


@pytest.fixture
async def traced(tmp_path: Path) -> AsyncIterator[TracedDesk]:
    """Group g, topic orders."""
    async with consuming(tmp_path / "store") as desk:
        yield TracedDesk(desk)


async def test_a_send_is_a_child_of_its_producers_span(traced: TracedDesk) -> None:
    stored_ms = traced.desk.clock.wall_ms()
    await traced.send(
        b"paid", born_ms=stored_ms - 7, traceparent=SAMPLED, KEYS="k1", TAGS="paid", UNIQ_KEY="ID1"
    )
    (span,) = traced.spans
    assert span.name == "send orders"
    assert (span.trace_id, span.parent_id, span.is_error) == (TRACE, PRODUCER, False)
    assert (span.begin_ms, span.end_ms) == (stored_ms - 7, stored_ms)
    assert span.attributes == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "0",
        "messaging.message.id": "ID1",
        "messaging.message.body.size": 4,
        "messaging.rocketmq.message.keys": "k1",
        "messaging.rocketmq.message.tag": "paid",
        "pocketmq.queue_offset": 0,
        "pocketmq.physical_offset": 0,
    }


async def test_a_producer_whose_clock_is_ahead_gets_no_negative_time(traced: TracedDesk) -> None:
    await traced.send(b"a", born_ms=traced.desk.clock.wall_ms() + 500, traceparent=SAMPLED)
    (span,) = traced.spans
    assert span.begin_ms == span.end_ms


async def test_messages_outside_a_sampled_trace_have_no_span(traced: TracedDesk) -> None:
    await traced.send(b"a")
    await traced.send(b"b", traceparent=UNSAMPLED)
    await traced.send(b"traceparent\x01", traceparent="00-no-trace-01")
    await traced.desk.ack(await traced.desk.receive())
    await traced.examined()
    assert traced.names == []


async def test_delivery_and_ack_follow_the_send(traced: TracedDesk) -> None:
    await traced.send(b"a")
    await traced.send(b"b", traceparent=SAMPLED)
    received = await traced.desk.receive()
    traced.desk.clock.advance(250)
    await traced.desk.ack(received)
    await traced.examined()
    send, deliver, ack = traced.spans
    assert [deliver.name, ack.name] == ["deliver orders", "ack orders"]
    assert {span.trace_id for span in traced.spans} == {TRACE}
    assert (deliver.parent_id, ack.parent_id) == (send.span_id, deliver.span_id)
    assert deliver.attributes["messaging.consumer.group.name"] == GROUP
    assert deliver.attributes["messaging.operation.type"] == "receive"
    assert ack.attributes["messaging.operation.type"] == "settle"
    assert ack.attributes["pocketmq.lease.held_ms"] == 250
    assert ack.begin_ms == deliver.begin_ms + 250


async def test_each_message_of_a_batch_has_its_own_spans(traced: TracedDesk) -> None:
    await traced.send(b"a", b"b", b"c", traceparent=SAMPLED)
    await traced.desk.ack(await traced.desk.receive())
    await traced.examined()
    assert sorted(traced.names) == ["ack orders"] * 3 + ["deliver orders"] * 3 + ["send orders"] * 3
    assert len({span.span_id for span in traced.spans}) == 9


async def test_an_expired_lease_is_a_retry_and_the_last_one_a_dead_letter(
    traced: TracedDesk,
) -> None:
    await traced.desk.store.tables.groups.update(GROUP, GroupSettings(max_attempts=2))
    await traced.send(b"a", traceparent=SAMPLED)
    for _ in range(2):
        await traced.desk.receive()
        await traced.desk.step(60_000)
    await traced.examined()
    assert traced.names == [
        "send orders", "deliver orders", "retry orders", "deliver orders", "dead letter orders",
    ]  # fmt: skip
    _, _, retry, second, dead = traced.spans
    assert second.parent_id == retry.span_id
    assert retry.parent_id == dead.parent_id == PRODUCER
    assert (retry.is_error, dead.is_error) == (False, True)
    assert dead.attributes["messaging.consumer.group.name"] == GROUP


async def test_what_was_sent_back_is_acknowledged_after_its_next_delivery(
    traced: TracedDesk,
) -> None:
    await traced.send(b"a", traceparent=SAMPLED, UNIQ_KEY="ID1")
    await traced.desk.receive()
    await traced.desk.step(60_000)
    await traced.desk.ack(await traced.desk.receive())
    await traced.examined()
    assert traced.names == [
        "send orders", "deliver orders", "retry orders", "deliver orders", "ack orders",
    ]  # fmt: skip


async def test_a_renewed_lease_is_no_second_delivery(traced: TracedDesk) -> None:
    await traced.send(b"a", traceparent=SAMPLED)
    received = await traced.desk.receive()
    (handle,) = received.handles
    (changed,) = await traced.desk.consume.change_invisible(GROUP, TOPIC, [(handle, 90_000)])
    await traced.examined()
    assert traced.names == ["send orders", "deliver orders"]
    traced.desk.clock.advance(5_000)
    await traced.desk.consume.ack(GROUP, TOPIC, [changed.handle])
    await traced.examined()
    assert traced.names == ["send orders", "deliver orders", "ack orders"]
    assert traced.spans[-1].attributes["pocketmq.lease.held_ms"] == 5_000


async def test_delivery_and_ack_in_order_are_reported_by_their_service(traced: TracedDesk) -> None:
    await traced.desk.store.tables.groups.update(GROUP, GroupSettings(fifo=True, max_attempts=5))
    source = traced.source
    traced.desk.consume.watch_in_order(
        lambda queue, *rest: source.leased(queue.group, queue.topic, queue.queue_id, *rest),
        lambda queue, *rest: source.acked(queue.group, queue.topic, queue.queue_id, *rest),
    )
    await traced.send(b"a", b"b", traceparent=SAMPLED)
    await traced.send(b"c")
    received = await traced.desk.receive()
    assert len(received.records) == 3
    assert traced.names == ["send orders"] * 2 + ["deliver orders"] * 2
    (changed,) = await traced.desk.consume.change_invisible(
        GROUP, TOPIC, [(received.handles[0], 90_000)]
    )
    traced.desk.clock.advance(40)
    await traced.desk.consume.ack(GROUP, TOPIC, [changed.handle, *received.handles[1:]])
    await traced.examined()
    send, _, first, _, ack, _ = traced.spans
    assert traced.names[4:] == ["ack orders"] * 2
    assert (first.parent_id, ack.parent_id) == (send.span_id, first.span_id)
    assert ack.attributes["pocketmq.lease.held_ms"] == 40
    assert ack.attributes["messaging.consumer.group.name"] == GROUP


async def test_in_order_an_old_handle_is_no_acknowledgement(traced: TracedDesk) -> None:
    await traced.desk.store.tables.groups.update(GROUP, GroupSettings(fifo=True, max_attempts=5))
    acked: list[list[int]] = []
    traced.desk.consume.watch_in_order(
        lambda *delivered: None, lambda queue, queue_offsets, _: acked.append([*queue_offsets])
    )
    await traced.send(b"a", b"b")
    received = await traced.desk.receive()
    await traced.desk.consume.ack(GROUP, TOPIC, received.handles[:1])
    await traced.desk.consume.ack(GROUP, TOPIC, received.handles)
    assert acked == [[0], [1]]


async def test_in_order_a_second_delivery_after_the_lease_is_a_span_of_its_own(
    traced: TracedDesk,
) -> None:
    await traced.desk.store.tables.groups.update(GROUP, GroupSettings(fifo=True, max_attempts=5))
    source = traced.source
    traced.desk.consume.watch_in_order(
        lambda queue, *rest: source.leased(queue.group, queue.topic, queue.queue_id, *rest),
        lambda queue, *rest: source.acked(queue.group, queue.topic, queue.queue_id, *rest),
    )
    await traced.send(b"a", traceparent=SAMPLED)
    await traced.desk.receive()
    await traced.desk.step(60_000)
    await traced.desk.ack(await traced.desk.receive())
    assert traced.names == ["send orders", "deliver orders", "deliver orders", "ack orders"]
    assert len({span.span_id for span in traced.spans}) == 4


async def test_messages_that_were_there_before_are_left_alone(traced: TracedDesk) -> None:
    await traced.send(b"a", traceparent=SAMPLED)
    later = TracedDesk(traced.desk)
    await later.send(b"b", traceparent=SAMPLED)
    assert [span.attributes["pocketmq.queue_offset"] for span in later.spans] == [1]


async def test_old_deliveries_are_forgotten(
    traced: TracedDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans_module, "DELIVERIES_MAX", 2)
    await traced.send(b"a", b"b", b"c", traceparent=SAMPLED)
    received = await traced.desk.receive()
    await traced.examined()
    await traced.desk.ack(received)
    await traced.examined()
    assert traced.names.count("ack orders") == 2


async def test_many_records_are_examined_in_several_turns(
    traced: TracedDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans_module, "RECORDS_MAX", 2)
    await traced.send(*[b"x"] * 5, traceparent=SAMPLED)
    assert traced.names == ["send orders"] * 5


async def test_each_pull_of_a_group_is_a_delivery(traced: TracedDesk) -> None:
    await traced.send(b"a", b"b", traceparent=SAMPLED)
    await traced.send(b"c")
    pull = Pull(traced.desk.store)
    pull.on_pulled = lambda request, records: traced.source.pulled(
        request.group, request.range.topic, records
    )
    asked = PullRequest(ReadRange(TOPIC, 0, 0, 32, 1 << 20), EVERYTHING, 0, GROUP)
    assert len((await value_of(pull.pull(asked, joined=True))).records) == 3
    await value_of(pull.pull(asked._replace(group="")))
    send, _, first, second = traced.spans
    assert traced.names == ["send orders"] * 2 + ["deliver orders"] * 2
    assert (first.parent_id, first.attributes["pocketmq.queue_offset"]) == (send.span_id, 0)
    assert first.attributes["messaging.consumer.group.name"] == GROUP
    assert second.attributes["pocketmq.queue_offset"] == 1
