"""Offsets beyond their queue's end: tables that are of another log than the queues."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pocketmq.format.names import (
    CONFIG_DIRECTORY,
    CONSUMER_OFFSETS_FILE,
    DELAY_OFFSETS_FILE,
    ORDER_INFO_FILE,
)
from pocketmq.format.pop_records import Batched, PopCheckpoint
from pocketmq.format.table_json import decode_table
from pocketmq.format.timer_layout import TimerProgress
from pocketmq.model.administration import GroupSettings
from pocketmq.model.consuming import SettleStatus
from pocketmq.model.system_topics import REVIVE_GROUP, REVIVE_TOPIC_PREFIX
from pocketmq.model.topic import HALF_TOPIC, SCHEDULE_TOPIC
from pocketmq.services.admin.lag import group_lag
from pocketmq.services.consume.journal import ConsumeSettings, Journal
from tests.kit.consuming import (
    GROUP,
    INVISIBLE_MS,
    TOPIC,
    ConsumeDesk,
    bodies,
    consuming,
    statuses,
)
from tests.kit.store_language import STORE_HOST, store_at

OK = SettleStatus.OK
BEYOND = 100
RETRY = f"%RETRY%{GROUP}_{TOPIC}"
ROWS = {
    f"{TOPIC}@{GROUP}": {"0": BEYOND, "1": 0},
    f"{RETRY}@{GROUP}": {"0": BEYOND},
    f"{HALF_TOPIC}@CID_SYS_RMQ_TRANS": {"0": BEYOND},
    f"{REVIVE_TOPIC_PREFIX}c@{REVIVE_GROUP}": {"0": BEYOND},
}
REAL_ORDER = {
    "popTime": 1, "i": 60_000, "l": 1, "o": [BEYOND, 1, 2], "cm": 1, "oc": {}, "ot": {}, "a": "x",
}  # fmt: skip


async def made(directory: Path, **tables: Any) -> Path:
    """Makes a store that ended in order, with two messages, and tables of another log in it."""
    async with consuming(directory) as desk:
        await desk.send("a", "b")
    config = directory / CONFIG_DIRECTORY
    for name, rows in tables.items():
        (config / f"{name}.json").write_text(json.dumps(rows))
    return directory


def events(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, int, int, int]]:
    """Returns (group, topic, queue id, offset, end) of each event about an offset."""
    names = ("group", "topic", "queue_id", "queue_offset", "end")
    found = [record for record in caplog.records if record.message == "offset.clamped"]
    return [tuple(vars(record)[name] for name in names) for record in found]


@pytest.mark.parametrize("fifo", [False, True])
async def test_a_group_misses_no_message_after_an_orderly_stop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, fifo: bool
) -> None:
    place = await made(tmp_path / "s", consumerOffset={"offsetTable": ROWS})
    async with consuming(place) as desk:
        await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
        assert (GROUP, TOPIC, 0, BEYOND, 2) in events(caplog)
        await desk.send("c", "d")
        (lag,) = await group_lag(desk.store, GROUP, TOPIC)
        assert lag.lag_messages == 2
        assert bodies(await desk.receive()) == ["c", "d"]


async def test_every_offset_in_the_table_is_brought_down_on_disk(tmp_path: Path) -> None:
    place = await made(tmp_path / "s", consumerOffset={"offsetTable": ROWS})
    async with store_at(place) as talking:
        ends = {name: 2 if name.partition("@")[0] == TOPIC else 0 for name in ROWS}
        found = {
            f"{topic}@{group}": row[0]
            for group, topic, row in talking.store.tables.offsets.positions()
        }
        assert found == ends
        saved = decode_table((place / CONFIG_DIRECTORY / CONSUMER_OFFSETS_FILE).read_bytes())
        rows = saved["offsetTable"].items()
        assert {name: {int(i): at for i, at in row.items()}[0] for name, row in rows} == ends


async def test_the_offset_of_a_real_brokers_revival_is_of_what_it_read(tmp_path: Path) -> None:
    topic = f"{REVIVE_TOPIC_PREFIX}c"
    async with store_at(tmp_path / "s") as talking:
        await talking.send(topic, "1", "2", "3")
        await talking.store.tables.offsets.set_many(REVIVE_GROUP, topic, {0: 3})
    async with store_at(tmp_path / "s") as talking:
        assert talking.store.tables.offsets.find(REVIVE_GROUP, topic, 0) == 2


@pytest.mark.parametrize("fifo", [False, True])
async def test_a_receive_brings_down_what_is_beyond(
    desk: ConsumeDesk, caplog: pytest.LogCaptureFixture, *, fifo: bool
) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    await desk.send("a")
    await desk.store.tables.offsets.set_many(GROUP, TOPIC, {0: BEYOND})
    assert (await desk.receive()).records == []
    assert events(caplog) == [(GROUP, TOPIC, 0, BEYOND, 1)]
    await desk.send("b")
    assert bodies(await desk.receive()) == ["b"]
    assert len(events(caplog)) == 1


async def test_what_a_real_broker_gave_out_beyond_counts_for_nothing(tmp_path: Path) -> None:
    row = {f"{TOPIC}@{GROUP}": {"0": REAL_ORDER}}
    place = await made(
        tmp_path / "s", consumerOrderInfo={"table": row}, consumerOffset={"offsetTable": ROWS}
    )
    assert (place / CONFIG_DIRECTORY / ORDER_INFO_FILE).exists()
    async with consuming(place) as desk:
        await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=True))
        await desk.send(*map(str, range(BEYOND + 4)))
        found: list[str] = []
        while some := await desk.receive():
            if not some.records:
                break
            assert set(some.attempts) == {1}
            found += bodies(some)
            assert set(statuses(await desk.consume.ack(GROUP, TOPIC, some.handles))) == {OK}
        assert found == [*map(str, range(BEYOND + 4))]


async def test_a_broadcast_misses_none(tmp_path: Path) -> None:
    place = await made(tmp_path / "s", consumerOffset={"offsetTable": ROWS})
    async with consuming(place) as desk:
        asked = {"broadcast": True, "client_id": "one"}
        assert bodies(await desk.receive(**asked)) == []
        await desk.send("c")
        assert bodies(await desk.receive(**asked)) == ["c"]


async def test_retries_are_missed_by_nobody(tmp_path: Path) -> None:
    place = await made(tmp_path / "s", consumerOffset={"offsetTable": ROWS})
    async with consuming(place) as desk:
        await desk.send("c")
        await desk.receive()
        await desk.step(INVISIBLE_MS)
        assert bodies(await desk.receive()) == ["c"]


async def test_levels_begin_at_their_ends_also_after_a_crash(tmp_path: Path) -> None:
    rows = {"offsetTable": {"1": BEYOND, "2": 1}, "pocketmq": {"deliveredBefore": 1 << 40}}
    async with store_at(tmp_path / "s") as talking:
        await talking.send(SCHEDULE_TOPIC, "1", "2", queue_id=1)
        end = talking.store.appended
    path = tmp_path / "s" / CONFIG_DIRECTORY / DELAY_OFFSETS_FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(rows))
    async with store_at(tmp_path / "s") as talking:
        delays = talking.store.tables.delay_offsets
        assert [delays.find(1), delays.find(2), delays.delivered_before] == [0, 1, end]
        saved = decode_table(path.read_bytes())
        assert {int(level): at for level, at in saved["offsetTable"].items()} == {1: 0, 2: 1}
        assert saved["pocketmq"]["deliveredBefore"] == end


async def test_the_timer_begins_at_the_end_of_its_topic_also_after_a_crash(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as talking:
        progress = TimerProgress(
            queue_offset=BEYOND, queue_limit=BEYOND, delivered_before=1 << 40, read_ms=7
        )
        await talking.store.tables.timer_check.put(progress)
    async with store_at(tmp_path / "s") as talking:
        found = talking.store.tables.timer_check.progress
        assert found == progress._replace(queue_offset=0, queue_limit=0, delivered_before=0)
        image = talking.killed(tmp_path / "image")
    async with store_at(image) as talking:
        assert talking.store.tables.timer_check.progress == found


async def test_leases_of_an_older_log_come_back_under_newer_tables(tmp_path: Path) -> None:
    async with consuming(tmp_path / "s") as desk:
        await desk.send("a", "b", "c")
        held = await desk.receive(max_messages=1)
        image = desk.talking.killed(tmp_path / "image")
        await desk.ack(held)
        for _ in range(4):
            await desk.ack(await desk.receive(max_messages=1))
        await desk.step(1_000)
        await desk.step(1_000)
        clock = desk.clock
    shutil.rmtree(image / CONFIG_DIRECTORY)
    shutil.copytree(tmp_path / "s" / CONFIG_DIRECTORY, image / CONFIG_DIRECTORY)
    async with consuming(image, clock=clock) as later:
        assert later.in_flight == 1
        await later.step(INVISIBLE_MS)
        assert bodies(await later.receive()) == ["a"]


async def test_an_offset_set_in_the_newer_tables_is_pushed_by_no_older_lease(
    tmp_path: Path,
) -> None:
    async with consuming(tmp_path / "s") as desk:
        await desk.send("a", "b")
        await desk.receive(max_messages=1)
        image = desk.talking.killed(tmp_path / "image")
        await desk.receive(max_messages=1)
        await desk.store.tables.offsets.set_many(GROUP, TOPIC, {0: 0})
        shutil.rmtree(image / CONFIG_DIRECTORY)
        shutil.copytree(desk.talking.directory / CONFIG_DIRECTORY, image / CONFIG_DIRECTORY)
        clock = desk.clock
    async with consuming(image, clock=clock) as later:
        assert bodies(await later.receive()) == ["a", "b"]


async def test_a_lease_of_messages_that_are_gone_holds_none_of_those_that_come(
    desk: ConsumeDesk, tmp_path: Path
) -> None:
    await desk.send("d")
    journal = Journal(desk.store, ConsumeSettings("DefaultCluster", "broker-a", STORE_HOST))
    batched = Batched(GROUP, TOPIC, 0, 0, desk.clock.wall_ms(), journal.broker)
    checkpoint = PopCheckpoint(batched, [0, 1, 2], INVISIBLE_MS, 0, 0)
    await journal.put([journal.checkpoint(checkpoint)])
    await desk.settled()
    image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        assert later.in_flight == 1
        await later.send("e")
        assert bodies(await later.receive()) == ["e"]
