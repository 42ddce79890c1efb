"""Messages that are not for now, and which topics take which kind of messages."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.addresses import UniqueKeyMaker
from pocketmq.model import errors
from pocketmq.model.message import RESERVED_PROPERTIES, StoredMessage
from pocketmq.model.message_kind import MessageKind
from pocketmq.model.system_topics import TIMER_TOPIC, real_place, restored
from pocketmq.model.topic import HALF_TOPIC, SCHEDULE_TOPIC, TYPE_ATTRIBUTE
from pocketmq.services.produce.drafts import AT_ONCE, DeliveryRequest, kind_of
from pocketmq.services.produce.rules import SendRules
from pocketmq.services.produce.send import Send
from tests.golden_stores import GoldenStores
from tests.kit.drafts import Draft, draft, drafts_of
from tests.kit.store_broker import StoreBroker, store_broker
from tests.kit.store_language import BORN_HOST, STORE_HOST
from tests.sim.clock import START_MS, FakeClock

DAY_MS = 24 * 3_600_000
LEVEL_COUNT = 18
WISHES: dict[str, tuple[str, DeliveryRequest]] = {
    "NORMAL": ("", AT_ONCE),
    "FIFO": ("g", AT_ONCE),
    "DELAY": ("", DeliveryRequest(delay_level=3)),
    "DELAY by time": ("", DeliveryRequest(deliver_at_ms=START_MS + 5_000)),
    "DELAY by length": ("", DeliveryRequest(delay_ms=5_000)),
    "TRANSACTION": ("", DeliveryRequest(transactional=True)),
    "PRIORITY": ("", DeliveryRequest(priority=0)),
}
"""A message of each kind; the kind is the first word."""


class Desk:
    """A send pipeline over a store, and what lies there."""

    def __init__(self, broker: StoreBroker, **rules: Any) -> None:
        self.broker, self.topics = broker, broker.store.tables.topics
        self.service = Send(
            broker.store,
            SendRules(STORE_HOST, "GoldCluster", **rules),
            broker.clock,
            key_maker=UniqueKeyMaker(address=b"\x7f\0\0\1", process_id=7, random_bytes=b"abcd"),
            random=Random(5),
        )

    async def send(self, *drafts: Draft) -> Any:
        return await self.service.send(drafts_of(*drafts), BORN_HOST)

    async def stored(self) -> list[tuple[str, int, dict[str, str]]]:
        """Returns topic, queue and properties of all records."""
        found = await self.broker.messages()
        return [(one.topic, one.queue_id, one.properties) for one in found]


@pytest.fixture
def desk(broker: StoreBroker) -> Desk:
    return Desk(broker)


def wishing(name: str, topic: str = "orders") -> Draft:
    group, delivery = WISHES[name]
    return draft(topic, message_id="ID1", queue_id=0, group=group, delivery=delivery)


@pytest.mark.parametrize("type_name", [*(kind.value for kind in MessageKind), "MIXED", "LITE", ""])
@pytest.mark.parametrize("wish", WISHES)
async def test_a_topic_takes_messages_of_its_type(desk: Desk, type_name: str, wish: str) -> None:
    attributes = {TYPE_ATTRIBUTE: type_name} if type_name else {}
    await desk.topics.create("typed", queue_count=1, attributes=attributes)
    if type_name in ("MIXED", "", wish.split()[0]):
        await desk.send(wishing(wish, "typed"))
        assert len(await desk.stored()) == 1
        return
    with pytest.raises(errors.KindConflict):
        await desk.send(wishing(wish, "typed"))
    assert await desk.stored() == []


async def test_types_are_heeded_only_where_rules_say_so(broker: StoreBroker) -> None:
    desk = Desk(broker, check_kinds=False)
    await desk.topics.create("typed", queue_count=1, attributes={TYPE_ATTRIBUTE: "TRANSACTION"})
    await desk.send(wishing("DELAY", "typed"))
    assert [topic for topic, _, _ in await desk.stored()] == [SCHEDULE_TOPIC]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "g"]),
            st.builds(
                DeliveryRequest,
                st.sampled_from([0, 2]),
                st.sampled_from([0, 7]),
                st.sampled_from([0, 7]),
                st.booleans(),
                st.sampled_from([None, 0, 1]),
            ),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_a_request_is_of_one_kind_and_each_message_of_one(
    wanted: list[tuple[str, DeliveryRequest]],
) -> None:
    drafts = drafts_of(*(draft(group=group, delivery=delivery) for group, delivery in wanted))
    wishes = [
        (bool(group), one.delay_level > 0, one.deliver_at_ms > 0, one.delay_ms > 0,
         one.transactional, one.priority is not None)
        for group, one in wanted
    ]  # fmt: skip
    names = ["FIFO", "DELAY", "DELAY", "DELAY", "TRANSACTION", "PRIORITY"]
    found = [{n for is_so, n in zip(wish, names, strict=True) if is_so} for wish in wishes]
    # A message of a transaction may be delayed.
    found = [{"TRANSACTION"} if one == {"DELAY", "TRANSACTION"} else one for one in found]
    kinds = {kind for one in found for kind in one or {"NORMAL"}}
    if any(len(one) > 1 or sum(w[1:4]) > 1 for one, w in zip(found, wishes, strict=True)):
        with pytest.raises((errors.AmbiguousKind, errors.MixedKinds)):
            kind_of(drafts)
    elif len(kinds) > 1 and kinds != {"FIFO", "NORMAL"}:
        with pytest.raises(errors.MixedKinds):
            kind_of(drafts)
    else:
        assert kind_of(drafts).value in kinds


async def test_what_waits_says_where_it_goes(desk: Desk) -> None:
    own = {
        "UNIQ_KEY": "ID1", "WAIT": "true", "CLUSTER": "GoldCluster", "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }  # fmt: skip
    real = {"REAL_TOPIC": "orders", "REAL_QID": "0"}
    for wish in ("DELAY", "DELAY by time", "DELAY by length", "TRANSACTION", "PRIORITY"):
        await desk.send(wishing(wish))
    at_ms, due = str(START_MS + 5_000), str(START_MS + 4_000)
    transaction = {"TRAN_MSG": "true", "PGROUP": "orders", "__transactionId__": "ID1"}
    assert await desk.stored() == [
        (SCHEDULE_TOPIC, 2, {**own, **real, "DELAY": "3"}),
        (TIMER_TOPIC, 0, {**own, **real, "TIMER_DELIVER_MS": at_ms, "TIMER_OUT_MS": due}),
        (TIMER_TOPIC, 0, {**own, **real, "TIMER_DELAY_MS": "5000", "TIMER_OUT_MS": due}),
        (HALF_TOPIC, 0, {**own, **real, **transaction}),
        ("orders", 0, {**own, "_SYS_MSG_PRIORITY_": "0"}),
    ]  # fmt: skip
    for topic in (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC):
        assert desk.topics.find(topic) is not None


@pytest.mark.parametrize(
    ("delivery", "properties"),
    [
        (DeliveryRequest(delay_level=99), {"DELAY": "99"}),
        (DeliveryRequest(delay_ms=86_400_000), {"TIMER_DELAY_MS": "86400000"}),
        (DeliveryRequest(deliver_at_ms=START_MS - 1), {"TIMER_DELIVER_MS": str(START_MS - 1)}),
    ],
)
async def test_a_half_message_has_the_delay_that_follows_its_commit(
    desk: Desk, delivery: DeliveryRequest, properties: dict[str, str]
) -> None:
    await desk.topics.create("typed", queue_count=1, attributes={TYPE_ATTRIBUTE: "TRANSACTION"})
    sent = await desk.send(draft("typed", delivery=delivery._replace(transactional=True)))
    assert sent.transactions
    ((topic, _, found),) = await desk.stored()
    assert topic == HALF_TOPIC
    assert found | properties == found
    assert "TIMER_OUT_MS" not in found


@pytest.mark.parametrize(
    "delivery",
    [
        DeliveryRequest(delay_ms=86_400_001),
        DeliveryRequest(deliver_at_ms=START_MS + 86_400_001),
    ],
)
async def test_a_half_message_has_no_delay_beyond_the_limit(
    desk: Desk, delivery: DeliveryRequest
) -> None:
    with pytest.raises(errors.IllegalDeliveryTime):
        await desk.send(draft(delivery=delivery._replace(transactional=True)))
    assert await desk.stored() == []


@pytest.mark.parametrize(("priority", "queue_id"), [(0, 0), (1, 1), (3, 3), (4, 3), (99, 3)])
async def test_a_priority_is_a_queue(desk: Desk, priority: int, queue_id: int) -> None:
    await desk.topics.create("ranked", queue_count=4)
    sent = await desk.send(draft("ranked", queue_id=0, delivery=DeliveryRequest(priority=priority)))
    ((_, lies_in, properties),) = await desk.stored()
    assert (lies_in, properties["_SYS_MSG_PRIORITY_"]) == (queue_id, str(priority))
    assert sent.destination.queue == ("ranked", queue_id)


async def test_messages_of_a_request_have_one_priority(desk: Desk) -> None:
    with pytest.raises(errors.MixedQueues):
        await desk.send(*(draft(delivery=DeliveryRequest(priority=one)) for one in (0, 1)))


async def test_each_message_of_a_request_goes_its_own_way(desk: Desk) -> None:
    moments = [START_MS + 9_000, START_MS - 1, START_MS + 1]
    drafts = [draft(queue_id=1, delivery=DeliveryRequest(deliver_at_ms=at)) for at in moments]
    drafts.append(draft(queue_id=1, delivery=DeliveryRequest(delay_level=99)))
    sent = await desk.send(*drafts)
    found = {one.physical_offset: one for one in await desk.broker.messages()}
    lie = [found[place] for place in sent.result.physical_offsets]
    assert [one.topic for one in lie] == [TIMER_TOPIC, "orders", TIMER_TOPIC, SCHEDULE_TOPIC]
    assert [one.queue_offset for one in lie] == list(sent.queue_offsets)
    assert [one.unique_key for one in lie] == sent.message_ids
    assert lie[3].queue_id == LEVEL_COUNT - 1
    assert sent.destination.queue == ("orders", 1)
    assert {real_place(lie[number].properties) for number in (0, 2, 3)} == {("orders", 1)}


@pytest.mark.parametrize("delivery", [
    DeliveryRequest(deliver_at_ms=START_MS + DAY_MS + 1), DeliveryRequest(delay_ms=DAY_MS + 1),
])  # fmt: skip
async def test_beyond_the_limit_nothing_is_stored(desk: Desk, delivery: DeliveryRequest) -> None:
    within = draft(delivery=DeliveryRequest(delay_ms=DAY_MS))
    with pytest.raises(errors.IllegalDeliveryTime, match="1d 1ms ahead exceeds"):
        await desk.send(within, draft(delivery=delivery))
    assert await desk.stored() == []
    await desk.send(within)
    assert len(await desk.stored()) == 1


async def test_kinds_are_counted(desk: Desk) -> None:
    for wish in WISHES:
        await desk.send(wishing(wish))
    assert {
        labels[1]: count for labels, count in desk.service.counts.messages_in.values.items()
    } == {"normal": 1, "fifo": 1, "delay": 3, "transaction": 1, "priority": 1}


async def test_how_long_messages_are_to_wait_is_counted_in_seconds(desk: Desk) -> None:
    for delivery in (
        DeliveryRequest(delay_ms=61_001),
        DeliveryRequest(delay_ms=DAY_MS),
        DeliveryRequest(delay_level=3),
    ):
        await desk.send(draft(delivery=delivery))
    ahead = desk.service.counts.ahead
    assert (sum(ahead.counts), ahead.sum) == (2, 61 + 86_399)
    assert ahead.name == "rocketmq_delay_message_latency_seconds"


async def again(golden: GoldenStores) -> list[tuple[dict[str, Any], StoredMessage]]:
    """Records of a real broker that wait, each beside what ours makes of the same message."""
    found = []
    for record in golden.manifest("semantics")["records"]:
        sent = as_sent(record)
        if sent is None:
            continue
        async with store_broker(clock=FakeClock(record["storeTimestamp"])) as broker:
            desk = Desk(broker, delay_max_ms=10 * DAY_MS)
            await desk.topics.create(sent.topic, queue_count=8)
            await desk.send(sent)
            (ours,) = await broker.messages()
            found.append((record, ours))
    return found


def as_sent(record: dict[str, Any]) -> Draft | None:
    """The message of a client that a record of a manifest came from, None where it was none's."""
    said = dict(record["properties"])
    place = real_place(said)
    is_plain = not {"RETRY_TOPIC", "PGROUP", "TIMER_DEL_UNIQKEY", "TIMER_ROLL_TIMES"} & set(said)
    is_half = record["topic"] == HALF_TOPIC and "TRANSACTION_CHECK_TIMES" not in said
    if place is None or place.topic.startswith("rmq_sys") or not (is_plain or is_half):
        return None
    if record["topic"] not in (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC):
        return None
    length = int(said.get("TIMER_DELAY_SEC", "0")) * 1000 + int(said.get("TIMER_DELAY_MS", "0"))
    delivery = DeliveryRequest(
        int(said.get("DELAY", "0")), int(said.get("TIMER_DELIVER_MS", "0")), length, is_half
    )
    own = {
        name: text
        for name, text in said.items()
        if name not in RESERVED_PROPERTIES and not name.startswith("TIMER_")
    }
    return draft(
        place.topic, b"x", message_id=said["UNIQ_KEY"], queue_id=place.queue_id, delivery=delivery,
        tag=said.get("TAGS", ""), properties=own,
    )  # fmt: skip


UNLIKE = {
    "KEYS", "WAIT", "PGROUP", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "CHECK_IMMUNITY_TIME_IN_SECONDS",
    "BORN_TIMESTAMP", "RECONSUME_TIME", "__BORNHOST",
}  # fmt: skip
"""Properties that were not sent to ours, that none of its clients asks for, or of gRPC alone."""


async def test_records_that_wait_are_a_real_brokers(golden: GoldenStores) -> None:
    kinds = set()
    pairs = await again(golden)
    for record, ours in pairs:
        real = record["properties"]
        kinds.add(record["topic"])
        assert (ours.topic, ours.queue_id) == (record["topic"], record["queueId"])
        assert (ours.system_flag, ours.prepared_transaction_offset) == (record["sysFlag"], 0)
        assert {k: v for k, v in ours.properties.items() if k not in UNLIKE} == {
            k: v for k, v in real.items() if k not in UNLIKE
        }
        place_and_rest = restored(real)
        assert place_and_rest is not None
        assert place_and_rest[0] == (real["REAL_TOPIC"], int(real["REAL_QID"]))
    assert kinds == {SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC}
    assert len(pairs) > 50
