"""A start finds half messages from the offsets on disk, and from the log behind them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pocketmq.model.message import OFFSET_MAX
from pocketmq.model.topic import HALF_TOPIC
from pocketmq.store.read.cold_read import Later
from pocketmq.store.read.reading import Reading
from tests.kit.transacting import RULES, TransactionDesk, transacting
from tests.sim.disk import SimDisk

STORE = Path("/store")
SAVED_MS = 5_000
"""How often it is written down how far half messages are done."""


@asynccontextmanager
async def after_a_kill(desk: TransactionDesk) -> AsyncIterator[TransactionDesk]:
    """Opens what kill -9 would leave now."""
    disk = desk.talking.disk
    assert isinstance(disk, SimDisk)
    async with transacting(STORE, disk=SimDisk(disk.image.copy()), clock=desk.clock) as again:
        await again.settled()
        yield again


def known(desk: TransactionDesk) -> tuple[int, int]:
    """Returns the first half message and the first end that a start read."""
    ledger = desk.transactions._ledger
    return ledger.halves.base, ledger.ops.base


async def ended_before(desk: TransactionDesk, count: int) -> None:
    """Ends some half messages, more than the op messages that record it."""
    sent = [await desk.half(f"before{number}") for number in range(count)]
    await desk.roll_back(*sent)


@pytest.mark.parametrize("is_written", [False, True])
async def test_a_start_reads_from_the_offsets_on_disk_on(
    desk: TransactionDesk, *, is_written: bool
) -> None:
    await ended_before(desk, 3)
    await desk.roll_back(await desk.half("a"))
    if is_written:
        await desk.run()
        assert desk.transactions._saving is not None
        await desk.transactions._saving.reached()
        await desk.store.tables.offsets.saved()
    await desk.half("open")
    await desk.roll_back(await desk.half("b"))
    async with after_a_kill(desk) as again:
        assert known(again) == ((4, 2) if is_written else (0, 0))
        assert again.transactions.open_count == 1
        page = await again.transactions.page(0, 9)
        assert [half.place.queue_offset for half in page.halves] == [4]


async def test_the_first_half_message_of_all_is_asked_about_after_a_start(
    desk: TransactionDesk,
) -> None:
    await desk.half("a")
    await desk.settled()
    async with after_a_kill(desk) as again:
        again.listen()
        await again.run(RULES.timeout_ms + 2_000)
        assert [check.checks for check in again.asked] == [1]


async def test_what_was_looked_at_and_ended_takes_no_memory_for_long(
    desk: TransactionDesk,
) -> None:
    counts = desk.transactions._counts
    sent = [await desk.half(name) for name in "abc"]
    await desk.run(2_000)
    assert counts.has_open
    await desk.roll_back(*sent)
    await desk.run(SAVED_MS)
    assert not counts.has_open


# -- what retention has to keep --------------------------------------------------------------------
async def test_while_a_place_cannot_be_seen_at_once_retention_keeps_what_it_kept(
    desk: TransactionDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.roll_back(await desk.half("before"))
    sent = await desk.half("a")
    await desk.settled()
    place = desk.halves()[1].physical_offset
    assert desk.transactions.floor() == place

    async def look() -> int:
        return place

    with monkeypatch.context() as patch:
        patch.setattr(Reading, "place_of", lambda *_: Later(look))
        assert desk.transactions.floor() == place
    await desk.roll_back(sent)
    assert desk.transactions.floor() == OFFSET_MAX


async def test_before_anything_was_sent_retention_keeps_nothing(desk: TransactionDesk) -> None:
    assert desk.transactions.floor() == OFFSET_MAX
    assert desk.store.reading.queue_range(HALF_TOPIC, 0) == (0, 0)
