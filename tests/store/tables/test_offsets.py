"""Consumer offsets: durable when committed, in the file a real broker reads."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.format.table_json import decode_table
from pocketmq.store.tables.offsets import CHECKPOINT_INTERVAL_MS, Clamped
from tests.golden_stores import GoldenStores
from tests.kit.offset_table import Offsets
from tests.kit.store_golden import config_of
from tests.sim.clock import START_MS, at


@pytest.fixture
def offsets(tmp_path: Path) -> Iterator[Offsets]:
    made = Offsets(tmp_path)
    yield made
    made.pool.shutdown()


async def test_an_offset_is_durable_when_it_is_committed(offsets: Offsets) -> None:
    assert offsets.table.find("readers", "orders", 0) is None
    await offsets.table.commit("readers", "orders", 0, 17)
    await offsets.table.commit("readers", "orders", 3, 4)
    again = offsets.reopened()
    assert again.find("readers", "orders", 0) == 17
    assert again.find("readers", "orders", 3) == 4
    assert again.find("readers", "orders", 1) is None
    assert again.find("others", "orders", 0) is None


async def test_a_group_that_commits_is_made(offsets: Offsets) -> None:
    await offsets.table.commit("readers", "orders", 0, 17)
    assert offsets.groups.names() == ["readers"]


async def test_an_offset_may_go_back(offsets: Offsets) -> None:
    await offsets.table.commit("readers", "orders", 0, 17)
    await offsets.table.commit("readers", "orders", 0, 3)
    assert offsets.reopened().find("readers", "orders", 0) == 3


async def test_a_thousand_commits_share_a_few_writes(offsets: Offsets) -> None:
    async with asyncio.TaskGroup() as tasks:
        for number in range(1_000):
            tasks.create_task(offsets.table.commit("readers", "orders", number % 8, number))
    assert len(offsets.disk.calls["write_file"]) <= 3
    again = offsets.reopened()
    assert [again.find("readers", "orders", q) for q in range(8)] == list(range(992, 1_000))


async def test_an_advanced_offset_is_there_at_once_and_durable_with_the_next_step(
    offsets: Offsets,
) -> None:
    await offsets.table.commit("readers", "orders", 0, 17)
    before = offsets.path.read_bytes()
    offsets.table.advance("readers", "orders", 0, 16)  # Never back.
    offsets.table.advance("readers", "orders", 0, 19)
    offsets.table.advance("readers", "orders", 1, 0)
    assert offsets.table.all_of("readers") == {"orders": {0: 19, 1: 0}}
    assert offsets.path.read_bytes() == before
    assert offsets.table.step(at(7)).at_ms == 7 + CHECKPOINT_INTERVAL_MS
    await offsets.table.saved()
    again = offsets.reopened()
    assert again.all_of("readers") == {"orders": {0: 19, 1: 0}}


async def test_a_step_with_nothing_new_writes_nothing(offsets: Offsets) -> None:
    await offsets.table.commit("readers", "orders", 0, 17)
    writes = len(offsets.disk.calls["write_file"])
    offsets.table.step(at(0))
    await offsets.table.saved()
    assert len(offsets.disk.calls["write_file"]) == writes


async def test_the_file_is_written_as_a_real_broker_writes_it(offsets: Offsets) -> None:
    await offsets.table.commit("readers", "orders", 0, 250)
    await offsets.table.commit("readers", "orders", 1, 7)
    assert offsets.path.read_text() == (
        '{\n\t"dataVersion":{\n\t\t"counter":2,\n\t\t"stateVersion":0,\n'
        f'\t\t"timestamp":{START_MS}\n\t}},\n'
        '\t"offsetTable":{\n\t\t"orders@readers":{\n\t\t\t0:250,\n\t\t\t1:7\n\t\t}\n\t}\n}'
    )


async def test_offsets_of_a_real_broker_are_read_and_the_rest_is_kept(
    golden: GoldenStores, tmp_path: Path
) -> None:
    directory = config_of(golden, "semantics", tmp_path / "semantics")
    offsets = Offsets(directory)
    before = decode_table(offsets.path.read_bytes())
    assert all(type(key) is int for row in before["offsetTable"].values() for key in row)
    for name, row in before["offsetTable"].items():
        topic, _, group = name.partition("@")
        assert {q: offsets.table.find(group, topic, int(q)) for q in row} == row
    await offsets.table.commit("new", "orders", 2, 9)
    after = decode_table(offsets.path.read_bytes())
    assert after["offsetTable"].pop("orders@new") == {2: 9}
    assert after.pop("dataVersion")["counter"] == before.pop("dataVersion")["counter"] + 1
    assert after == before
    offsets.pool.shutdown()


@pytest.mark.parametrize("row", ["{0:250,1:7}", '{"0":250,"1":7}', '{ "0" : 250 , 1 : 7 }'])
async def test_keys_may_stand_with_and_without_quotes(tmp_path: Path, row: str) -> None:
    (tmp_path / "config").mkdir()
    path = tmp_path / "config" / "consumerOffset.json"
    path.write_text('{"offsetTable":{"orders@readers":' + row + "}}")
    table = Offsets(tmp_path).table
    assert [table.find("readers", "orders", number) for number in (0, 1)] == [250, 7]


async def test_a_damaged_file_gives_way_to_the_one_before(offsets: Offsets) -> None:
    await offsets.table.commit("readers", "orders", 0, 1)
    await offsets.table.commit("readers", "orders", 0, 2)
    offsets.path.write_text(offsets.path.read_text()[:20])
    assert offsets.reopened().find("readers", "orders", 0) == 1
    offsets.path.with_name("consumerOffset.json.bak").write_bytes(b"\0\0")
    with pytest.raises(ValueError):
        Offsets(offsets.directory)


# -- many at once ----------------------------------------------------------------------------------


async def stand(offsets: Offsets) -> None:
    """Commits offsets of two groups in two topics."""
    await offsets.table.set_many("readers", "orders", {0: 1, 1: 2})
    await offsets.table.set_many("readers", "audit", {0: 3})
    await offsets.table.set_many("others", "orders", {1: 4})


async def test_offsets_of_a_topic_are_set_in_one_write(offsets: Offsets) -> None:
    await offsets.groups.ensure("readers")
    before = len(offsets.disk.calls["write_file"])
    await offsets.table.set_many("readers", "orders", {0: 1, 1: 2})
    assert len(offsets.disk.calls["write_file"]) == before + 1
    await offsets.table.set_many("readers", "orders", {1: 9})
    assert offsets.reopened().all_of("readers") == {"orders": {0: 1, 1: 9}}


async def test_all_of_a_group_and_all_groups(offsets: Offsets) -> None:
    await stand(offsets)
    again = offsets.reopened()
    assert again.all_of("readers") == {"orders": {0: 1, 1: 2}, "audit": {0: 3}}
    assert again.all_of("nobody") == {}
    assert again.topics_by_group() == {"others": ["orders"], "readers": ["audit", "orders"]}


async def test_what_is_told_is_a_copy(offsets: Offsets) -> None:
    await stand(offsets)
    offsets.table.all_of("others")["orders"][1] = 99
    assert offsets.table.find("others", "orders", 1) == 4


async def test_a_clone_replaces_and_then_goes_its_own_way(offsets: Offsets) -> None:
    await stand(offsets)
    await offsets.table.clone("readers", "others", "orders")
    await offsets.table.commit("readers", "orders", 0, 50)
    again = offsets.reopened()
    assert again.all_of("others") == {"orders": {0: 1, 1: 2}}


async def test_a_clone_of_nothing_changes_nothing(offsets: Offsets) -> None:
    await stand(offsets)
    await offsets.table.clone("others", "readers", "audit")
    await offsets.table.clone("readers", "new", "unknown")
    assert offsets.table.find("readers", "audit", 0) == 3
    assert offsets.table.all_of("new") == {}
    assert "new" in offsets.groups.names()


async def test_a_topic_is_forgotten_for_every_group(offsets: Offsets) -> None:
    await stand(offsets)
    await offsets.table.remove_topic("orders")
    await offsets.table.remove_topic("orders")
    assert offsets.reopened().topics_by_group() == {"readers": ["audit"]}


async def test_a_group_is_forgotten_in_every_topic(offsets: Offsets) -> None:
    await stand(offsets)
    await offsets.table.remove_group("readers")
    assert offsets.reopened().topics_by_group() == {"others": ["orders"]}


async def test_what_a_real_broker_keeps_of_pull_consumers_is_forgotten_too(
    golden: GoldenStores, tmp_path: Path
) -> None:
    offsets = Offsets(config_of(golden, "semantics", tmp_path / "semantics"))
    assert "OrderT@order-group" in decode_table(offsets.path.read_bytes())["pullOffsetTable"]
    await offsets.table.remove_topic("OrderT")
    await offsets.table.remove_group("retry-group")
    after = decode_table(offsets.path.read_bytes())
    assert after["pullOffsetTable"] == {}
    assert not any("OrderT@" in name or "@retry-group" in name for name in after["offsetTable"])
    offsets.pool.shutdown()


# -- against a model -------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c"])
MOVES = st.one_of(
    st.tuples(
        st.just("set_many"), NAMES, NAMES, st.dictionaries(st.integers(0, 2), st.integers(0, 9))
    ),
    st.tuples(st.just("commit"), NAMES, NAMES, st.integers(0, 2), st.integers(0, 9)),
    st.tuples(st.just("clone"), NAMES, NAMES, NAMES).filter(lambda move: move[1] != move[2]),
    st.tuples(st.just("lease"), NAMES, NAMES, st.integers(0, 2), st.integers(0, 9)),
    st.tuples(st.just("fence"), st.just(0), st.integers(0, 9)),
    st.tuples(st.just("pass_fence")),
    st.tuples(st.just("remove_topic"), NAMES),
    st.tuples(st.just("remove_group"), NAMES),
)


class Model:
    """The expected table: rows of (group, topic), and the groups that were created."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], dict[int, int]] = {}
        self.groups: set[str] = set()

    def commit(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        self.set_many(group, topic, {queue_id: queue_offset})

    def set_many(self, group: str, topic: str, queue_offsets: dict[int, int]) -> None:
        self.groups.add(group)
        self.rows.setdefault((group, topic), {}).update(queue_offsets)

    def lease(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        row = self.rows.setdefault((group, topic), {})
        row[queue_id] = max(queue_offset, row.get(queue_id, 0))

    def fence(self, begin: int, end: int) -> None:
        """Changes nothing in memory."""

    def pass_fence(self) -> None:
        """Nor does this change it."""

    def clone(self, source: str, target: str, topic: str) -> None:
        queues = dict(self.rows.get((source, topic), {}))
        if queues:
            self.rows.pop((target, topic), None)
        self.set_many(target, topic, queues)

    def remove_topic(self, topic: str) -> None:
        self.rows = {row: queues for row, queues in self.rows.items() if row[1] != topic}

    def remove_group(self, group: str) -> None:
        self.rows = {row: queues for row, queues in self.rows.items() if row[0] != group}

    def topics_by_group(self) -> dict[str, list[str]]:
        topics: dict[str, list[str]] = {}
        for group, topic in sorted(row for row, queues in self.rows.items() if queues):
            topics.setdefault(group, []).append(topic)
        return topics


@settings(max_examples=40)
@given(moves=st.lists(MOVES, max_size=8))
async def test_whatever_happens_the_table_is_what_the_model_says(
    moves: list[tuple[Any, ...]],
) -> None:
    model = Model()
    with TemporaryDirectory() as directory:
        offsets = Offsets(Path(directory))
        for verb, *arguments in moves:
            doing = getattr(offsets.table, verb)(*arguments)
            if doing is not None:
                await doing
            getattr(model, verb)(*arguments)
            await offsets.table.saved()
        offsets.table.hold_nothing()
        await offsets.table.saved()
        again = offsets.reopened()
        for table in (offsets.table, again):
            rows = {(g, t): queues for g, t, queues in table.positions() if queues}
            assert rows == {row: queues for row, queues in model.rows.items() if queues}
            assert table.topics_by_group() == model.topics_by_group()
        assert offsets.groups.names() == sorted(model.groups)


async def test_nobody_stands_behind_a_queues_end(offsets: Offsets) -> None:
    await offsets.table.set_many("g", "T", {0: 5, 1: 9, 2: 3})
    assert await offsets.table.clamp(lambda *queue: 5) == [Clamped("g", "T", 1, 9, 5)]
    assert offsets.table.all_of("g") == {"T": {0: 5, 1: 5, 2: 3}}
    assert await offsets.table.clamp(lambda *queue: 5) == []
    assert offsets.reopened().find("g", "T", 1) == 5


async def test_one_beyond_a_queues_end_is_beyond_it(offsets: Offsets) -> None:
    await offsets.table.set_many("g", "T", {0: 5, 1: 6})
    assert len(await offsets.table.clamp(lambda *queue: 5)) == 1
    assert offsets.table.all_of("g") == {"T": {0: 5, 1: 5}}


async def test_where_offsets_were_set_stands_as_a_real_broker_can_read_it(offsets: Offsets) -> None:
    """Within a member that it does not know it stops at a name without quotes."""
    offsets.table.leases.journal_end = 9
    await offsets.table.commit("readers", "orders", 3, 17)
    member = offsets.path.read_text().partition('"set":')[2].partition("}")[0]
    assert json.loads(member + "}}") == {"orders@readers": {"3": 9}}
    again = offsets.reopened()
    assert not again.leases.pushes("orders@readers", 3, 8)
    assert again.leases.pushes("orders@readers", 3, 9)
