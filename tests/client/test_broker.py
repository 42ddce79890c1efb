"""The client against a served broker: every verb; ways to fail: test_channel.py."""

import zlib
from collections.abc import AsyncIterator

import pytest

from pocketmq.client import ClientError, KeyQuery, Message, PullQuery, Shape, Wait
from pocketmq.format.addresses import offset_message_id
from pocketmq.format.record import decode_record
from pocketmq.model.administration import QueueState
from pocketmq.model.batch import PutStatus
from pocketmq.model.reading import Bound, PullStatus
from tests.kit.store_language import STORE_HOST
from tests.rpc.desk import Desk, opened_desk


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with opened_desk() as opened:
        yield opened


async def test_sending(desk: Desk) -> None:
    full = Message(
        "orders",
        b"a",
        tag="A",
        keys=["k1", "k2"],
        message_id="id",
        queue_id=1,
        properties={"p": "v"},
        born_timestamp_ms=5,
        born_host="10.0.0.1:2",
        flag=3,
    )
    plain = Message("orders", b"b", queue_id=1)
    first, second = await desk.client.send_many([full, plain], wait=Wait.APPENDED)
    assert (first.message_id, first.queue_id, first.queue_offset) == ("id", 1, 0)
    assert (second.queue_offset, second.status) == (1, PutStatus.OK)
    assert second.offset_message_id == offset_message_id(STORE_HOST, second.physical_offset)
    stored = (await desk.broker.messages())[0]
    page = await desk.client.pull(PullQuery("orders", 1, 0))
    (message, _) = page.messages
    for name in type(stored).__slots__:
        assert getattr(message, name) == getattr(stored, name), name


async def test_pulling(desk: Desk) -> None:
    await desk.broker.add("orders", b"a", TAGS="A")
    await desk.broker.add("orders", b"b", TAGS="B")
    page = await desk.client.pull(PullQuery("orders", 0, 0, expression="B"))
    assert [message.body for message in page.messages] == [b"b"]
    assert (page.status, page.next_begin_offset) == (PullStatus.FOUND, 2)
    assert (page.min_offset, page.max_offset) == (0, 2)
    raw = await desk.client.pull(PullQuery("orders", 0, 1, shape=Shape.RECORDS))
    assert decode_record(raw.records).body == b"b"
    end = await desk.client.pull(PullQuery("orders", 0, 2, group="g", wait_ms=1, commit_offset=2))
    assert end.status is PullStatus.OFFSET_OVERFLOW_ONE
    assert await desk.client.fetch_offset("g", "orders", 0) == 2


async def test_pulling_system_topics_is_for_operators(desk: Desk) -> None:
    desk.broker.store.tables.topics.adopt("SCHEDULE_TOPIC_XXXX", 1)
    await desk.broker.add("SCHEDULE_TOPIC_XXXX", b"a")
    query = PullQuery("SCHEDULE_TOPIC_XXXX", 0, 0)
    assert (await desk.client.admin.pull(query)).messages[0].body == b"a"
    with pytest.raises(ClientError) as caught:
        await desk.client.pull(query)
    assert (caught.value.reason, caught.value.status) == ("SystemTopic", "PERMISSION_DENIED")


async def test_large_pages_arrive(desk: Desk) -> None:
    folded = zlib.compress(bytes(5 << 20))
    await desk.broker.add("orders", *[folded] * 3, system_flag=1)
    assert len((await desk.client.pull(PullQuery("orders", 0, 0))).messages) == 3


async def test_looking_up(desk: Desk) -> None:
    desk.broker.clock.wall = 10
    await desk.broker.add("orders", b"a", UNIQ_KEY="id", KEYS="k")
    await desk.broker.add("orders", b"b", KEYS="k")
    client = desk.client
    page = await client.query_by_key(KeyQuery("orders", "k", 1, 1, 20))
    assert ([m.body for m in page.messages], page.complete) == ([b"b"], False)
    page = await client.query_by_key(KeyQuery("orders", "k", page_token=page.next_cursor))
    assert ([m.body for m in page.messages], page.complete) == ([b"a"], True)
    assert (await client.query_by_id("orders", "id")).body == b"a"
    assert await client.query_by_time("orders", 0, 11, Bound.LOWER) == 2
    assert await client.query_by_time("orders", 0, 11, Bound.UPPER) == 1
    assert await client.query_offsets("orders", 0) == QueueState(0, 0, 2, 10, 10)


async def test_offsets_of_groups(desk: Desk) -> None:
    await desk.broker.add("orders", b"a")
    assert await desk.client.fetch_offset("g", "orders", 0) is None
    await desk.client.commit_offset("g", "orders", 0, 0)
    assert await desk.client.fetch_offset("g", "orders", 0) == 0


async def test_topics(desk: Desk) -> None:
    made = await desk.client.admin.create_topic("new", queue_count=3, type_name="fifo")
    assert (made.name, made.type, made.write_queue_count, made.queues) == ("new", "FIFO", 3, [])
    page = await desk.client.admin.list_topics(page_size=1)
    assert ([topic.name for topic in page.items], page.next_page_token) == (["new"], "new")
    page = await desk.client.admin.list_topics(page_token="new", include_system=True)
    assert ([topic.name for topic in page.items], page.next_page_token) == (["orders"], "")
    described = await desk.client.admin.describe_topic("new")
    assert [queue.queue_id for queue in described.queues] == [0, 1, 2]
    assert described.attributes == {"message.type": "FIFO"}


async def test_the_store(desk: Desk) -> None:
    status = await desk.client.admin.store_status()
    assert (status.state, status.directory, status.flush_mode) == ("running", "/store", "sync")
