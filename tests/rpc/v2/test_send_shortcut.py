"""A plain request of an official client takes the shortcut, and nothing shows that it did: not the
bytes of log, queues, index and reply, not an error, not what is counted."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from pocketmq.rpc.pb import messaging_pb2 as pb
from tests.kit.official import MESSAGE_ID, OfficialDesk, message, sent
from tests.kit.official_requests import NAMESPACE, OfficialMaker, official_twin
from tests.kit.send_requests import do_the_same, hold_alike, served_alike, told_too_late, twins
from tests.kit.store_broker import store_broker

REQUESTS = 200
"""`scripts/torture/run sends` serves two million."""


@pytest.mark.parametrize(
    ("settings", "least"),
    [
        ({"flush": "async"}, 0.55),
        ({"flush": "sync", "index_style": "5.3"}, 0.55),
        ({"property_crc": True}, 0.0),
    ],
    ids=["async", "sync", "property_crc"],
)
async def test_both_ways_do_the_same(settings: dict[str, Any], least: float) -> None:
    maker = OfficialMaker(Random(str(settings)))
    async with twins(official_twin, **settings) as (quick, usual):
        for twin in (quick, usual):
            await twin.broker.store.tables.topics.create(f"{NAMESPACE}%orders", queue_count=2)
        await do_the_same(quick, usual, maker, REQUESTS)
        assert quick.shortcut_count >= least * REQUESTS
        assert (quick.shortcut_count > 0) == (least > 0)


async def test_every_plain_request_takes_the_shortcut() -> None:
    plain = [
        sent("orders", b"x"),
        sent("orders", b"x", b"y", tag="A", keys=["k1", "k2"], trace_context="00-ab"),
        sent("orders", b"x", delivery_attempt=7, queue_id=3, message_type=pb.FIFO),
        sent("orders", b"x", body_digest=pb.Digest(type=pb.CRC32, checksum="8CDC1683")),
        sent("orders", b"x", b"y", body_encoding=pb.GZIP),
        sent("wide", b"x", b"y", message_group="customer-7", tag="A"),
        sent("wide", b"x", body_encoding=pb.GZIP, message_group="!" * 63, trace_context="00"),
        sent("wide", b"x", b"y"),
    ]
    async with twins(official_twin, flush="async") as (quick, usual):
        for count, request in enumerate(plain, 1):
            await served_alike(quick, usual, request.SerializeToString())
            assert quick.shortcut_count == count


async def test_what_messages_do_not_share_goes_the_usual_way() -> None:
    bare, ordered = message("wide", b"x"), message("wide", b"x", message_group="g")
    packed = message("wide", b"x", body_encoding=pb.GZIP)
    mixed = [
        [message("orders", b"x"), bare], [bare, ordered], [ordered, bare], [bare, packed],
        [ordered, message("wide", b"x", message_group="h")], [packed, bare],
        [message("wide", b"x", message_group="!" * 64)],
        [message("orders", b"x", message_group="g")],
    ]  # fmt: skip
    async with twins(official_twin, flush="async") as (quick, usual):
        await served_alike(quick, usual, sent("orders", b"x").SerializeToString())
        for messages in mixed:
            request = pb.SendMessageRequest(messages=messages)
            await served_alike(quick, usual, request.SerializeToString())
        assert quick.shortcut_count == 1


async def test_messages_of_a_group_go_to_one_queue_that_a_group_of_consumers_gets() -> None:
    groups = [f"customer-{number}" for number in range(40)]
    async with twins(official_twin, flush="async") as (quick, usual):
        for group in groups * 2:
            request = sent("wide", b"x", message_group=group)
            await served_alike(quick, usual, request.SerializeToString())
        assert quick.shortcut_count == 2 * len(groups)
        await hold_alike(quick, usual)


async def test_a_batch_of_the_largest_count_takes_it_and_one_more_does_not() -> None:
    settings = {"flush": "async", "commit_log_file_size_bytes": 1 << 19}
    async with twins(official_twin, **settings) as (quick, usual):
        for count, taken in ((1024, 1), (1025, 1)):
            request = pb.SendMessageRequest(messages=[message("orders", b"x")] * count)
            await served_alike(quick, usual, request.SerializeToString())
            assert quick.shortcut_count == taken


async def test_names_are_in_the_namespace_of_the_call_or_their_own() -> None:
    request = sent("orders", b"x").SerializeToString()
    async with twins(official_twin, flush="async") as (quick, usual):
        for twin in (quick, usual):
            await twin.broker.store.tables.topics.create("shop%orders", queue_count=1)
        for namespace, count in (("shop", 1), ("", 2), ("shop", 3), ("none", 3)):
            for twin in (quick, usual):
                twin.call = OfficialDesk(twin.broker).call(x_mq_namespace=namespace)
            await served_alike(quick, usual, request)
            assert quick.shortcut_count == count
        await hold_alike(quick, usual)


async def test_a_client_without_an_id_is_told_so() -> None:
    async with twins(official_twin, flush="async") as (quick, usual):
        for twin in (quick, usual):
            twin.call = OfficialDesk(twin.broker, client_id="").call()
        await served_alike(quick, usual, sent("orders", b"x").SerializeToString())
        assert quick.shortcut_count == 0
        assert str(await quick.outcome(b"")).startswith("ClientIdRequired")


async def test_a_flush_that_takes_too_long_is_told(tmp_path: Path) -> None:
    async with store_broker(tmp_path / "s", flush="sync") as broker:
        await broker.store.tables.topics.create("orders", queue_count=1)
        desk = OfficialDesk(broker)
        call, shortcut = desk.call(), desk.methods["SendMessage"].shortcut
        assert shortcut is not None
        with broker.talking.quick_disk.held():
            raw = sent("orders", b"x", b"y").SerializeToString()
            waiting = shortcut(raw, call.peer_host, call.metadata)
            assert waiting is not None
            assert not isinstance(waiting, bytes)
            reply = await told_too_late(broker, waiting)
    told = pb.SendMessageResponse.FromString(reply)
    assert told.status.code == pb.MASTER_PERSISTENCE_TIMEOUT
    assert [one.status.code for one in told.entries] == [pb.MASTER_PERSISTENCE_TIMEOUT] * 2
    assert [one.message_id for one in told.entries] == [MESSAGE_ID] * 2
