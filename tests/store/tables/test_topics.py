"""Topics and groups: RocketMQ's files, read as they are and written so that it could read them."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pocketmq.format.table_json import decode_table, encode_row
from pocketmq.model.administration import GroupSettings
from pocketmq.model.errors import (
    DiskFull,
    GroupExists,
    GroupNotFound,
    IllegalGroup,
    IllegalNumber,
    IllegalTopic,
    TopicExists,
    TopicNotFound,
)
from pocketmq.store.tables import durable_table
from pocketmq.store.tables.groups import GroupTable
from pocketmq.store.tables.topics import TopicTable
from tests.golden_stores import GoldenStores
from tests.kit.store_golden import config_of
from tests.sim.clock import START_MS, FakeClock
from tests.sim.quick_disk import QuickDisk


class Tables:
    """The tables of a store directory; `reopened` is what a start would find."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.disk, self.clock = QuickDisk(), FakeClock()
        self.pool = ThreadPoolExecutor(1)
        self.topics = TopicTable(self.disk, directory, self.clock, self.pool)
        self.groups = GroupTable(self.disk, directory, self.clock, self.pool)
        self.topics.load()
        self.groups.load()

    def reopened(self) -> "Tables":
        self.pool.shutdown()
        return Tables(self.directory)

    def rows(self) -> dict[str, object]:
        """Returns all topics and groups there are, by their names."""
        tables = (self.topics, self.groups)
        return {name: table.find(name) for table in tables for name in table.names()}

    def text(self, name: str) -> str:
        return (self.directory / "config" / name).read_text()

    def row(self, topic: str) -> dict[str, Any]:
        """Returns the topic's row as it stands on disk."""
        return self._row("topics.json", "topicConfigTable", topic)

    def group_row(self, group: str) -> dict[str, Any]:
        """Returns the group's row as it stands on disk."""
        return self._row("subscriptionGroup.json", "subscriptionGroupTable", group)

    def _row(self, file: str, table: str, name: str) -> dict[str, Any]:
        row: dict[str, Any] = decode_table(self.text(file).encode())[table][name]
        return row


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    made = Tables(tmp_path)
    yield made
    made.pool.shutdown()


@pytest.fixture
def real(golden: GoldenStores, tmp_path: Path) -> Iterator[Tables]:
    """The tables a real broker wrote."""
    made = Tables(config_of(golden, "semantics", tmp_path / "semantics"))
    yield made
    made.pool.shutdown()


# -- topics ----------------------------------------------------------------------------------------


async def test_a_topic_is_durable_when_it_is_created(tables: Tables) -> None:
    config = await tables.topics.create("orders", queue_count=4, attributes={"a": "b"})
    assert (config.read_queue_count, config.write_queue_count, config.permission) == (4, 4, 6)
    found = tables.reopened().topics.find("orders")
    assert found is not None
    assert (found.name, found.write_queue_count, found.attributes) == ("orders", 4, {"a": "b"})
    assert found.is_readable
    assert found.is_writable
    assert not found.order


async def test_names_are_sorted_and_the_unknown_is_none(tables: Tables) -> None:
    for name in ("b", "a", "c"):
        await tables.topics.create(name, queue_count=1)
    assert tables.topics.names() == ["a", "b", "c"]
    assert tables.topics.find("d") is None


async def test_the_same_topic_again_changes_nothing(tables: Tables) -> None:
    first = await tables.topics.create("orders", queue_count=4)
    assert await tables.topics.create("orders", queue_count=4) is first
    assert len(tables.disk.calls["write_file"]) == 1
    for count, attributes in ((5, {}), (4, {"a": "b"})):
        with pytest.raises(TopicExists) as caught:
            await tables.topics.create("orders", queue_count=count, attributes=attributes)
        assert (caught.value.queue_count, caught.value.type_name) == (4, "NORMAL")


@pytest.mark.parametrize("queue_count", [0, -1, 1025])
async def test_queue_counts_have_bounds(tables: Tables, queue_count: int) -> None:
    with pytest.raises(IllegalNumber):
        await tables.topics.create("orders", queue_count=queue_count)
    assert tables.topics.names() == []


async def test_who_creates_a_topic_second_waits_for_the_first(tables: Tables) -> None:
    with tables.disk.held():
        first = asyncio.create_task(tables.topics.create("orders", queue_count=1))
        second = asyncio.create_task(tables.topics.create("orders", queue_count=1))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not second.done()
    assert await first is await second


async def test_permissions_tell_what_clients_may_do(tables: Tables) -> None:
    readable = await tables.topics.create("r", queue_count=1, permission=4)
    writable = await tables.topics.create("w", queue_count=1, permission=2)
    assert (readable.is_readable, readable.is_writable) == (True, False)
    assert (writable.is_readable, writable.is_writable) == (False, True)


async def test_queues_without_a_row_make_a_topic(tables: Tables) -> None:
    tables.topics.adopt("found", 3)
    config = tables.topics.find("found")
    assert config is not None
    assert config.write_queue_count == 3
    assert not (tables.directory / "config").exists()
    await tables.topics.create("orders", queue_count=1)
    assert tables.row("found")["readQueueNums"] == 3
    tables.topics.adopt("orders", 7)
    assert (await tables.topics.create("orders", queue_count=1)).read_queue_count == 1


async def test_a_found_topic_that_is_changed_while_it_is_written_stays_so(tables: Tables) -> None:
    for name in ("changed", "removed"):
        tables.topics.adopt(name, 3)
    with tables.disk.held():
        keeping = [asyncio.create_task(tables.topics.keep(name)) for name in tables.topics.names()]
        await asyncio.sleep(0)
        changing = asyncio.create_task(tables.topics.update("changed", permission=4))
        removing = asyncio.create_task(tables.topics.remove("removed"))
        await asyncio.sleep(0)
    await asyncio.wait([*keeping, changing, removing])
    config = tables.topics.find("changed")
    assert config is not None
    assert (config.permission, config.is_kept) == (4, True)
    assert isinstance(keeping[1].exception(), TopicNotFound)
    assert tables.topics.find("removed") is None
    assert tables.rows() == tables.reopened().rows()


async def test_a_row_has_every_field_a_real_broker_writes(tables: Tables, real: Tables) -> None:
    await tables.topics.create("orders", queue_count=4)
    (any_real, *_) = real.topics.names()
    assert tables.row("orders").keys() == real.row(any_real).keys()
    assert {k: type(v) for k, v in tables.row("orders").items()} == {
        k: type(v) for k, v in real.row(any_real).items()
    }


async def test_a_change_is_durable_and_keeps_the_rest(tables: Tables) -> None:
    await tables.topics.create("orders", queue_count=4, attributes={"message.type": "FIFO"})
    await tables.topics.update("orders", write_queue_count=2)
    changed = await tables.topics.update("orders", read_queue_count=8, permission=4, order=True)
    found = tables.reopened().topics.find("orders")
    for config in (changed, found):
        assert config is not None
        assert (config.read_queue_count, config.write_queue_count) == (8, 2)
        assert (config.permission, config.order, config.is_writable) == (4, True, False)
        assert config.attributes == {"message.type": "FIFO"}


async def test_of_many_topics_only_what_changed_is_encoded_and_what_was_removed_is_gone(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def encoded(row: dict[str, Any]) -> str:
        made.append(row["topicName"])
        return encode_row(row)

    monkeypatch.setattr(durable_table, "encode_row", encoded)
    names = [f"t{number}" for number in range(20)]
    await asyncio.gather(*[tables.topics.create(name, queue_count=1) for name in names])
    made.clear()
    await tables.topics.create("new", queue_count=2)
    await tables.topics.update("t3", read_queue_count=5)
    await tables.topics.remove("t4")
    assert made == ["new", "t3"]
    names.remove("t4")
    assert tables.reopened().topics.names() == sorted([*names, "new"])
    assert tables.row("t3")["readQueueNums"] == 5


async def test_attributes_take_the_place_of_all(tables: Tables) -> None:
    await tables.topics.create("orders", queue_count=1, attributes={"a": "b"})
    assert (await tables.topics.update("orders", attributes={})).attributes == {}


async def test_a_change_of_nothing_writes_nothing(tables: Tables) -> None:
    await tables.topics.create("orders", queue_count=1)
    await tables.topics.update("orders", read_queue_count=1, permission=6)
    assert len(tables.disk.calls["write_file"]) == 1


@pytest.mark.parametrize(
    "change",
    [{"read_queue_count": 0}, {"write_queue_count": 1025}, {"permission": 8}, {"permission": -1}],
)
async def test_changes_have_bounds(tables: Tables, change: dict[str, int]) -> None:
    before = await tables.topics.create("orders", queue_count=1)
    with pytest.raises(IllegalNumber):
        await tables.topics.update("orders", **change)  # type: ignore[arg-type]
    assert tables.topics.find("orders") is before


# -- topics and groups alike -----------------------------------------------------------------------

Doing = Callable[[Tables], Awaitable[object]]
WRITES: dict[str, Doing] = {
    "a new topic": lambda tables: tables.topics.create("orders", queue_count=1),
    "a changed topic": lambda tables: tables.topics.update("there", permission=4),
    "a new group": lambda tables: tables.groups.ensure("readers"),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_what_could_not_be_written_is_written_the_next_time(
    tables: Tables, write: Doing
) -> None:
    await tables.topics.create("there", queue_count=1)
    before = tables.rows()
    tables.disk.full_below = tables.directory
    with pytest.raises(DiskFull):
        await write(tables)
    tables.disk.full_below = None
    await write(tables)
    assert tables.reopened().rows() == tables.rows() != before


REFUSED: list[tuple[type[Exception], Doing]] = [
    (IllegalTopic, lambda tables: tables.topics.create("../orders", queue_count=1)),
    (TopicNotFound, lambda tables: tables.topics.update("orders", permission=4)),
    (IllegalGroup, lambda tables: tables.groups.ensure("two words")),
    (IllegalGroup, lambda tables: tables.groups.create("two words", GroupSettings())),
    (GroupNotFound, lambda tables: tables.groups.update("readers", GroupSettings())),
]


@pytest.mark.parametrize(("error", "call"), REFUSED)
async def test_names_that_are_none_and_what_is_not_there_are_refused(
    tables: Tables, error: type[Exception], call: Doing
) -> None:
    with pytest.raises(error):
        await call(tables)
    assert tables.rows() == {}


async def test_what_is_removed_stays_away(tables: Tables) -> None:
    for name in ("gone", "others"):
        await tables.topics.create(name, queue_count=1)
        await tables.groups.ensure(name)
    for table in (tables.topics, tables.groups, tables.topics, tables.groups):
        await table.remove("gone")
        assert table.find("gone") is None
    assert len(tables.disk.calls["write_file"]) == 6
    again = tables.reopened()
    assert again.topics.names() == again.groups.names() == ["others"]


# -- files of a real broker ------------------------------------------------------------------------


async def test_what_we_do_not_know_of_a_real_table_is_kept(real: Tables) -> None:
    path = real.directory / "config" / "topics.json"
    before = decode_table(path.read_bytes())
    before["somethingNew"] = {"a": [1, 2]}
    before["topicConfigTable"]["OrderT"]["alsoNew"] = 5
    path.write_text(json.dumps(before))
    again = real.reopened()
    await again.topics.create("orders", queue_count=2)
    after = decode_table(path.read_bytes())
    del after["topicConfigTable"]["orders"]
    assert after.pop("dataVersion") == {
        "counter": before["dataVersion"]["counter"] + 1,
        "stateVersion": before["dataVersion"]["stateVersion"],
        "timestamp": START_MS,
    }
    assert after == {name: value for name, value in before.items() if name != "dataVersion"}


async def test_real_topics_and_groups_are_read(real: Tables) -> None:
    assert {"OrderT", "%RETRY%retry-group", "SCHEDULE_TOPIC_XXXX"} <= set(real.topics.names())
    delayed = real.topics.find("GDelay")
    assert delayed is not None
    assert (delayed.write_queue_count, delayed.attributes) == (2, {"message.type": "DELAY"})
    assert {"order-group", "pop-group", "retry-group"} <= set(real.groups.names())
    template = real.topics.find("TBW102")
    assert template is not None
    assert template.permission & 1


async def test_a_written_table_looks_as_fastjson_would_print_it(tables: Tables) -> None:
    await tables.topics.create("orders", queue_count=4)
    lines = tables.text("topics.json").splitlines()
    assert lines[0] == "{"
    assert lines[1].startswith('\t"dataVersion":{')
    assert all(re.fullmatch(r'\t*("[^"]+":.*|[\]}],?|\{)', line) for line in lines)
    assert json.loads(tables.text("topics.json"))["topicConfigTable"]["orders"]["perm"] == 6


async def test_a_damaged_table_gives_way_to_the_one_before(tables: Tables) -> None:
    await tables.topics.create("a", queue_count=1)
    await tables.topics.create("b", queue_count=1)
    (tables.directory / "config" / "topics.json").write_bytes(b"")
    assert tables.reopened().topics.names() == ["a"]
    (tables.directory / "config" / "topics.json.bak").write_bytes(b"{")
    with pytest.raises(ValueError):
        Tables(tables.directory)


# -- groups ----------------------------------------------------------------------------------------


async def test_a_group_is_made_once_with_the_defaults_of_a_real_one(
    tables: Tables, real: Tables
) -> None:
    await tables.groups.ensure("readers")
    await tables.groups.ensure("readers")
    assert len(tables.disk.calls["write_file"]) == 1
    assert tables.reopened().groups.names() == ["readers"]
    own = decode_table(tables.text("subscriptionGroup.json").encode())["subscriptionGroupTable"]
    theirs = decode_table(real.text("subscriptionGroup.json").encode())["subscriptionGroupTable"]
    fields = set(own["readers"]) - {"groupName"}
    assert own["readers"]["groupName"] == "readers"
    plain = theirs["CID_ONSAPI_OWNER"]
    assert {name: own["readers"][name] for name in fields & set(plain)} == {
        name: plain[name] for name in fields & set(plain)
    }


async def test_a_group_is_made_as_told(tables: Tables) -> None:
    settings = GroupSettings(fifo=True, max_attempts=3, enabled=False)
    await tables.groups.create("readers", settings)
    row = tables.group_row("readers")
    assert (row["consumeMessageOrderly"], row["retryMaxTimes"]) == (True, 2)
    found = tables.reopened().groups.find("readers")
    assert found is not None
    assert found.settings == GroupSettings(
        enabled=False,
        fifo=True,
        broadcast_enabled=True,
        begins_at_min=True,
        max_attempts=3,
        retry_queue_count=1,
        consume_timeout_minutes=15,
        begin="min",
    )
    assert found.attributes == {}


async def test_the_same_group_again_changes_nothing(tables: Tables) -> None:
    made = await tables.groups.create("readers", GroupSettings(max_attempts=3))
    assert await tables.groups.create("readers", GroupSettings(max_attempts=3)) is made
    with pytest.raises(GroupExists):
        await tables.groups.create("readers", GroupSettings())
    assert len(tables.disk.calls["write_file"]) == 1


async def test_a_group_is_changed_where_it_is_told(tables: Tables) -> None:
    await tables.groups.create("readers", GroupSettings(max_attempts=3))
    await tables.groups.update("readers", GroupSettings(retry_queue_count=3))
    found = tables.reopened().groups.find("readers")
    assert found is not None
    assert (found.settings.max_attempts, found.settings.retry_queue_count) == (3, 3)


async def test_a_change_keeps_what_we_do_not_know_of_a_real_group(real: Tables) -> None:
    before = real.group_row("pop-group")
    after = await real.groups.update("pop-group", GroupSettings(fifo=True))
    assert real.group_row("pop-group") == {**before, "consumeMessageOrderly": True}
    assert after.settings.max_attempts == 4
