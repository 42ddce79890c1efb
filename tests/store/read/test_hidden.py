"""Messages that no follower has are hidden from consumers, until followers have them."""

from pathlib import Path

import pytest

from pocketmq.model.reading import PullStatus
from pocketmq.store.read.cold_read import value_of
from tests.kit.store_language import TalkingStore, store_at

KNOWN = 2


async def half_hidden(told: TalkingStore) -> list[int]:
    """Sends four messages and hides the last two; returns the begins of the four."""
    begins = []
    for number in range(4):
        begins.append(told.store.appended)
        await told.send("orders", f"{number}", key="k")
    await told.settled()
    told.store.reading.hide(begins[KNOWN])
    return begins


@pytest.mark.parametrize(
    ("queue_offset", "status", "following"),
    [
        (1, PullStatus.FOUND, 2),
        (2, PullStatus.OFFSET_OVERFLOW_ONE, 2),
        (3, PullStatus.OFFSET_OVERFLOW_ONE, 3),
        (4, PullStatus.OFFSET_OVERFLOW_ONE, 4),
        (5, PullStatus.OFFSET_OVERFLOW_BADLY, 2),
    ],
)
async def test_a_pull_ends_before_what_is_hidden_and_keeps_later_offsets(
    tmp_path: Path, queue_offset: int, status: PullStatus, following: int
) -> None:
    async with store_at(tmp_path) as told:
        await half_hidden(told)
        found = told.pull("orders", queue_offset)
        assert (found.status, found.next_begin_offset) == (status, following)
        assert len(found.records) == (status is PullStatus.FOUND)


async def test_neither_key_nor_id_nor_filter_finds_what_is_hidden(tmp_path: Path) -> None:
    async with store_at(tmp_path) as told:
        begins, reading = await half_hidden(told), told.store.reading
        assert await told.pulled("orders") == ["0", "1"]
        assert sorted(await told.found("orders", "k")) == ["0", "1"]
        shown = [await value_of(reading.message_at(begin)) for begin in begins]
        assert [one is not None for one in shown] == [True, True, False, False]
        assert reading.queue_range("orders", 0) == (0, KNOWN)
        reading.check_offset("orders", 0, 4)  # A consumer may commit what it read before.
        arrival = reading.arrivals("orders", 0).reached(KNOWN + 1)
        assert not arrival.done()
        reading.show()
        assert arrival.result()
        assert await told.pulled("orders") == ["0", "1", "2", "3"]
        assert len(await told.found("orders", "k")) == 4
