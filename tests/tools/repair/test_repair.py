"""A repaired store is sound, keeps every sound message at its place, and a broker starts on it."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.consume_unit import PRE_BLANK
from pocketmq.format.record import decode_record
from pocketmq.model.errors import DiskFull, StoreGap, StoreLocked, WrongFileSize
from pocketmq.model.reading import KeyRange, ReadRange
from pocketmq.model.topic import QUARANTINE_TOPIC
from pocketmq.rebuild.log_files import find_log_files
from pocketmq.store.message_store import open_store
from pocketmq.store.settings import StoreSettings
from pocketmq.tools.durable import flushed_upto
from pocketmq.tools.repair.actions import summary
from pocketmq.tools.repair.planning import plan_repair
from pocketmq.tools.repair.repair import NOTHING_TO_DO, repair_store
from pocketmq.tools.selection import LogSearch
from tests.golden_stores import GoldenStores
from tests.kit.damaged_store import NOW_MS, DamagedStore
from tests.kit.golden_log import files_below
from tests.kit.store_golden import golden_sizes
from tests.kit.store_language import at_once, small_settings, store_at, until
from tests.kit.tool_sizes import shape_of
from tests.sim.clock import FakeClock
from tests.sim.quick_disk import QuickDisk

CRASHED = ("crash-flip.before", "crash-torn.before", "crash-behind.before", "clean-torn.before")


# -- what a real broker left -----------------------------------------------------------------------


@pytest.mark.parametrize("name", CRASHED)
def test_stores_of_a_real_broker(golden: GoldenStores, tmp_path: Path, name: str) -> None:
    store = DamagedStore.of_golden(golden, name, tmp_path / "s")
    sound = {record["phy"] for record in golden.manifest(name)["records"]}
    report = store.repair()
    assert report["is_sound"]
    assert store.kinds() == {}
    # The manifest ends where a real broker stopped reading; what lies behind is kept too.
    assert store.lost() == ([424_023] if name == "crash-flip.before" else [])
    assert sound <= set(store.places)
    assert store.views() == store.dispatched(tmp_path / "views")
    assert store.repair()["state"] == NOTHING_TO_DO


def test_the_flipped_record_lies_in_the_quarantine(golden: GoldenStores, tmp_path: Path) -> None:
    store = DamagedStore.of_golden(golden, "crash-flip.before", tmp_path / "s")
    flipped = store.read(424_023, 304)
    report = store.repair()
    (row,) = report["log"]
    assert (row["begin"], row["bytes"]) == (424_023, 304)
    assert row["messages_lost"] == [
        {"topic": "CrashTopic", "queue_id": 1, "first": 96, "messages": 1}
    ]
    assert store.quarantined() == {"00000000000000393216@424023": flipped}
    stand_in = decode_record(store.read(424_023, 304))
    assert (stand_in.topic, stand_in.store_size) == (QUARANTINE_TOPIC, 304)
    units = (store.directory / f"consumequeue/CrashTopic/1/{1_800:020d}").read_bytes()
    assert units[6 * 20 : 7 * 20] == PRE_BLANK


def test_the_report_is_kept(golden: GoldenStores, tmp_path: Path) -> None:
    store = DamagedStore.of_golden(golden, "crash-torn.before", tmp_path / "s")
    report = store.repair()
    kept = json.loads((Path(report["quarantine"]) / "repair.json").read_bytes())
    assert kept == report
    assert kept["state"] == "finished"
    assert kept["views"]["records"] == 788


async def test_a_broker_serves_what_is_left(golden: GoldenStores, tmp_path: Path) -> None:
    store = DamagedStore.of_golden(golden, "crash-flip.before", tmp_path / "s")
    store.repair()
    before = store.views()
    sizes = golden_sizes(golden, "crash-flip.before")
    opened = await open_store(
        StoreSettings(directory=store.directory, **sizes), FakeClock(), QuickDisk()
    )
    await until(lambda: opened.dispatched >= opened.flushed)
    # Before states list no queues; the log alone tells what is to be served.
    expected = {(m.topic, m.queue_id, m.queue_offset) for m in sound_messages(store)}
    found = set()
    for (topic, queue_id), queue in opened.views.queues.queues.items():
        position = queue.min_offset
        while position < queue.max_offset:
            result = at_once(opened.reading.pull(ReadRange(topic, queue_id, position, 7, 1 << 20)))
            messages = [decode_record(record) for record in result.records]
            found |= {(m.topic, m.queue_id, m.queue_offset) for m in messages}
            assert result.next_begin_offset > position
            position = result.next_begin_offset
    assert found == expected
    await opened.close()
    assert store.views() == before


def sound_messages(store: DamagedStore) -> list[Any]:
    """The messages that have a unit, the flipped one and what lay behind it included."""
    files = find_log_files(store.directory, store.sizes.commit_log_file_size_bytes)
    found = LogSearch(files).messages()
    return [message for message in found if message.topic != QUARANTINE_TOPIC]


# -- random damage ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["basic", "propcrc", "rebuild-base"])
def test_random_damage(golden: GoldenStores, tmp_path: Path, name: str, seed: int) -> None:
    store = DamagedStore.of_golden(golden, name, tmp_path / "s")
    chance = random.Random(seed)
    for _ in range(1 + seed % 3):
        store.damage(chance)
    report = store.repair()
    # A client's own clock is not repaired.
    assert set(store.kinds()) <= {"born_time"}
    assert report["is_sound"] == (not store.kinds())
    assert set(store.lost()) <= set(store.hit())
    if report["state"] != NOTHING_TO_DO and report["views"]:
        assert store.views() == store.dispatched(tmp_path / "views")
    assert store.repair()["state"] == NOTHING_TO_DO


def test_what_is_lost_lies_in_the_quarantine(golden: GoldenStores, tmp_path: Path) -> None:
    store = DamagedStore.of_golden(golden, "basic", tmp_path / "s")
    has_body = [p for p, record in store.records.items() if int.from_bytes(record[84:88]) > 20]
    chosen = [has_body[number] for number in (3, 40, 41, 700, -1)]
    for place in chosen:
        store.flip(place + 100)
    damaged = [store.read(place, len(store.records[place])) for place in chosen]
    store.repair()
    copies = b"".join(store.quarantined().values())
    assert [record for record in damaged if record not in copies] == []
    assert store.lost() == chosen


# -- stores of our own -----------------------------------------------------------------------------


SETTINGS = small_settings(Path())
SIZES = shape_of(SETTINGS)


async def own_store(directory: Path) -> DamagedStore:
    """A store of our own with 60 messages in three queues, stopped in order."""
    async with store_at(directory) as store:
        for number in range(60):
            body = f"message {number} of a length that leaves room"
            await store.send("T", body, queue_id=number % 3, key=f"k{number}")
        await store.settled()
    return DamagedStore(directory, SIZES)


async def pulled(directory: Path, queue_id: int) -> list[int]:
    """Numbers of the messages that a broker hands out of a queue."""
    async with store_at(directory) as store:
        found, position = [], 0
        _, upper = store.store.reading.queue_range("T", queue_id)
        while position < upper:
            result = store.pull("T", position, queue_id=queue_id)
            found += [int(decode_record(record).body.split()[1]) for record in result.records]
            position = result.next_begin_offset
    return found


async def test_a_store_of_our_own_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = await own_store(tmp_path / "s")
    store.flip(store.places[31] + 90)
    assert store.repair()["is_sound"]
    before = store.views()
    assert await pulled(store.directory, 1) == [n for n in range(1, 60, 3) if n != 31]
    assert [r.message for r in caplog.records if "incomplete" in r.message] == []
    assert store.views() == before
    async with store_at(store.directory) as again:
        assert await again.found("T", "k31") == []
        assert await again.found("T", "k30") == [
            "message 30 of a length that leaves room",
        ]
        result = await again.send("T", "message 60 is new", queue_id=1)
        assert result.queue_offset == 20


@pytest.mark.parametrize("begins_ahead", [False, True])
async def test_what_was_stored_by_a_clock_that_was_ahead_gets_a_time_that_can_be(
    tmp_path: Path, begins_ahead: bool
) -> None:
    """24 years ahead, over several files of log and index; then set right."""
    clock, begin_ms = FakeClock(NOW_MS - 60_000), NOW_MS - 60_000
    async with store_at(tmp_path / "s", clock=clock) as store:
        for number in range(60):
            is_ahead = number < 40 and (begins_ahead or number >= 5)
            clock.wall = begin_ms + number + 24 * 365 * 86_400_000 * is_ahead
            await store.send("T", f"message {number} of some length", key=f"k{number}")
        await store.settled()
    own = DamagedStore(tmp_path / "s", SIZES)
    assert own.kinds()["store_time"] == (40 if begins_ahead else 35)
    assert own.repair()["is_sound"]
    assert own.kinds() == {}
    assert own.repair()["state"] == NOTHING_TO_DO
    async with store_at(tmp_path / "s", clock=clock) as store:
        assert len(await store.pulled("T")) == 60
        result = await store.store.reading.query(KeyRange("T", "k20", 9, 0, NOW_MS))
        assert [message.body for message in result.messages] == [b"message 20 of some length"]


async def test_a_lost_tail_is_told_and_no_longer_promised(tmp_path: Path) -> None:
    store = await own_store(tmp_path / "s")
    store.flip(store.places[59] + 90)
    report = store.repair()
    assert report["acknowledged_bytes_missing"] == [store.places[59], store.end]
    assert store.kinds() == {}
    assert await pulled(store.directory, 2) == list(range(2, 59, 3))
    assert await pulled(store.directory, 1) == list(range(1, 59, 3))


@pytest.mark.parametrize("is_ours", [True, False])
async def test_messages_of_a_last_file_that_is_gone_are_counted(
    tmp_path: Path, is_ours: bool
) -> None:
    store = await own_store(tmp_path / "s")
    last = sorted((store.directory / "commitlog").iterdir())[-1]
    gone = sum(place >= int(last.name) for place in store.places)
    last.unlink()
    if not is_ours:
        shutil.rmtree(store.directory / "pocketmq")
    plan = plan_repair(Disk(), store.directory, store.sizes, now_ms=NOW_MS)
    assert plan.lost_count == gone > 0
    assert sum(loss.messages for loss in plan.lost_behind) == gone
    assert any("are lost" in line for line in summary(plan.document))
    store.repair()
    assert store.kinds() == {}


async def test_a_store_in_use_is_refused(tmp_path: Path) -> None:
    store = await own_store(tmp_path / "s")
    store.flip(store.places[31] + 90)
    before = files_below(store.directory)
    text = f"""
import sys
from pathlib import Path
from tests.kit.store_language import at_once
from pocketmq.files.directory_lock import DirectoryLock
DirectoryLock(Path({str(store.directory / "lock")!r})).acquire()
print("held", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(  # noqa: ASYNC220 - it is told to go on by its input
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreLocked):
            store.repair()
        assert files_below(store.directory) == before
        holder.communicate(b"")


# -- killed half-way -------------------------------------------------------------------------------


class Killed(BaseException):
    """The process ended here."""


class StepDisk(QuickDisk):
    """A disk that ends the process before one of its steps."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def note(self, call: str, *arguments: object) -> None:
        super().note(call, *arguments)
        if not self.left:
            raise Killed(call)
        self.left -= 1

    def exchange(self, one: Path, other: Path) -> None:
        self.note("exchange", one, other)
        super().exchange(one, other)


def outcome(store: DamagedStore) -> dict[str, bytes]:
    """Everything in a store but copies, and previous versions of tables.

    Of the mark only what it says: how often it was written is a matter of the repairs.
    """
    found = {
        name: content
        for name, content in files_below(store.directory).items()
        if "/quarantine/" not in name and not name.endswith(".bak")
    }
    found["pocketmq/watermark"] = str(flushed_upto(Disk(), store.directory)).encode()
    return found


async def test_killed_at_any_step_and_run_again_it_ends_the_same(tmp_path: Path) -> None:
    original = await own_store(tmp_path / "original")
    for number in (20, 58, 59):
        original.flip(original.places[number] + 90)
    (original.directory / "config").mkdir(exist_ok=True)
    (original.directory / "config/topics.json").write_bytes(b"{torn")
    damaged = original.read(original.places[20], len(original.records[original.places[20]]))

    def fresh() -> DamagedStore:
        shutil.rmtree(tmp_path / "s", ignore_errors=True)
        shutil.copytree(original.directory, tmp_path / "s")
        return DamagedStore(tmp_path / "s", SIZES)

    store, disk = fresh(), StepDisk(1 << 30)
    rows = store.repair(disk)["log"]
    expected = outcome(store)
    assert store.kinds() == {}
    for step in range((1 << 30) - disk.left):
        store = fresh()
        with pytest.raises(Killed):
            store.repair(StepDisk(step))
        report = store.repair(now_ms=NOW_MS + 1_000)
        assert outcome(store) == expected, f"killed at step {step}"
        assert report["log"] == rows or report["state"] == NOTHING_TO_DO
        copies = (store.directory / "pocketmq/quarantine").rglob(f"*@{original.places[20]}")
        assert damaged in [path.read_bytes() for path in copies]


# -- what cannot be mended -------------------------------------------------------------------------


def test_a_missing_or_short_file_of_the_log(golden: GoldenStores, tmp_path: Path) -> None:
    store = DamagedStore.of_golden(golden, "rebuild-base", tmp_path / "s")
    files = sorted((store.directory / "commitlog").iterdir())
    store.flip(store.places[3] + 90)
    files[2].unlink()
    with pytest.raises(StoreGap, match=files[3].name):
        store.repair()
    files[2].write_bytes(b"short")
    with pytest.raises(WrongFileSize, match=files[2].name):
        store.repair()
    assert store.lost()[0] == store.places[3]
    assert not (store.directory / "pocketmq/quarantine").exists()


async def test_the_only_file_of_a_log_is_cut_and_filled_with_zeros(tmp_path: Path) -> None:
    """Nothing but zeros was lost; where more was, the rest is found as damage."""
    async with store_at(tmp_path / "s") as store:
        await store.send("T", "body")
    sizes = shape_of(small_settings(tmp_path / "s"))
    (file,) = (tmp_path / "s/commitlog").iterdir()
    size = file.stat().st_size
    os.truncate(file, size - 100)
    with pytest.raises(WrongFileSize, match=f"expected {size}"):
        repair_store(Disk(), tmp_path / "s", sizes, now_ms=NOW_MS)
    os.truncate(file, size)
    report = repair_store(Disk(), tmp_path / "s", sizes, now_ms=NOW_MS)
    assert (report["state"], report["is_sound"]) == (NOTHING_TO_DO, True)


def test_without_room_nothing_is_begun(
    golden: GoldenStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DamagedStore.of_golden(golden, "rebuild-base", tmp_path / "s")
    store.flip(store.places[3] + 90)
    monkeypatch.setattr(Disk, "space", lambda disk, path: (0, 1_000))
    with pytest.raises(DiskFull):
        repair_store(Disk(), store.directory, store.sizes, now_ms=NOW_MS)
    assert not (store.directory / "pocketmq/quarantine").exists()


def test_strange_files_among_the_views_are_kept(golden: GoldenStores, tmp_path: Path) -> None:
    store = DamagedStore.of_golden(golden, "rebuild-base", tmp_path / "s")
    (store.directory / "index/notes").write_text("precious")
    (store.directory / "commitlog/core.dump").write_text("precious too")
    report = store.repair()
    assert (Path(report["views"]["old_ones_kept_in"]) / "index/notes").read_text() == "precious"
    assert store.quarantined() == {"core.dump@0": b"precious too"}
    assert store.kinds() == {}
