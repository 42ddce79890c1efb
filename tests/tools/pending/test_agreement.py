"""Broker, offline tools and Spark agree on the pending messages of a store."""

from pathlib import Path
from typing import Any

from pocketmq.backfill.source import StoreSource
from pocketmq.files.disk import Disk
from pocketmq.model.message import TIMER_DELETE
from pocketmq.model.system_topics import TIMER_TOPIC
from pocketmq.model.topic import HALF_TOPIC, SCHEDULE_TOPIC
from pocketmq.rpc.pb import admin_pb2 as admin_pb
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.tools.pending.halves import open_halves
from pocketmq.tools.pending.listing import pending_messages
from pocketmq.tools.verify.verification import VerifyOptions, verify
from tests.kit.store_broker import SIZES, StoreBroker
from tests.kit.store_language import store_at
from tests.kit.tool_sizes import shape_of
from tests.sim.clock import START_MS

COUNT = 40
RECALLED = range(0, COUNT, 7)


async def send(broker: StoreBroker, topic: str, message_id: str, **fields: Any) -> pb.SendResult:
    message = pb.Message(topic=topic, body=b"x", message_id=message_id, **fields)
    answer = await broker.answer("SendMessage", pb.SendMessageRequest(messages=[message]))
    result: pb.SendResult = answer.results[0]
    return result


async def fill(broker: StoreBroker) -> None:
    """Timed, delayed, recalled and undecided messages, forty of each but the recalled."""
    for number in range(COUNT):
        at_ms = START_MS + 5_500 + 250 * number
        await send(broker, "orders", f"T{number}", deliver_at_ms=at_ms)
        await send(broker, "orders", f"L{number}", delay_level=1 + number % 5)
        await send(broker, "pay", f"H{number}", transactional=True)
    for number in RECALLED:
        sent = await send(broker, "orders", f"R{number}", deliver_at_ms=START_MS + 9_000)
        request = pb.RecallRequest(topic="orders", recall_handle=sent.recall_handle)
        await broker.answer("Recall", request)


async def listed(broker: StoreBroker) -> dict[str, tuple[str, int]]:
    """Returns the broker's pending messages: real topic and physical offset by id."""
    found: dict[str, tuple[str, int]] = {}
    token = ""
    while True:
        request = admin_pb.ListDelayedRequest(page_size=16, page_token=token)
        page = await broker.answer("Admin/ListDelayed", request)
        found |= {row.message_id: (row.topic, row.physical_offset) for row in page.messages}
        token = page.next_page_token
        if not token:
            return found


def rows_of(store: Path, topic: str) -> dict[int, dict[str, Any]]:
    """Messages of a topic by physical offset, as Spark reads them."""
    columns = "message_id,physical_offset,properties"
    source = StoreSource({"path": str(store), "topic": topic, "columns": columns})
    reader = source.reader(source.schema())
    batches: list[Any] = [batch for part in reader.partitions() for batch in reader.read(part)]
    return {row["physical_offset"]: row for batch in batches for row in batch.to_pylist()}


async def test_a_broker_its_tools_and_spark_agree(tmp_path: Path) -> None:
    sizes: dict[str, Any] = SIZES
    async with store_at(tmp_path / "s", **sizes) as talking:
        broker = StoreBroker(talking)
        await talking.store.tables.topics.create("orders", queue_count=2)
        await talking.store.tables.topics.create("pay", queue_count=1)
        await fill(broker)
        await talking.settled()
        online = await listed(broker)
        halves = await broker.transactions.page(0, 1000)
        shape = shape_of(talking.store.settings)
    store, disk = tmp_path / "s", Disk()

    found = verify(disk, store, shape, VerifyOptions(now_ms=START_MS))
    assert found.counts == {}
    assert f"{COUNT} half messages are undecided" in found.notes

    offline = {row.message_id: row for row in pending_messages(disk, store, shape)}
    assert {key: (row.topic, row.physical_offset) for key, row in offline.items()} == online
    assert offline.keys() == {f"{kind}{number}" for kind in "TL" for number in range(COUNT)}

    undecided = {half.message_id: half for half in open_halves(disk, store, shape)}
    assert undecided.keys() == {half.place.unique_key for half in halves.halves}
    assert undecided.keys() == {f"H{number}" for number in range(COUNT)}

    read = {**rows_of(store, TIMER_TOPIC), **rows_of(store, SCHEDULE_TOPIC)}
    markers = {place for place, row in read.items() if TIMER_DELETE in dict(row["properties"])}
    recalled = {place for place, row in read.items() if row["message_id"].startswith("R")}
    assert len(markers) == len(RECALLED)
    assert len(recalled) == 2 * len(markers)
    assert read.keys() - recalled == {row.physical_offset for row in offline.values()}
    assert rows_of(store, HALF_TOPIC).keys() == {
        half.physical_offset for half in undecided.values()
    }
