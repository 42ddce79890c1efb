"""Plain sends of classic clients take the shortcut, with the same effects as the usual path.

Compared are the bytes of log, queues, index and replies, errors, and what is counted.
"""

from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pocketmq.model.errors import FsyncFailed
from pocketmq.rpc.classic.plain_send import SendHeader
from pocketmq.rpc.pending_reply import PendingReply
from pocketmq.rpc.service import Metadata
from pocketmq.wire.remoting import BINARY, JSON, Command, decode, encode
from pocketmq.wire.remoting_header import UsualHeader
from tests.kit.classic_requests import KEY, ODD_FIELDS, ODD_PAIRS, ClassicMaker, classic_twin
from tests.kit.remoting_pair import RemotingPair
from tests.kit.send_requests import hold_alike, served_alike, told_too_late, twins
from tests.kit.store_broker import CALL, StoreBroker, store_broker
from tests.kit.store_language import until
from tests.rpc.classic.test_send import member, short

REQUESTS: Final = 500
TEXT: Final = some.text(some.characters(codec="utf-8"), max_size=12)


@pytest.mark.parametrize(
    ("settings", "least"),
    [
        ({"flush": "async"}, 0.4),
        ({"flush": "sync", "index_style": "5.3"}, 0.4),
        ({"property_crc": True}, 0.0),
    ],
    ids=["async", "sync", "property_crc"],
)
async def test_both_ways_do_the_same(settings: dict[str, Any], least: float) -> None:
    maker = ClassicMaker(Random(str(settings)))
    async with twins(classic_twin, **settings) as (quick, usual):
        for _ in range(REQUESTS):
            await served_alike(quick, usual, maker.some())
        await hold_alike(quick, usual)
        found, wanted = (
            [(stat.name, getattr(stat, "values", None)) for stat in twin.broker.send.stats]
            for twin in (quick, usual)
        )
        assert found == wanted
        assert quick.shortcut_count >= least * REQUESTS
        assert (quick.shortcut_count > 0) == (least > 0)


async def test_each_unusual_part_is_served_alike() -> None:
    block = short()["i"]
    unusual = [short() | {name: value} for name, value in ODD_FIELDS]
    unusual += [short(i=f"{block}{name}\x01{value}\x02") for name, value in ODD_PAIRS]
    unusual += [short(i=f"{name}\x01{value}\x02UNIQ_KEY\x01{KEY}") for name, value in ODD_PAIRS]
    async with twins(classic_twin, flush="async") as (quick, usual):
        for fields in unusual:
            for kind in (JSON, BINARY):
                frame = encode(Command(310, fields, b"x", 7, serialization=kind))
                await served_alike(quick, usual, frame)
        await hold_alike(quick, usual)


@pytest.mark.parametrize("kind", [JSON, BINARY])
async def test_the_sends_of_the_usual_clients_take_the_shortcut(kind: int) -> None:
    block = short()["i"]
    plain = [
        Command(310, short(), b"x"),
        Command(310, short(i=block.rstrip("\x02"), h="7", e="1"), b"x" * 5_000),
        Command(320, short(m="true"), member(b"a", block) + member(b"b", block, flag=3)),
        Command(310, short(i=block + "colour\x01a \"b\" \\ /\x02"), b"x"),
    ]  # fmt: skip
    async with twins(classic_twin, flush="async") as (quick, usual):
        for count, request in enumerate(plain, 1):
            frame = encode(request._replace(opaque=count, serialization=kind))
            await served_alike(quick, usual, frame)
            assert quick.shortcut_count == count


async def test_a_flush_that_takes_too_long_is_told(tmp_path: Path) -> None:
    async with store_broker(tmp_path / "s", flush="sync") as broker:
        await broker.store.tables.topics.create("orders", queue_count=1)
        with broker.talking.quick_disk.held():
            frame = encode(Command(310, short(), b"x", 7))
            reply = broker.classic.sending.shortcut(frame, CALL.peer_host, CALL.metadata)
            assert isinstance(reply, PendingReply)
            answer = decode(await told_too_late(broker, reply))
        assert (answer.code, answer.opaque, answer.fields["queueId"]) == (10, 7, "0")


async def test_a_send_that_waits_for_nothing_is_answered_before_the_flush(
    tmp_path: Path,
) -> None:
    async with store_broker(tmp_path / "s", flush="sync") as broker:
        await broker.store.tables.topics.create("orders", queue_count=1)
        with broker.talking.quick_disk.held():
            block = short()["i"].replace("true", "false")
            frame = encode(Command(310, short(i=block), b"x", 7))
            reply = broker.classic.sending.shortcut(frame, CALL.peer_host, CALL.metadata)
        assert isinstance(reply, bytes)


async def test_sends_of_one_read_in_any_pieces_are_all_answered(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.store.tables.topics.keep("orders")
    data = b"".join(encode(Command(310, short(), b"body", number)) for number in range(40))
    for size in (1, 7, 100, 1_000, len(data)):
        for begin in range(0, len(data), size):
            client.feed(data[begin : begin + size])
        await client.idle()
        await client.settled()
        assert [client.replies.pop(number).code for number in range(40)] == [0] * 40
    assert len(await broker.messages()) == 5 * 40


async def test_sends_of_one_read_wait_for_one_flush(tmp_path: Path) -> None:
    async with store_broker(tmp_path / "s", flush="sync") as broker:
        await broker.store.tables.topics.create("orders", queue_count=1)
        client = RemotingPair(broker.classic.service())
        with broker.talking.quick_disk.held():
            client.put(*[Command(310, short(), b"x", number) for number in range(3)])
            await client.settled()
            assert (len(client.server.calls), client.replies) == (1, {})
            assert client.server.is_storing
        await client.idle()
        await client.settled()
        assert [client.replies[number].code for number in range(3)] == [0, 0, 0]


async def test_a_lost_client_leaves_no_send_behind(tmp_path: Path) -> None:
    async with store_broker(tmp_path / "s", flush="sync") as broker:
        await broker.store.tables.topics.create("orders", queue_count=1)
        client = RemotingPair(broker.classic.service())
        with broker.talking.quick_disk.held():
            client.put(*[Command(310, short(), b"x", number) for number in range(3)])
            client.lose()
            assert not client.server.calls
        await client.settled()
        gate = client.edge.serving.requests[310].gate
        assert (gate.count, client.edge.connections) == (0, set())


async def test_an_error_of_the_shortcut_is_answered_and_the_next_send_served(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.store.tables.topics.keep("orders")
    method = client.edge.quick_frames.methods[310]
    usual, given = method.shortcut, iter((None, FsyncFailed(why="no space"), None))

    def shortcut(raw: bytes, host: bytes, metadata: Metadata) -> Any:
        error = next(given)
        if error is not None:
            raise error
        return usual(raw, host, metadata)

    method.shortcut = shortcut
    client.put(*[Command(310, short(), b"x", number) for number in range(4)])
    await until(lambda: client.has_reply(3))
    codes = [client.replies[number].code for number in range(4)]
    assert codes[1] != 0
    assert [codes[0], *codes[2:]] == [0, 0, 0]
    assert len(await broker.messages()) == 3


@given(
    some.dictionaries(TEXT, TEXT, max_size=5), some.integers(0, 1 << 31), some.binary(max_size=9),
    some.sampled_from((JSON, BINARY)), TEXT,
)  # fmt: skip
def test_a_header_that_is_usual_is_read_as_by_the_json_parser(
    fields: dict[str, str], opaque: int, body: bytes, kind: int, remark: str
) -> None:
    number = min(opaque, (1 << 31) - 1)
    frame = encode(Command(310, fields, body, number, remark=remark, serialization=kind))
    header = UsualHeader()
    if header.read(frame):
        wanted = decode(frame)
        found = {name.decode(): value.decode() for name, value in header.fields.items()}
        assert (found, header.opaque, header.code) == (wanted.fields, wanted.opaque, wanted.code)
        assert frame[header.body_begin :] == wanted.body
    else:
        texts = "".join((*fields, *fields.values(), remark))
        is_odd = not texts.isascii() or not texts.isprintable() or number > 999_999_999
        assert is_odd or remark or any(mark in name for name in fields for mark in '"\\')


ODD_HEADERS: Final = (
    b'{"code":310,"extFields":{"a":"p","a":"p"}}',
    b'{"code":310,"code":310}',
    b'{"code":310,"language":"JAVA","language":"JAVA"}',
    b'{"code":310,"extFields":{"a":"p",}}',
    b'{"code":310,"extFields":{"a":1}}',
    b'{"code":310,"extFields":{"a" :"p"}}',
    b'{"code":310,"extFields":{"\\u0061":"p"}}',
    b'{"code":310,"extFields":{"a":"\\u00e9"}}',
    b'{"code":310,"extFields":{"a":"\x7fabc"}}',
    b'{"code":310,"extFields":{"a":"abc\x1f"}}',
    b'{"code":310,"lang":"JAVA"}',
    b'{"code":310,"cod":310}',
    b'{"code":310,"optimize":1}',
    b'{"code":310,"version":12345678901}',
    b'{"code":310,"flag":-1}',
    b'{"code":310,"language":"JAVA}',
    b'{"code":310,"language":"\\"}',
    b'{"code":310,"language":"JAV\\u000}',
    b'{"code":310,"extFields":{"a":"\\\\abcdef}',
    b'{"code":310,"extFields":{"a}',
    b'{"flag":0}',
)  # fmt: skip
"""Headers that are damaged, repeat a member or a field, or have unusual parts."""


@pytest.mark.parametrize("header", ODD_HEADERS)
def test_an_odd_header_is_left_to_the_json_parser_whatever_body_follows(header: bytes) -> None:
    sends, others = SendHeader(), UsualHeader()
    for body in (b"", b'"', b'":"x"}}', b'"}}'):
        size = 4 + len(header) + len(body)
        frame = size.to_bytes(4) + len(header).to_bytes(4) + header + body
        assert not sends.read(frame)
        assert not others.read(frame)


@pytest.mark.parametrize("kind", [JSON, BINARY])
def test_all_escapes_and_members_of_usual_headers_are_read(kind: int) -> None:
    block = (
        "".join(map(chr, [*range(8), 11, *range(14, 32)]))
        + 'a/b"c\\d'
        + "".join(map(chr, range(32, 127)))
    )
    fields = short(i=block, m="true", h="7", d="12", e="3")
    frame = encode(Command(310, fields, b'"}', 12, language="GO", serialization=kind))
    header, other = SendHeader(), UsualHeader()
    assert header.read(frame)
    assert other.read(frame)
    assert header.block == other.fields[b"i"] == block.encode()
    assert other.fields == {name.encode(): value.encode() for name, value in fields.items()}
    found = (header.code, header.opaque, header.message_flag, header.queue_count, header.queue_id)
    assert found == (310, 12, 7, 12, 3)
    assert (header.is_batch, header.is_plain, frame[header.body_begin :]) == (True, True, b'"}')
