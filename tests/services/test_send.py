"""The send pipeline: which requests are refused, and what the others store."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.addresses import UniqueKeyMaker
from pocketmq.format.send_request import MESSAGES_MAX
from pocketmq.model import errors
from pocketmq.model.message import StoredMessage
from pocketmq.services.produce.drafts import DeliveryRequest
from pocketmq.services.produce.rules import SendRules
from pocketmq.services.produce.send import Send, Sent
from tests.kit.drafts import Draft, draft, drafts_of
from tests.kit.store_broker import StoreBroker, store_broker
from tests.kit.store_language import BORN_HOST, STORE_HOST
from tests.sim.clock import START_MS


class Sender:
    """A send pipeline, spoken to in messages; its topic `orders` has 4 queues."""

    def __init__(self, broker: StoreBroker, **rules: Any) -> None:
        self.broker, self.topics = broker, broker.store.tables.topics
        self.send_service = Send(
            broker.store,
            SendRules(STORE_HOST, "ClusterA", **rules),
            broker.clock,
            key_maker=UniqueKeyMaker(address=b"\x7f\0\0\1", process_id=7, random_bytes=b"abcd"),
            random=Random(5),
        )

    async def send(self, *drafts: Draft, wait: bool = True) -> Sent:
        return await self.send_service.send(drafts_of(*drafts, wait=wait), BORN_HOST)

    async def stored(self) -> list[StoredMessage]:
        return await self.broker.messages()


@pytest.fixture
async def sender(broker: StoreBroker) -> Sender:
    await broker.store.tables.topics.update("orders", write_queue_count=4)
    return Sender(broker)


async def test_what_is_stored_stands_in_the_settled_order(sender: Sender) -> None:
    await sender.send(
        draft(tag="TagA", keys=("k1", "k2"), message_id="ID1", group="g", colour="red"), wait=False
    )
    (message,) = await sender.stored()
    assert list(message.properties.items()) == [
        ("UNIQ_KEY", "ID1"),
        ("WAIT", "false"),
        ("KEYS", "k1 k2"),
        ("TAGS", "TagA"),
        ("__SHARDINGKEY", "g"),
        ("colour", "red"),
        ("CLUSTER", "ClusterA"),
        ("MSG_REGION", "DefaultRegion"),
        ("TRACE_ON", "true"),
    ]


async def test_times_hosts_and_flag_are_kept_or_made(sender: Sender) -> None:
    await sender.send(draft(born_ms=123, flag=-9), draft())
    first, second = await sender.stored()
    assert (first.born_timestamp_ms, first.flag) == (123, -9)
    assert (second.born_timestamp_ms, second.flag) == (START_MS, 0)
    assert (second.born_host, second.store_host) == (BORN_HOST, STORE_HOST)


async def test_results_name_ids_and_places_in_order(sender: Sender) -> None:
    sent = await sender.send(draft(body=b"a", queue_id=2), draft(body=b"b", queue_id=2))
    first, second = await sender.stored()
    assert (*sent.destination.queue, sent.result.queue_offset) == ("orders", 2, 0)
    assert sent.message_ids == [first.unique_key, second.unique_key]
    assert sent.result.physical_offsets == [first.physical_offset, second.physical_offset]


async def test_an_id_is_kept_and_a_missing_one_is_made(sender: Sender) -> None:
    sent = await sender.send(draft(message_id="mine"), draft(), draft())
    assert sent.message_ids[0] == "mine"
    assert len({*sent.message_ids}) == 3
    assert all(len(made) == 32 for made in sent.message_ids[1:])


async def test_a_group_always_goes_to_the_same_queue(sender: Sender) -> None:
    queues = {(await sender.send(draft(group="customer-1"))).destination.queue_id for _ in range(5)}
    assert len(queues) == 1


async def test_without_a_queue_all_queues_are_used(sender: Sender) -> None:
    queues = {(await sender.send(draft())).destination.queue_id for _ in range(60)}
    assert queues == {0, 1, 2, 3}


async def test_an_unknown_topic_is_made_like_the_default(sender: Sender) -> None:
    await sender.send(draft("fresh"))
    made = sender.topics.find("fresh")
    assert made is not None
    assert (made.write_queue_count, made.permission) == (8, 6)


async def test_the_default_topic_limits_what_is_made(sender: Sender) -> None:
    await sender.topics.create("TBW102", queue_count=3, permission=7)
    await sender.send(draft("fresh"))
    made = sender.topics.find("fresh")
    assert made is not None
    assert (made.write_queue_count, made.permission) == (3, 6)


async def test_a_default_topic_that_is_not_inherited_makes_none(sender: Sender) -> None:
    await sender.topics.create("TBW102", queue_count=3, permission=6)
    with pytest.raises(errors.TopicNotFound):
        await sender.send(draft("fresh"))


REFUSED: list[tuple[type[errors.BrokerError], list[Draft]]] = [
    (errors.NoMessages, []),
    (errors.TooManyMessages, [draft()] * (MESSAGES_MAX + 1)),
    (errors.IllegalTopic, [draft("a/b")]),
    (errors.IllegalTopic, [draft("")]),
    (errors.IllegalTopic, [draft("t" * 128)]),
    (errors.SystemTopic, [draft("SCHEDULE_TOPIC_XXXX")]),
    (errors.SystemTopic, [draft("rmq_sys_wheel_timer")]),
    (errors.SystemTopic, [draft("%RETRY%group")]),
    (errors.SystemTopic, [draft("%DLQ%group")]),
    (errors.QueueOutOfRange, [draft(queue_id=4)]),
    (errors.QueueOutOfRange, [draft(queue_id=-2)]),
    (errors.MixedTopics, [draft(), draft("other")]),
    (errors.MixedQueues, [draft(queue_id=1), draft(queue_id=2)]),
    (errors.MixedQueues, [draft(group="a"), draft(group="b")]),
    (errors.BodyEmpty, [draft(), draft(body=b"")]),
    (errors.BodyTooLarge, [draft(body=b"x" * 3_000_000), draft(body=b"x" * 1_200_000)]),
    (errors.IllegalTag, [draft(tag="a|b")]),
    (errors.IllegalTag, [draft(tag=" ")]),
    (errors.IllegalTag, [draft(tag="a\nb")]),
    (errors.IllegalKey, [draft(keys=("a b",))]),
    (errors.IllegalKey, [draft(keys=("a", ""))]),
    (errors.IllegalKey, [draft(keys=("a", "b\x02"))]),
    (errors.IllegalMessageId, [draft(message_id=" ")]),
    (errors.IllegalMessageId, [draft(message_id="a\x01")]),
    (errors.IllegalMessageId, [draft(message_id="a" * 256)]),
    (errors.IllegalMessageId, [draft(message_id="\N{MATHEMATICAL BOLD CAPITAL A}" * 64)]),
    (errors.IllegalMessageGroup, [draft(group="g" * 64)]),
    (errors.IllegalProperty, [draft(empty="")]),
    (errors.IllegalProperty, [draft(REAL_TOPIC="elsewhere")]),
    (errors.IllegalProperty, [draft(TIMER_DELIVER_MS="1")]),
    (errors.IllegalProperty, [draft(colour="a\x01b")]),
    (errors.PropertiesTooLarge, [draft(colour="x" * 32_700)]),
    (errors.PropertiesTooLarge, [draft(keys=("k" * 40_000,))]),
    (errors.TooManyProperties, [draft(properties={f"p{number}": "v" for number in range(129)})]),
]


@pytest.mark.parametrize(("error", "drafts"), REFUSED)
async def test_one_bad_message_refuses_the_request_and_stores_nothing(
    sender: Sender, error: type[errors.BrokerError], drafts: list[Draft]
) -> None:
    with pytest.raises(error):
        await sender.send(*drafts)
    assert await sender.stored() == []


@pytest.mark.parametrize(("error", "drafts"), REFUSED)
async def test_a_refused_request_creates_no_topic(
    sender: Sender, error: type[errors.BrokerError], drafts: list[Draft]
) -> None:
    named = [one._replace(topic="fresh") if one.topic == "orders" else one for one in drafts]
    before = sender.topics.names()
    with pytest.raises(error):
        await sender.send(
            *(one._replace(queue_id=9) if one.queue_id == 4 else one for one in named)
        )
    assert sender.topics.names() == before


@pytest.mark.parametrize("delivery", [DeliveryRequest(), DeliveryRequest(delay_ms=5_000)])
async def test_a_send_refused_for_a_full_disk_creates_no_topic(
    sender: Sender, delivery: DeliveryRequest
) -> None:
    sender.broker.store.writing.refuse(errors.DiskFull(path="/store"))
    before = sender.topics.names()
    with pytest.raises(errors.DiskFull):
        await sender.send(draft("fresh", delivery=delivery))
    assert sender.topics.names() == before


async def test_a_delay_that_is_too_long_creates_no_topic(sender: Sender) -> None:
    with pytest.raises(errors.IllegalDeliveryTime):
        await sender.send(draft("fresh", delivery=DeliveryRequest(delay_ms=25 * 3_600_000)))
    assert sender.topics.find("fresh") is None


async def test_a_delayed_message_creates_its_topic(sender: Sender) -> None:
    await sender.send(draft("fresh", delivery=DeliveryRequest(delay_ms=5_000)))
    assert sender.topics.find("fresh") is not None


@pytest.mark.parametrize("type_name", ["FIFO", "MIXED"])
async def test_a_new_topic_has_the_type_of_the_rules(broker: StoreBroker, type_name: str) -> None:
    sender = Sender(broker, default_type=type_name)
    await sender.send(draft("fresh", group="g"))
    assert sender.topics.existing("fresh").type_name == type_name


async def test_a_message_that_the_type_of_new_topics_refuses_creates_none(
    broker: StoreBroker,
) -> None:
    sender = Sender(broker, default_type="FIFO")
    with pytest.raises(errors.KindConflict):
        await sender.send(draft("fresh"))
    assert sender.topics.find("fresh") is None


async def test_a_topic_without_write_permission_is_refused(sender: Sender) -> None:
    await sender.topics.create("readonly", queue_count=1, permission=4)
    with pytest.raises(errors.TopicNotWritable):
        await sender.send(draft("readonly"))


async def test_without_automatic_creation_an_unknown_topic_is_refused(broker: StoreBroker) -> None:
    sender = Sender(broker, auto_create_topics=False)
    with pytest.raises(errors.TopicNotFound):
        await sender.send(draft("fresh"))
    assert sender.topics.find("fresh") is None


async def test_sends_before_the_accepted_time_are_refused(broker: StoreBroker) -> None:
    sender = Sender(broker, accept_from_ms=START_MS + 1)
    with pytest.raises(errors.NotAccepting):
        await sender.send(draft())


async def test_a_broker_that_may_not_be_written_refuses_sends(broker: StoreBroker) -> None:
    sender = Sender(broker, permission=4)
    with pytest.raises(errors.BrokerReadOnly):
        await sender.send(draft())


async def test_messages_are_counted_by_topic_and_kind(sender: Sender) -> None:
    await sender.send(draft(body=b"abc"), draft(body=b"de"))
    await sender.send(draft(group="g"))
    assert sender.send_service.counts.messages_in.values == {
        ("orders", "normal", "false"): 2,
        ("orders", "fifo", "false"): 1,
    }
    sizes = sender.send_service.counts.message_size.at(("orders", "normal", "false"))
    stored = sender.send_service.counts.throughput_in.values["orders", "normal", "false"]
    assert (sum(sizes.counts), sizes.sum) == (2, stored)
    assert stored > 5


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(keys=st.lists(TEXT, max_size=3), tag=st.one_of(st.just(""), TEXT))
async def test_what_is_accepted_can_be_read_back(keys: list[str], tag: str) -> None:
    async with store_broker() as broker:
        sender = Sender(broker)
        try:
            await sender.send(draft(keys=tuple(keys), tag=tag))
        except (errors.IllegalKey, errors.IllegalTag):
            assert await sender.stored() == []
            return
        (message,) = await sender.stored()
        assert (message.keys, message.tag or "") == (keys, tag)
