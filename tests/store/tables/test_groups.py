"""Consumer groups: entries of their file, the limit of their number, their listing."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pocketmq.model.administration import GroupSettings
from pocketmq.model.begin import BEGIN_MAX
from pocketmq.model.errors import (
    GroupExists,
    GroupNotFound,
    IllegalBegin,
    IllegalGroup,
    LimitReached,
)
from pocketmq.store.tables.groups import GroupTable
from tests.kit.store_language import turns
from tests.sim.clock import FakeClock
from tests.sim.quick_disk import QuickDisk

DEFAULTS = GroupSettings(
    enabled=True,
    fifo=False,
    broadcast_enabled=True,
    begins_at_min=True,
    max_attempts=17,
    retry_queue_count=1,
    consume_timeout_minutes=15,
    begin="min",
)
EVERY = GroupSettings(
    enabled=False,
    fifo=True,
    broadcast_enabled=False,
    begins_at_min=False,
    max_attempts=1,
    retry_queue_count=2,
    consume_timeout_minutes=3,
    begin="max",
)


class Groups:
    """The table of a store directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "config" / "subscriptionGroup.json"
        self.disk, self.pool = QuickDisk(), ThreadPoolExecutor(1)
        self.table = GroupTable(self.disk, directory, FakeClock(), self.pool)

    def read(self, **rows: Any) -> GroupTable:
        """Loads a file with these rows."""
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(json.dumps({"subscriptionGroupTable": rows}))
        self.table.load()
        return self.table

    def settings(self, **row: Any) -> GroupSettings:
        return self.read(readers=row).existing("readers").settings

    def row(self, group: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path.read_text())["subscriptionGroupTable"][group]
        return found

    @property
    def write_count(self) -> int:
        return len(self.disk.calls["write_file"])


@pytest.fixture
def groups(tmp_path: Path) -> Iterator[Groups]:
    made = Groups(tmp_path)
    yield made
    made.pool.shutdown()


def test_a_row_without_members_has_rocketmqs_defaults(groups: Groups) -> None:
    assert groups.settings() == DEFAULTS


@pytest.mark.parametrize(
    ("retries", "attempts"),
    [
        (-2, 17),
        (-1, 0),
        (0, 1),
        (2_147_483_646, 2_147_483_647),
        (2_147_483_647, 17),
        ("3", 17),
        (None, 17),
    ],
)
def test_a_number_beyond_32_bits_with_one_more_is_the_default(
    groups: Groups, retries: object, attempts: int
) -> None:
    assert groups.settings(retryMaxTimes=retries).max_attempts == attempts


def test_members_of_a_wrong_type_are_the_defaults(groups: Groups) -> None:
    row = {"consumeEnable": 0, "consumeMessageOrderly": "true", "retryQueueNums": [2]}
    assert groups.settings(**row) == DEFAULTS


def test_attributes_are_read_where_they_are_texts(groups: Groups) -> None:
    table = groups.read(readers={"attributes": {"a": "b", "c": 1}}, others={"attributes": 5})
    assert table.existing("readers").attributes == {"a": "b"}
    assert table.existing("others").attributes == {}


def test_names_that_are_none_are_kept_and_not_known(groups: Groups) -> None:
    table = groups.read(**{"readers": {}, "two words": {}, "": {}})
    assert table.names() == ["readers"]
    assert table.find("two words") is None


async def test_a_name_without_quotes_is_a_name_as_well(groups: Groups) -> None:
    groups.path.parent.mkdir()
    groups.path.write_text('{"subscriptionGroupTable":{5:{},"readers":{}}}')
    groups.table.load()
    assert groups.table.names() == ["5", "readers"]


async def test_every_setting_stands_where_a_real_broker_looks(groups: Groups) -> None:
    made = await groups.table.create("readers", EVERY)
    assert made.settings == EVERY
    assert {
        "groupName": "readers",
        "consumeEnable": False,
        "consumeMessageOrderly": True,
        "consumeBroadcastEnable": False,
        "consumeFromMinEnable": False,
        "retryMaxTimes": 0,
        "retryQueueNums": 2,
        "consumeTimeoutMinute": 3,
    }.items() <= groups.row("readers").items()


async def test_a_group_made_without_a_setting_is_as_one_that_a_commit_makes(
    groups: Groups,
) -> None:
    await groups.table.ensure("readers")
    assert (await groups.table.create("readers", GroupSettings())).settings == DEFAULTS
    assert groups.write_count == 1
    with pytest.raises(GroupExists):
        await groups.table.create("readers", GroupSettings(fifo=True))


@pytest.mark.parametrize(
    ("begin", "begins_at_min", "attributes"),
    [
        ("min", True, {}),
        ("max", False, {}),
        ("1795228200250", True, {"pocketmq.begin": "2026-11-21T02:30:00.250Z"}),
        ("2026-11-21T03:30:00+01:00", True, {"pocketmq.begin": "2026-11-21T02:30:00Z"}),
    ],
)
async def test_the_begin_is_stored_where_a_real_broker_skips_nothing(
    groups: Groups, begin: str, attributes: dict[str, str], *, begins_at_min: bool
) -> None:
    made = await groups.table.create("readers", GroupSettings(begin=begin))
    row = groups.row("readers")
    assert (row["consumeFromMinEnable"], row["attributes"]) == (begins_at_min, attributes)
    groups.table.load()
    assert groups.table.existing("readers") == made
    assert made.settings.begin == (attributes or {"pocketmq.begin": begin})["pocketmq.begin"]
    assert await groups.table.create("readers", GroupSettings(begin=begin)) == made


async def test_a_change_of_the_begin_keeps_other_attributes(groups: Groups) -> None:
    groups.read(readers={"attributes": {"a": "b"}, "consumeMessageOrderly": True})
    await groups.table.update("readers", GroupSettings(begin="2026-11-21T02:30:00Z"))
    assert groups.table.existing("readers").begin_ms == 1_795_228_200_000
    changed = await groups.table.update("readers", GroupSettings(begins_at_min=False))
    assert (changed.settings.begin, changed.attributes) == ("max", {"a": "b"})
    assert groups.table.existing("readers").settings.fifo
    await groups.table.update("readers", GroupSettings(fifo=False))
    assert groups.row("readers")["attributes"] == {"a": "b"}


@pytest.mark.parametrize("text", ["soon", "min", "", "-5"])
def test_a_begin_that_another_program_wrote_wrong_is_none(groups: Groups, text: str) -> None:
    assert groups.settings(attributes={"pocketmq.begin": text}) == DEFAULTS


def test_a_group_set_to_the_end_by_a_real_broker_begins_there(groups: Groups) -> None:
    row = {"attributes": {"pocketmq.begin": "2026-11-21T02:30:00Z"}, "consumeFromMinEnable": False}
    assert groups.settings(**row).begin == "max"


@pytest.mark.parametrize("text", ["soon", "2026-11-21T02:30:00", "-5", "99999999999999999"])
async def test_a_begin_that_is_none_is_refused(groups: Groups, text: str) -> None:
    with pytest.raises(IllegalBegin, match="use min, max, or a time"):
        await groups.table.create("readers", GroupSettings(begin=text))
    await groups.table.ensure("readers")
    with pytest.raises(IllegalBegin):
        await groups.table.update("readers", GroupSettings(begin=text))
    assert groups.table.existing("readers").settings == DEFAULTS


async def test_a_group_without_a_begin_gets_the_brokers(groups: Groups) -> None:
    groups.table.begin_ms = BEGIN_MAX
    await groups.table.ensure("by_use")
    made = await groups.table.create("made", GroupSettings())
    stated = await groups.table.create("stated", GroupSettings(begins_at_min=True))
    assert groups.table.existing("by_use").settings == made.settings
    assert (made.settings.begin, stated.settings.begin) == ("max", "min")


@pytest.mark.parametrize("name", ["two words", "", "a/b"])
async def test_names_that_are_none_are_refused_before_their_table_is_asked(
    groups: Groups, name: str
) -> None:
    with pytest.raises(IllegalGroup):
        groups.table.existing(name)
    with pytest.raises(IllegalGroup):
        await groups.table.ensure(name)
    with pytest.raises(GroupNotFound):
        groups.table.existing("unknown")
    assert groups.table.names() == []


async def test_as_many_groups_as_the_limit_says_and_no_more(groups: Groups) -> None:
    groups.table.count_max = 2
    await groups.table.ensure("a")
    await groups.table.create("b", GroupSettings())
    for make in (groups.table.ensure("c"), groups.table.create("c", GroupSettings())):
        with pytest.raises(LimitReached, match=r"there are 2 of 2 groups, .*limits\.groups_max"):
            await make
    await groups.table.ensure("a")
    await groups.table.create("b", GroupSettings())
    await groups.table.remove("a")
    await groups.table.ensure("c")
    assert groups.table.names() == ["b", "c"]


async def test_parts_are_told_of_each_group_that_is_set_or_removed(groups: Groups) -> None:
    told: list[str] = []
    groups.table.follow(told.append)
    groups.table.follow(lambda name: told.append(name.upper()))
    await groups.table.ensure("a")
    await groups.table.ensure("a")
    assert told == ["a", "A"]
    await groups.table.update("a", GroupSettings(fifo=True))
    await groups.table.remove("a")
    await groups.table.remove("a")
    assert told == ["a", "A"] * 3


async def test_who_finds_a_group_made_or_removed_waits_until_that_is_durable(
    groups: Groups,
) -> None:
    await groups.table.ensure("gone")
    with groups.disk.held():
        calls = [
            asyncio.create_task(call)
            for call in (
                groups.table.ensure("a"),
                groups.table.ensure("a"),
                groups.table.remove("gone"),
                groups.table.remove("gone"),
            )
        ]
        await turns()
        assert not any(call.done() for call in calls)
    await asyncio.wait_for(asyncio.gather(*calls), 5)
    assert groups.table.names() == ["a"]


async def test_the_same_group_made_once_more_waits_for_the_first(groups: Groups) -> None:
    with groups.disk.held():
        calls = [
            asyncio.create_task(groups.table.create("a", GroupSettings(fifo=True)))
            for _ in range(2)
        ]
        await turns()
        assert not any(call.done() for call in calls)
    assert await calls[0] is await calls[1]
