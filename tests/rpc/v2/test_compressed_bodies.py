"""Bodies that producers of version 4 compressed, delivered to clients of version 5."""

import asyncio
import gzip
import zlib
from collections.abc import Callable
from hashlib import md5
from typing import Any

import lz4.frame
import pytest
import zstandard

from pocketmq.format.body_codec import SHOWN_SIZE_MAX
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v2 import receive_message
from tests.kit.official import OfficialDesk, name, receive

Fold = Callable[[bytes], bytes]
PLAIN = b"Hello RocketMQ! " * 400
CODECS: list[tuple[Fold, int]] = [
    (lz4.frame.compress, 0x101), (zstandard.compress, 0x201), (zlib.compress, 0x301),
    (zlib.compress, 0x001),
]  # fmt: skip


async def add(desk: OfficialDesk, body: bytes, system_flag: int = 0, **properties: str) -> None:
    """Stores a message as a classic producer would."""
    given: dict[str, Any] = {"UNIQ_KEY": "ID", **properties}
    await desk.broker.add("orders", body, system_flag=system_flag, **given)


async def pulled(desk: OfficialDesk, place: int) -> tuple[list[pb.Message], int]:
    """Returns the messages of a pull from a place on, and where it goes on."""
    queue = pb.MessageQueue(topic=name("orders"), id=0)
    request = pb.PullMessageRequest(
        group=name("g"), message_queue=queue, offset=place, batch_size=32
    )
    answers = await desk.all("PullMessage", request)
    assert answers[0].status.code == pb.OK
    return [answer.message for answer in answers[1:-1]], answers[-1].next_offset


@pytest.mark.parametrize(("fold", "flag"), CODECS, ids=["lz4", "zstd", "zlib", "old-zlib"])
async def test_what_a_classic_producer_compressed_comes_plain(
    desk: OfficialDesk, fold: Fold, flag: int
) -> None:
    await add(desk, fold(PLAIN), system_flag=flag)
    (by_pull,), _ = await pulled(desk, 0)
    (by_receive,) = await desk.received("g", "orders")
    for got in (by_pull, by_receive):
        system = got.system_properties
        assert (got.body, system.body_encoding) == (PLAIN, pb.IDENTITY)
        assert system.body_digest.checksum == md5(PLAIN).hexdigest().upper()
        assert not got.user_properties


async def test_what_is_gzip_stays_as_it_is(desk: OfficialDesk) -> None:
    packed = gzip.compress(PLAIN)
    await add(desk, packed, system_flag=0x001)
    (by_pull,), _ = await pulled(desk, 0)
    (by_receive,) = await desk.received("g", "orders")
    for got in (by_pull, by_receive):
        assert (got.body, got.system_properties.body_encoding) == (packed, pb.GZIP)


@pytest.mark.parametrize(
    ("fold", "flag", "codec"),
    [(zstandard.compress, 0x201, "zstd"), (lz4.frame.compress, 0x101, "lz4"),
     (zlib.compress, 0x001, "zlib")],
)  # fmt: skip
async def test_a_body_too_large_comes_as_it_is_stored_with_its_codec(
    desk: OfficialDesk, fold: Fold, flag: int, codec: str
) -> None:
    stored = fold(bytes(SHOWN_SIZE_MAX + 1))
    await add(desk, stored, system_flag=flag, colour="blue")
    await add(desk, b"behind it")
    got, behind = await desk.received("g", "orders")
    assert (got.body, got.system_properties.body_encoding) == (stored, pb.IDENTITY)
    assert dict(got.user_properties) == {"PMQ_BODY_CODEC": codec, "colour": "blue"}
    assert behind.body == b"behind it"


async def test_a_body_that_is_falsely_flagged_is_not_called_gzip(desk: OfficialDesk) -> None:
    await add(desk, b"no zstd", system_flag=0x201)
    (got,) = await desk.received("g", "orders")
    assert (got.body, got.system_properties.body_encoding) == (b"no zstd", pb.IDENTITY)


async def test_what_one_receive_does_not_decompress_comes_with_the_next(
    desk: OfficialDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receive_message, "DECOMPRESSED_MAX", SHOWN_SIZE_MAX)
    large = zstandard.compress(bytes(SHOWN_SIZE_MAX // 2))
    for _ in range(5):
        await add(desk, large, system_flag=0x201)
    got: list[pb.Message] = []
    sizes: list[int] = []
    while len(got) < 5:
        came = await desk.received("g", "orders")
        for message in came:
            await desk.ask("AckMessage", _ack(message))
        got += came
        sizes += [len(came)] if came else []
        await desk.broker.pass_time(1_100)
    assert sizes == [2, 2, 1]
    assert {len(message.body) for message in got} == {SHOWN_SIZE_MAX // 2}


async def test_a_pull_goes_on_where_its_budget_ended(desk: OfficialDesk) -> None:
    large = zstandard.compress(bytes(SHOWN_SIZE_MAX // 2))
    bomb = zstandard.compress(bytes(SHOWN_SIZE_MAX + 1))
    for body in (large, large, large, bomb, large):
        await add(desk, body, system_flag=0x201)
    place, pages = 0, []
    while place < 5:
        found, place = await pulled(desk, place)
        pages.append([len(message.body) for message in found])
    half = SHOWN_SIZE_MAX // 2
    assert pages == [[half, half], [half], [len(bomb)], [half]]


def _ack(message: pb.Message) -> pb.AckMessageRequest:
    system: Any = message.system_properties
    entry = pb.AckMessageEntry(
        message_id=system.message_id or "id", receipt_handle=system.receipt_handle
    )
    return pb.AckMessageRequest(group=name("g"), topic=name("orders"), entries=[entry])


async def test_one_receive_decompresses_32_bodies_of_4_mib(desk: OfficialDesk) -> None:
    body = zstandard.compress(bytes(4_194_304))
    for _ in range(32):
        await add(desk, body, system_flag=0x201)
    sizes = [len(message.body) for message in await desk.received("g", "orders")]
    assert sizes == [4_194_304] * 32


@pytest.mark.parametrize("method", ["ReceiveMessage", "PullMessage"])
async def test_others_get_their_turn_between_bodies_that_are_decompressed(
    desk: OfficialDesk, method: str
) -> None:
    body = zstandard.compress(bytes(100_000))
    for _ in range(3):
        await add(desk, body, system_flag=0x201)
    turns = [0]

    async def others() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    queue = pb.MessageQueue(topic=name("orders"), id=0)
    requests = {
        "ReceiveMessage": receive("g", "orders"),
        "PullMessage": pb.PullMessageRequest(group=name("g"), message_queue=queue, batch_size=32),
    }
    beside = asyncio.ensure_future(others())
    seen = []
    async for _ in desk.methods[method].handler(requests[method], desk.call()):
        seen.append(turns[0])
    beside.cancel()
    assert len(set(seen[-3:])) == 3, seen


async def test_a_body_that_was_decompressed_goes_before_the_next_is(desk: OfficialDesk) -> None:
    """So that no more than one of them is in memory for a client that reads slowly."""
    large, small = zstandard.compress(bytes(65_536)), zstandard.compress(bytes(65_535))
    for body in (small, small, large, small, large, large):
        await add(desk, body, system_flag=0x201)
    lists = []
    async for answers in desk.methods["ReceiveMessage"].handler(
        receive("g", "orders"), desk.call()
    ):
        read = [pb.ReceiveMessageResponse.FromString(one) for one in answers]
        lists.append([len(one.message.body) for one in read if one.HasField("message")])
    assert lists == [[65_535, 65_535, 65_536], [65_535, 65_536], [65_536]]
