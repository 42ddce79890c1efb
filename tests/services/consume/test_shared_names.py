"""Groups and topics whose retry topics share a name never get each other's messages."""

import pytest

from pocketmq.format.properties import encode_properties
from pocketmq.model.administration import GroupSettings
from pocketmq.model.batch import Destination
from pocketmq.model.consuming import SettleStatus
from pocketmq.model.message import RETRY_TOPIC
from tests.kit.consuming import INVISIBLE_MS, ConsumeDesk, bodies, statuses
from tests.kit.rows import Row, batch
from tests.kit.store_language import BORN_HOST, BORN_MS, STORE_HOST


@pytest.fixture
async def shared(desk: ConsumeDesk) -> ConsumeDesk:
    """Groups a and a_b; topics c, b and b_c."""
    for topic in ("b", "c", "b_c"):
        desk.store.tables.topics.adopt(topic, 1)
    for group in ("a", "a_b"):
        await desk.store.tables.groups.ensure(group)
    return desk


@pytest.mark.parametrize("fifo", [False, True])
async def test_what_a_group_did_not_settle_in_time_is_its_own(
    shared: ConsumeDesk, *, fifo: bool
) -> None:
    await shared.send("of a", topic="b_c")
    assert bodies(await shared.receive(group="a", topic="b_c")) == ["of a"]
    await shared.step(INVISIBLE_MS)
    await shared.store.tables.groups.update("a_b", GroupSettings(fifo=fifo))
    assert bodies(await shared.receive(group="a_b", topic="c")) == []
    again = await shared.receive(group="a", topic="b_c")
    assert (bodies(again), again.attempts) == (["of a"], [2])
    await shared.send("of a_b", topic="c")
    assert bodies(await shared.receive(group="a_b", topic="c")) == ["of a_b"]


async def test_what_a_group_sent_back_is_its_own(shared: ConsumeDesk) -> None:
    row = Row(b"sent back", encode_properties({RETRY_TOPIC: "c"}), 0, BORN_MS, BORN_HOST)
    await shared.store.writing.put([(Destination("%RETRY%a_b", 0, STORE_HOST), batch(row))])
    await shared.send("of a", topic="b")
    assert bodies(await shared.receive(group="a", topic="b")) == ["of a"]
    await shared.step(INVISIBLE_MS)
    got = await shared.receive(group="a_b", topic="c")
    assert bodies(got) == ["sent back"]
    settled = await shared.consume.ack("a_b", "c", got.handles)
    assert statuses(settled) == [SettleStatus.OK]
    assert bodies(await shared.receive(group="a", topic="b")) == ["of a"]
