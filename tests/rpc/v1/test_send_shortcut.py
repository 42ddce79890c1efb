"""A plain request takes the shortcut, and nothing shows that it did: not the bytes of log, queues,
index and reply, not an error, not what is counted."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from pocketmq.rpc.pb import broker_pb2 as pb
from tests.kit.send_requests import (
    RequestMaker,
    do_the_same,
    hold_alike,
    served_alike,
    told_too_late,
    twins,
)
from tests.kit.store_broker import CALL, store_broker

REQUESTS = 200
"""`scripts/torture/run sends` serves two million."""


@pytest.mark.parametrize(
    ("settings", "least"),
    [
        ({"flush": "async"}, 0.6),
        ({"flush": "sync", "index_style": "5.3"}, 0.6),
        ({"property_crc": True}, 0.0),
    ],
    ids=["async", "sync", "property_crc"],
)
async def test_both_ways_do_the_same(settings: dict[str, Any], least: float) -> None:
    maker = RequestMaker(Random(str(settings)))
    async with twins(**settings) as (quick, usual):
        await do_the_same(quick, usual, maker, REQUESTS)
        assert quick.shortcut_count >= least * REQUESTS
        assert (quick.shortcut_count > 0) == (least > 0)


async def test_every_plain_request_takes_the_shortcut() -> None:
    maker = RequestMaker(Random(2), properties_max=5)
    async with twins(flush="async", commit_log_file_size_bytes=1 << 22) as (quick, usual):
        for count in range(1, 100):
            await served_alike(quick, usual, maker.plain())
            assert quick.shortcut_count == count


@pytest.mark.parametrize("group", ["g", ""])
async def test_a_name_that_half_messages_are_known_by_is_no_topic(group: str) -> None:
    half = pb.Message(topic="orders", body=b"x", transactional=True, producer_group=group)
    odd = pb.Message(topic=f"orders\x02{group}", body=b"x")
    async with twins(flush="async") as (quick, usual):
        for message in (half, odd, odd, half):
            raw = pb.SendMessageRequest(messages=[message]).SerializeToString()
            await served_alike(quick, usual, raw)
        assert quick.shortcut_count == 2
        await hold_alike(quick, usual)


async def test_a_batch_of_the_largest_count_takes_it_and_one_more_does_not() -> None:
    message = pb.Message(topic="orders", body=b"x")
    async with twins(flush="async", commit_log_file_size_bytes=1 << 19) as (quick, usual):
        for count, taken in ((1024, 1), (1025, 1)):
            raw = pb.SendMessageRequest(messages=[message] * count).SerializeToString()
            await served_alike(quick, usual, raw)
            assert quick.shortcut_count == taken


async def test_a_flush_that_takes_too_long_is_told(tmp_path: Path) -> None:
    raw = pb.SendMessageRequest(
        messages=[pb.Message(topic="orders", body=b"x")]
    ).SerializeToString()
    async with store_broker(tmp_path / "s", flush="sync") as broker:
        await broker.store.tables.topics.create("orders", queue_count=1)
        shortcut = broker.methods["SendMessage"].shortcut
        assert shortcut is not None
        with broker.talking.quick_disk.held():
            waiting = shortcut(raw, CALL.peer_host, CALL.metadata)
            appended = shortcut(raw + b"\x10\x02", CALL.peer_host, CALL.metadata)
            assert isinstance(appended, bytes), "it asked for no more"
            assert waiting is not None
            assert not isinstance(waiting, bytes)
            reply = await told_too_late(broker, waiting)
            (result,) = pb.SendMessageResponse.FromString(reply).results
            assert result.status == pb.FLUSH_DISK_TIMEOUT
