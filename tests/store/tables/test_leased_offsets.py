"""Offsets that leases move: in memory at once, on disk with the journal, never where set by hand.

Queue 0 of `orders` and the group `readers`, unless another is named.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq.model.errors import DiskFull
from pocketmq.store.tables.offsets import Clamped
from tests.kit.offset_table import Offsets
from tests.sim.clock import at

NAME = "orders@readers"


@pytest.fixture
def offsets(tmp_path: Path) -> Iterator[Offsets]:
    made = Offsets(tmp_path)
    yield made
    made.pool.shutdown()


def lease(offsets: Offsets, queue_offset: int, queue_id: int = 0, topic: str = "orders") -> None:
    offsets.table.lease("readers", topic, queue_id, queue_offset)


def found(offsets: Offsets, queue_id: int = 0) -> int | None:
    return offsets.table.find("readers", "orders", queue_id)


async def test_a_lease_moves_the_offset_in_memory_and_on_disk_once_its_fence_is_passed(
    offsets: Offsets,
) -> None:
    await offsets.table.commit("readers", "orders", 0, 5)
    lease(offsets, 8)
    await offsets.table.saved()
    assert (found(offsets), offsets.rows) == (8, {NAME: {0: 5}})
    assert offsets.marks == {}, "without a fence nothing is said of a journal"
    offsets.table.fence(2, 4)
    lease(offsets, 9)
    await offsets.table.saved()
    assert offsets.rows == {NAME: {0: 5}}
    offsets.table.pass_fence()
    await offsets.table.saved()
    assert offsets.rows == {NAME: {0: 8}}, "the second lease came behind the fence"
    assert offsets.marks == {"adopted": True, "begin": 2, "known": 4, "set": {}}
    offsets.table.fence(4, 6)
    offsets.table.pass_fence()
    await offsets.table.saved()
    assert offsets.rows == {NAME: {0: 9}}
    assert offsets.table.leases.held == {}
    again = offsets.reopened()
    assert again.find("readers", "orders", 0) == 9
    assert (again.leases.begin, again.leases.known, again.leases.is_adopted) == (4, 6, True)


async def test_a_first_lease_stays_away_from_the_disk_and_a_second_queue_too(
    offsets: Offsets,
) -> None:
    lease(offsets, 1)
    lease(offsets, 0, queue_id=1)
    await offsets.table.saved()
    assert offsets.table.all_of("readers") == {"orders": {0: 1, 1: 0}}
    assert offsets.rows == {NAME: {}}
    await offsets.table.commit("readers", "orders", 1, 4)
    assert offsets.rows == {NAME: {1: 4}}


async def test_a_lease_never_moves_an_offset_back_nor_where_it_is(offsets: Offsets) -> None:
    await offsets.table.commit("readers", "orders", 0, 5)
    writes = len(offsets.disk.calls["write_file"])
    lease(offsets, 5)
    lease(offsets, 4)
    await offsets.table.saved()
    assert (found(offsets), offsets.table.leases.held) == (5, {})
    assert len(offsets.disk.calls["write_file"]) == writes


async def test_an_offset_advanced_to_where_it_is_writes_nothing(offsets: Offsets) -> None:
    await offsets.table.commit("readers", "orders", 0, 5)
    offsets.table.advance("readers", "orders", 0, 5)
    await offsets.table.saved()
    assert offsets.table.set_back() == []
    assert offsets.rows == {NAME: {0: 5}}
    writes = len(offsets.disk.calls["write_file"])
    offsets.table.step(at(0))
    assert len(offsets.disk.calls["write_file"]) == writes == 2, "one is of groups"


async def test_a_fence_without_news_writes_nothing(offsets: Offsets) -> None:
    offsets.table.pass_fence()
    offsets.table.fence(1, 1)
    offsets.table.pass_fence()
    await offsets.table.saved()
    writes = len(offsets.disk.calls["write_file"])
    offsets.table.fence(1, 1)
    offsets.table.pass_fence()
    await offsets.table.saved()
    assert len(offsets.disk.calls["write_file"]) == writes == 1


async def test_a_stop_lets_all_go_to_disk_as_they_are(offsets: Offsets) -> None:
    lease(offsets, 8)
    await offsets.table.saved()
    offsets.table.hold_nothing()
    await offsets.table.saved()
    assert offsets.rows == {NAME: {0: 8}}
    writes = len(offsets.disk.calls["write_file"])
    offsets.table.hold_nothing()
    await offsets.table.saved()
    assert len(offsets.disk.calls["write_file"]) == writes


async def test_what_is_committed_goes_to_disk_whatever_is_leased(offsets: Offsets) -> None:
    lease(offsets, 8)
    await offsets.table.commit("readers", "orders", 0, 3)
    assert (found(offsets), offsets.rows) == (3, {NAME: {0: 3}})


async def test_a_topic_that_is_removed_takes_what_its_leases_hold(offsets: Offsets) -> None:
    offsets.table.leases.journal_end = 9
    lease(offsets, 8)
    lease(offsets, 6, topic="audit")
    await offsets.table.remove_topic("orders")
    assert offsets.table.leases.held == {("audit@readers", 0): -1}
    assert offsets.rows == {"audit@readers": {}}
    assert offsets.marks["set"] == {NAME: {"0": 9}}, "older leases do not make it again"


async def test_an_offset_of_0_stays_on_disk_while_leases_move_it(offsets: Offsets) -> None:
    await offsets.table.commit("readers", "orders", 0, 0)
    lease(offsets, 3)
    await offsets.table.saved()
    assert (found(offsets), offsets.rows) == (3, {NAME: {0: 0}})


# -- set back, begun, clamped ----------------------------------------------------------------------


async def test_those_set_back_or_forgotten_are_told_once(offsets: Offsets) -> None:
    assert offsets.table.set_back() == []
    await offsets.table.set_many("readers", "orders", {0: 5, 1: 5})
    await offsets.table.set_many("others", "audit", {0: 1})
    await offsets.table.commit("readers", "orders", 0, 5)
    assert offsets.table.set_back() == []
    await offsets.table.set_many("readers", "orders", {0: 4, 1: 4})
    await offsets.table.remove_topic("audit")
    assert offsets.table.set_back() == [("readers", "orders"), ("others", "audit")]
    assert offsets.table.set_back() == []


async def test_an_offset_set_to_0_where_there_was_none_is_not_set_back(offsets: Offsets) -> None:
    await offsets.table.commit("readers", "orders", 0, 0)
    assert offsets.table.set_back() == []


async def test_a_new_group_begins_at_once_and_the_write_is_under_way(offsets: Offsets) -> None:
    offsets.table.begin("readers", "orders", {0: 0, 1: 7})
    assert found(offsets) == 0
    offsets.pool.shutdown()  # No call more: what is under way is finished.
    assert offsets.rows == {NAME: {0: 0, 1: 7}}


async def test_a_beginning_that_found_no_room_is_written_by_a_step(offsets: Offsets) -> None:
    offsets.disk.full_below = offsets.directory
    offsets.table.begin("readers", "orders", {0: 4})
    with pytest.raises(DiskFull):
        await offsets.table.saved()
    offsets.disk.full_below = None
    offsets.table.step(at(0))
    offsets.pool.shutdown()
    assert offsets.rows == {NAME: {0: 4}}


async def test_one_offset_beyond_its_queues_end_comes_down_and_the_write_is_under_way(
    offsets: Offsets,
) -> None:
    await offsets.table.set_many("readers", "orders", {0: 5, 1: 7})
    assert offsets.table.clamp_one("readers", "orders", 0, 5) is None
    assert offsets.table.clamp_one("readers", "orders", 2, 0) is None
    expected = Clamped("readers", "orders", 0, 5, 4)
    assert offsets.table.clamp_one("readers", "orders", 0, 4) == expected
    assert offsets.table.all_of("readers") == {"orders": {0: 4, 1: 7}}
    offsets.pool.shutdown()
    assert offsets.rows == {NAME: {0: 4, 1: 7}}


async def test_a_group_that_sets_nothing_is_made_and_stands_nowhere(offsets: Offsets) -> None:
    await offsets.table.set_many("readers", "orders", {})
    assert offsets.groups.names() == ["readers"]
    assert [*offsets.table.positions()] == []
    assert not offsets.path.exists()


async def test_queues_that_a_clone_does_not_have_are_forgotten_with_what_leases_hold_of_them(
    offsets: Offsets,
) -> None:
    offsets.table.leases.journal_end = 9
    await offsets.table.set_many("others", "orders", {0: 7})
    await offsets.table.set_many("readers", "orders", {0: 5, 1: 6})
    lease(offsets, 8, queue_id=1)
    offsets.table.fence(0, 9)
    await offsets.table.clone("others", "readers", "orders")
    assert offsets.table.set_back() == [("readers", "orders")]
    lease(offsets, 2, queue_id=1)
    offsets.table.pass_fence()
    await offsets.table.saved()
    assert offsets.rows[NAME] == {0: 7}, "what it had there does not come back with a new lease"
    again = offsets.reopened()
    assert again.find("readers", "orders", 1) is None
    assert not again.leases.pushes(NAME, 1, 8)


async def test_a_clone_that_goes_back_is_told_and_leases_of_before_do_not_move_it(
    offsets: Offsets,
) -> None:
    await offsets.table.commit("readers", "orders", 0, 2)
    await offsets.table.commit("others", "orders", 0, 9)
    offsets.table.lease("others", "orders", 0, 12)
    await offsets.table.clone("readers", "others", "orders")
    assert offsets.table.set_back() == [("others", "orders")]
    assert offsets.table.leases.held == {}
    assert offsets.rows["orders@others"] == {0: 2}
