"""The reading half of a store: old messages are told apart from fresh ones."""

from collections.abc import Callable
from typing import Any

import pytest

from pocketmq.log import commit_log
from pocketmq.model.errors import OffsetOutOfRange
from pocketmq.model.reading import Bound, KeyRange
from pocketmq.store.read.cold_read import Later
from tests.kit.store_broker import store_broker
from tests.kit.store_language import TalkingStore


async def test_fresh_messages_are_read_whatever_is_in_memory(store: TalkingStore) -> None:
    await store.send("orders", "a", key="k")
    await store.settled()
    store.quick_disk.drop_resident()
    assert await store.pulled("orders") == ["a"]
    assert await store.found("orders", "k") == ["a"]


async def test_each_lookup_of_old_messages_fetches_and_asks_again(
    store: TalkingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = store.quick_disk
    sent = await store.send("orders", "a", key="k", unique_key="u")
    await store.settled()
    monkeypatch.setattr(commit_log, "HOT_SIZE", 0)
    reading = store.store.reading
    lookups: list[Callable[[], Any]] = [
        lambda: reading.message_at(sent.physical_offsets[0]),
        lambda: reading.queue_offset_by_time("orders", 0, 1, Bound.LOWER),
        lambda: reading.store_timestamp_at("orders", 0, 0),
    ]
    for lookup in lookups:
        disk.drop_resident()
        later = lookup()
        assert isinstance(later, Later)
        assert await later is not None
        assert not isinstance(lookup(), Later)
    disk.drop_resident()
    page = await reading.query(KeyRange("orders", "k", 9))
    assert [message.body for message in page.messages] == [b"a"]
    disk.drop_resident()
    found = await reading.message_by_unique_key("orders", "u")
    assert found is not None
    assert found.body == b"a"


async def test_old_messages_that_are_in_memory_are_found_at_once(
    store: TalkingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.send("orders", "a", key="k")
    await store.settled()
    monkeypatch.setattr(commit_log, "HOT_SIZE", 0)
    assert await store.found("orders", "k") == ["a"]


async def test_a_span_tells_offsets_and_times() -> None:
    async with store_broker() as broker:
        assert await broker.store.reading.span("orders", 1) == (1, 0, 0, 0, 0)
        for broker.clock.wall in (10, 20, 30):
            await broker.add("orders", b"a", queue_id=1)
        assert await broker.store.reading.span("orders", 1) == (1, 0, 3, 10, 30)


async def test_a_reader_stands_between_min_and_max() -> None:
    async with store_broker() as broker:
        await broker.add("orders", b"a")
        await broker.expire()
        await broker.add("orders", b"b")
        check_offset = broker.store.reading.check_offset
        check_offset("orders", 0, 1)
        check_offset("orders", 0, 2)
        for queue_offset in (0, 3):
            with pytest.raises(OffsetOutOfRange) as caught:
                check_offset("orders", 0, queue_offset)
            assert (caught.value.min_offset, caught.value.max_offset) == (1, 2)
