"""Looking messages up."""

import asyncio
import zlib
from collections.abc import AsyncIterator

import pytest

from pocketmq.format import body_codec
from pocketmq.format.addresses import host_from_text, offset_message_id
from pocketmq.model.errors import (
    IllegalKey,
    IllegalMessageId,
    IllegalNumber,
    MessageNotFound,
)
from pocketmq.model.message import FLAG_COMPRESSED
from pocketmq.model.reading import Bound, KeyRange, QueryResult
from pocketmq.services.admin.tracing import trace_message
from pocketmq.services.query import (
    PAGE_SIZE_MAX,
    Query,
    size_in_reply,
)
from tests.kit.store_broker import StoreBroker, store_broker
from tests.kit.store_language import STORE_HOST
from tests.sim.clock import FakeClock

MIB = 1 << 20


@pytest.fixture
async def broker() -> AsyncIterator[StoreBroker]:
    """A broker whose time begins at 0."""
    async with store_broker(clock=FakeClock(0)) as opened:
        yield opened


@pytest.fixture
def query(broker: StoreBroker) -> Query:
    return broker.query


def bodies(result: QueryResult) -> list[bytes]:
    return [message.body for message in result.messages]


async def test_64_messages_unless_asked_otherwise(broker: StoreBroker, query: Query) -> None:
    await broker.add("orders", *[b"a"] * 65, KEYS="k")
    assert len((await query.by_key(KeyRange("orders", "k"))).messages) == 64


async def test_times_bound_the_search_and_0_does_not(broker: StoreBroker, query: Query) -> None:
    for time_ms, body in ((10, b"a"), (20, b"b"), (30, b"c")):
        broker.clock.wall = time_ms
        await broker.add("orders", body, KEYS="k")
    assert bodies(await query.by_key(KeyRange("orders", "k", begin_ms=20))) == [b"c", b"b"]
    assert bodies(await query.by_key(KeyRange("orders", "k", end_ms=20))) == [b"b", b"a"]
    assert bodies(await query.by_key(KeyRange("orders", "k", begin_ms=20, end_ms=20))) == [b"b"]


@pytest.mark.parametrize("key", ["", "  ", "a b", "a\x00"])
async def test_keys_that_no_message_can_carry_are_refused(query: Query, key: str) -> None:
    with pytest.raises(IllegalKey):
        await query.by_key(KeyRange("orders", key))


@pytest.mark.parametrize(
    ("field", "numbers"),
    [
        ("max", {"count_max": -1}),
        ("max", {"count_max": 1025}),
        ("begin_ms", {"begin_ms": -1}),
        ("end_ms", {"end_ms": -1}),
        ("end_ms", {"begin_ms": 5, "end_ms": 4}),
    ],
)
async def test_numbers_outside_their_range_are_refused(
    query: Query, field: str, numbers: dict[str, int]
) -> None:
    with pytest.raises(IllegalNumber) as caught:
        await query.by_key(KeyRange("orders", "k", **numbers))  # type: ignore[arg-type]
    assert caught.value.field == field


async def test_bodies_that_unfold_shorten_the_page(broker: StoreBroker, query: Query) -> None:
    folded = zlib.compress(bytes(5 * MIB))
    await broker.add("orders", *[folded] * 4, system_flag=FLAG_COMPRESSED, KEYS="k")
    first = await query.by_key(KeyRange("orders", "k"))
    assert (len(first.messages), first.complete) == (2, False)
    second = await query.by_key(KeyRange("orders", "k", cursor=first.next_cursor))
    assert (len(second.messages), second.complete) == (2, True)


async def test_one_message_is_returned_whatever_its_size(broker: StoreBroker, query: Query) -> None:
    folded = zlib.compress(bytes(PAGE_SIZE_MAX))
    await broker.add("orders", folded, system_flag=FLAG_COMPRESSED, KEYS="k")
    page = await query.by_key(KeyRange("orders", "k"))
    assert (len(page.messages), page.complete) == (1, True)
    assert size_in_reply(page.messages[0]) > PAGE_SIZE_MAX


async def test_an_id_is_a_unique_key_first(broker: StoreBroker, query: Query) -> None:
    await broker.add("orders", b"at 0")
    looks_like_an_offset = offset_message_id(STORE_HOST, 0)
    assert (await query.by_id("orders", looks_like_an_offset)).body == b"at 0"
    await broker.add("orders", b"by key", UNIQ_KEY=looks_like_an_offset)
    assert (await query.by_id("orders", looks_like_an_offset)).body == b"by key"


async def test_an_offset_id_needs_a_record_its_host_and_its_topic(
    broker: StoreBroker, query: Query
) -> None:
    await broker.add("orders", b"a")
    other_host = host_from_text("127.0.0.1:1")
    for topic, message_id in (
        ("orders", offset_message_id(STORE_HOST, 1)),
        ("orders", offset_message_id(other_host, 0)),
        ("other", offset_message_id(STORE_HOST, 0)),
        ("orders", "0" * 31),
        ("orders", "unknown"),
    ):
        with pytest.raises(MessageNotFound):
            await query.by_id(topic, message_id)
    assert (await query.by_id("orders", offset_message_id(STORE_HOST, 0).lower())).body == b"a"


async def test_an_ipv6_offset_id_is_read_too(broker: StoreBroker, query: Query) -> None:
    host = host_from_text("[::1]:10911")
    await broker.add("orders", b"a", store_host=host)
    message_id = offset_message_id(host, 0)
    assert len(message_id) == 56
    assert (await query.by_id("orders", message_id)).body == b"a"


@pytest.mark.parametrize("message_id", ["", "   ", "x" * 256, "é" * 128, "a\nb", "a\x7f"])
async def test_malformed_ids_are_refused(query: Query, message_id: str) -> None:
    with pytest.raises(IllegalMessageId):
        await query.by_id("orders", message_id)


async def test_a_time_becomes_an_offset(broker: StoreBroker, query: Query) -> None:
    for time_ms in (10, 20):
        broker.clock.wall = time_ms
        await broker.add("orders", b"a")
    assert await query.offset_by_time("orders", 0, 11, Bound.LOWER) == 1
    assert await query.offset_by_time("orders", 0, 11, Bound.UPPER) == 0
    with pytest.raises(IllegalNumber):
        await query.offset_by_time("orders", 0, -1, Bound.LOWER)


async def test_bodies_beyond_any_page_are_given_as_they_are_stored_one_a_page(
    broker: StoreBroker, query: Query
) -> None:
    bomb = zlib.compress(bytes(16 * MIB))
    await broker.add("orders", *[bomb] * 3, system_flag=FLAG_COMPRESSED, KEYS="k")
    cursor = ""
    pages: list[list[tuple[bytes, str]]] = []
    while not pages or cursor:
        page = await query.by_key(KeyRange("orders", "k", cursor=cursor))
        pages.append([(message.body, message.body_codec) for message in page.messages])
        cursor = page.next_cursor
    assert pages == [[(bomb, "zlib")]] * 3


async def test_an_id_of_a_body_too_large_finds_it_as_it_is_stored(
    broker: StoreBroker, query: Query
) -> None:
    bomb = zlib.compress(bytes(16 * MIB))
    await broker.add("orders", bomb, system_flag=FLAG_COMPRESSED, UNIQ_KEY="id")
    found = await query.by_id("orders", "id")
    assert (found.body, found.body_codec) == (bomb, "zlib")


async def test_others_get_their_turn_between_two_bodies(broker: StoreBroker, query: Query) -> None:
    folded = zlib.compress(bytes(1_000))
    await broker.add("orders", *[folded] * 9, system_flag=FLAG_COMPRESSED, KEYS="k")
    searching = asyncio.ensure_future(query.by_key(KeyRange("orders", "k")))
    turns = 0
    while not searching.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 9
    assert bodies(searching.result()) == [bytes(1_000)] * 9


async def test_nothing_is_decompressed_that_is_not_shown(
    broker: StoreBroker, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    folded = zlib.compress(bytes(1_000))
    await broker.add("orders", folded, system_flag=FLAG_COMPRESSED, UNIQ_KEY="id", KEYS="k")
    monkeypatch.setattr(body_codec, "_unfold_zlib", None)
    with pytest.raises(TypeError):
        await query.by_id("orders", "id")
    assert (await query.place_of("orders", "id")).body == folded
    assert (await broker.store.reading.query(KeyRange("orders", "k", 9))).messages[0].body == folded
    key, records = await trace_message(broker.store, "id")
    assert (key, len(records)) == ("id", 1)
