"""S4: numbers at their edges are refused or clamped, before anything is made of their size.

Every number of every request of both services takes every edge value, alone and together with
others, against the real services on a small store. Nothing but our own errors comes out, and
memory stays as it was.
"""

import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from pocketmq.format.send_request import MESSAGES_MAX
from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.pb import broker_pb2 as pb
from tests.faults.requests import field_at, good_request, put, ways_to
from tests.kit.store_broker import StoreBroker, store_broker

SEED: Final = int(os.environ.get("SEED", "1"))
REQUESTS_MIN: Final = 6_000
RANDOM_COUNT: Final = 5_000
GROWTH_MAX: Final = 64 * 1024 * 1024
"""Bytes that memory may grow by: one list of 2**31 things would be hundreds of times as much."""
EDGES_32: Final = (-(2**31), -1, 0, 1, 7, 1_023, 1_024, 1_025, 2**24, 2**31 - 2, 2**31 - 1)
EDGES_64: Final = (*EDGES_32, -(2**63), 2**31, 2**53, 10**15, 2**62, 2**63 - 2, 2**63 - 1)
EDGES_OF: Final = {
    FieldDescriptor.TYPE_INT32: EDGES_32,
    FieldDescriptor.TYPE_INT64: EDGES_64,
    FieldDescriptor.TYPE_ENUM: EDGES_32,
    FieldDescriptor.TYPE_BOOL: (False, True),
}
NEVER: Final = frozenset({"Admin/Drain"})
"""Ends the broker."""


def resident_bytes() -> int:
    """Returns what this process holds of memory now."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


async def stocked(broker: StoreBroker) -> None:
    """Makes what the requests name: a topic with some messages, and a group."""
    await broker.talking.store.tables.topics.create("orders", queue_count=2)
    for group in ("g", "orders"):
        await broker.talking.store.tables.groups.ensure(group)
    for number in range(20):
        await broker.talking.send("orders", f"{number}", key="k", queue_id=number % 2)
    await broker.talking.settled()


async def answered(broker: StoreBroker, name: str, request: Message) -> str:
    """Returns how a call ended; objects that the request renamed or removed are restored."""
    outcome = await broker.outcome(name, request.SerializeToString())
    store = broker.talking.store
    if outcome == "ok" and broker.methods[name].call_class is CallClass.ADMIN:
        if store.tables.topics.find("orders") is None:
            await store.tables.topics.create("orders", queue_count=2)
        await store.tables.topics.update(
            "orders", read_queue_count=2, write_queue_count=2, permission=6
        )
        for group in ("g", "orders"):
            await store.tables.groups.ensure(group)
    return outcome


async def test_no_number_does_any_harm(tmp_path: Path) -> None:
    random = Random(SEED)
    ended: Counter[str] = Counter()
    async with store_broker(tmp_path / "s", commit_log_file_size_bytes=1 << 22) as broker:
        await stocked(broker)
        methods = {name: row for name, row in broker.methods.items() if name not in NEVER}
        ways = {
            name: list(ways_to(row.request.DESCRIPTOR, EDGES_OF)) for name, row in methods.items()
        }
        begun = resident_bytes()
        for name, row in methods.items():  # Each number alone, each edge.
            for way in ways[name]:
                for number in EDGES_OF[field_at(row.request.DESCRIPTOR, way).type]:
                    request = good_request(row.request)
                    put(request, way, number)
                    ended[await answered(broker, name, request)] += 1
        with_numbers = [name for name in methods if ways[name]]
        for _ in range(RANDOM_COUNT):  # Some of them together.
            name = random.choice(with_numbers)
            request = good_request(methods[name].request)
            for way in random.choices(ways[name], k=random.randrange(1, 4)):
                put(request, way, random.choice(EDGES_OF[field_at(request.DESCRIPTOR, way).type]))
            ended[await answered(broker, name, request)] += 1
        growth = resident_bytes() - begun
    print(f"{sum(ended.values())} requests, seed {SEED}, {growth >> 20} MiB more: {ended}")
    assert sum(ended.values()) >= REQUESTS_MIN
    assert ended["ok"] > 1_000, ended
    assert ended["IllegalNumber"] > 1_000, ended
    assert growth <= GROWTH_MAX, f"repro: SEED={SEED}"


async def test_offsets_reach_from_zero_to_the_largest(tmp_path: Path) -> None:
    async with store_broker(tmp_path / "s") as broker:
        await stocked(broker)
        for queue_offset, status in (
            (0, pb.FOUND),
            (10, pb.OFFSET_OVERFLOW_ONE),
            (2**63 - 1, pb.OFFSET_OVERFLOW_BADLY),
        ):
            request = pb.PullMessageRequest(topic="orders", offset=queue_offset)
            answer = await broker.answer("PullMessage", request)
            assert answer.status in (status, pb.NO_NEW_MESSAGE), queue_offset
            assert answer.next_begin_offset in (10, queue_offset)
        most = pb.PullMessageRequest(topic="orders", max_messages=1_024, max_bytes=2**31 - 1)
        assert len((await broker.answer("PullMessage", most)).messages) == 10


async def test_times_far_off_are_stored_or_refused(tmp_path: Path) -> None:
    async with store_broker(tmp_path / "s") as broker:
        await broker.talking.store.tables.topics.create("orders", queue_count=1)
        for born_ms in EDGES_64:
            sent = pb.Message(topic="orders", body=b"x", born_timestamp_ms=born_ms, flag=-1)
            request = pb.SendMessageRequest(messages=[sent]).SerializeToString()
            assert await broker.outcome("SendMessage", request) == (
                "ok" if born_ms >= 0 else "IllegalNumber"
            )
        await broker.talking.settled()
        request = pb.PullMessageRequest(topic="orders", max_messages=100).SerializeToString()
        assert await broker.outcome("PullMessage", request) == "ok"
    async with store_broker(tmp_path / "s") as broker:
        assert len(await broker.talking.pulled("orders")) == sum(ms >= 0 for ms in EDGES_64)


async def test_batches_of_nothing_cost_nothing(tmp_path: Path) -> None:
    async with store_broker(tmp_path / "s") as broker:
        await broker.talking.store.tables.topics.create("orders", queue_count=1)
        begun = resident_bytes()
        for count in (1, MESSAGES_MAX, MESSAGES_MAX + 1, 100_000):
            empties = pb.SendMessageRequest(messages=[pb.Message()] * count)
            assert await broker.outcome("SendMessage", empties.SerializeToString()) != "ok"
            bodiless = pb.SendMessageRequest(messages=[pb.Message(topic="orders")] * count)
            assert await broker.outcome("SendMessage", bodiless.SerializeToString()) != "ok"
        assert broker.talking.store.appended == 0
        assert resident_bytes() - begun <= GROWTH_MAX
