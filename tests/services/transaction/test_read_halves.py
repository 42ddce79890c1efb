"""Half messages and ends that are read: damaged, gone, not there yet, or more than one read."""

import pytest

from pocketmq.format.transaction_id import read_transaction_id
from pocketmq.model.reading import ReadRange
from pocketmq.model.topic import OP_HALF_TOPIC
from pocketmq.services.transaction import half_table as reading_module
from pocketmq.services.transaction.half_table import HalfReader
from pocketmq.store.read.reading import Reading
from tests.kit.spoiled import spoil
from tests.kit.transacting import TransactionDesk


def place_of(sent: str) -> int:
    """Returns where the record of a transaction lies."""
    place = read_transaction_id(sent)
    assert place is not None
    return place.physical_offset


async def bodies_of(desk: TransactionDesk, *queue_offsets: int) -> dict[int, str | None]:
    """Returns the body of each half message that was read, None of one that cannot be."""
    found = await HalfReader(desk.store).read(queue_offsets)
    names = {half.queue_offset: half.body.decode() for half in desk.halves()}
    return {at: None if half is None else names[at] for at, half in found.items()}


async def named_from(desk: TransactionDesk, begin: int) -> list[tuple[int, list[int]]]:
    return [one async for one in HalfReader(desk.store).ops(begin)]


def reads_of(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Returns where each read from now on begins and how many it asks for."""
    reads: list[tuple[int, int]] = []
    pull = Reading.pull

    def told(reading: Reading, wanted: ReadRange, *more: object) -> object:
        reads.append((wanted.queue_offset, wanted.max_messages))
        return pull(reading, wanted, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Reading, "pull", told)
    return reads


async def test_those_next_to_each_other_are_read_together(
    desk: TransactionDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(9):
        await desk.half(f"{number}")
    await desk.settled()
    reads = reads_of(monkeypatch)
    found = await HalfReader(desk.store).read([0, 1, 2, 5, 7, 8])
    assert [*found] == [0, 1, 2, 5, 7, 8]
    assert None not in found.values()
    assert reads == [(0, 3), (5, 1), (7, 2)]


async def test_one_that_is_not_there_yet_is_missing(desk: TransactionDesk) -> None:
    for name in "ab":
        await desk.half(name)
    await desk.settled()
    assert await bodies_of(desk, 0, 1, 2, 3) == {0: "a", 1: "b"}
    assert await bodies_of(desk, 2) == {}
    assert await bodies_of(desk) == {}


@pytest.mark.parametrize("is_apart", [False, True])
async def test_what_is_read_in_one_go_has_a_limit_of_bytes(
    desk: TransactionDesk, monkeypatch: pytest.MonkeyPatch, *, is_apart: bool
) -> None:
    for number in range(8):
        await desk.half(f"{number}")
    await desk.settled()
    (half,) = (await HalfReader(desk.store).read([0])).values()
    assert half is not None
    monkeypatch.setattr(reading_module, "READ_BYTES_MAX", 3 * len(half.record))
    wanted = range(0, 8, 2) if is_apart else range(8)
    assert [*await bodies_of(desk, *wanted)] == [*wanted][:3]


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_one_that_is_damaged_keeps_no_other_from_being_read(
    desk: TransactionDesk, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    sent = [await desk.half(name) for name in "abc"]
    await desk.settled()
    spoil(desk.store, place_of(sent[number]))
    found = await HalfReader(desk.store).read([0, 1, 2])
    assert {at: half is None for at, half in found.items()} == {at: at == number for at in range(3)}
    assert "message.damaged" in [one.message for one in caplog.records]


async def test_ends_are_read_from_an_offset_on(
    desk: TransactionDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abcde":
        await desk.roll_back(await desk.half(name))
    monkeypatch.setattr(reading_module, "OPS_READ_MAX", 2)
    reads = reads_of(monkeypatch)
    assert await named_from(desk, 1) == [(at, [at]) for at in range(1, 5)]
    assert reads == [(1, 2), (3, 2)]
    assert await named_from(desk, 5) == []


async def test_an_end_that_is_damaged_names_none(
    desk: TransactionDesk, caplog: pytest.LogCaptureFixture
) -> None:
    for name in "abc":
        await desk.roll_back(await desk.half(name))
    spoil(desk.store, desk.messages(OP_HALF_TOPIC)[1].physical_offset)
    assert await named_from(desk, 0) == [(0, [0]), (1, []), (2, [2])]
    assert "message.damaged" in [one.message for one in caplog.records]
