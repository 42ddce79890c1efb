"""The timer's files: what is wrong of them is seen, and a repair makes them whole."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from broker.files.disk import Disk
from broker.format.names import TIMER_LOG_DIRECTORY, TIMER_WHEEL_FILE
from broker.format.timer_layout import CHECK, LOG_UNIT_SIZE, LOG_UNIT_TYPE, SLOT_COUNT, SLOT_SIZE
from broker.log.timer_log import TimerLog
from broker.log.timer_wheel import TimerWheel
from broker.store.tables.timer_check import TimerProgress
from broker.store.timer.recovery import recover_files
from broker.tools.rebuild import plan_rebuild, rebuild_beside, rebuild_in_place
from broker.tools.repair.repair import NOTHING_TO_DO, repair_store
from broker.tools.verify.collector import Collector
from broker.tools.verify.timers import TimerCheck
from broker.tools.waiting.timer_files import link_units, read_timer_files
from tests.fakes.checked_store import CheckedStore
from tests.golden_stores import GoldenStores

NOW_MS = 1_800_000_000_000
PENDING_SECOND = 1_795_393_433
"""Of two messages that a real broker was to deliver a day and a half later."""


@pytest.fixture
def store(golden: GoldenStores, tmp_path: Path) -> CheckedStore:
    return CheckedStore(golden, "semantics", tmp_path / "s")


def timer_files(store: CheckedStore) -> dict[str, bytes]:
    paths = [*sorted((store.directory / "timerlog").iterdir()), store.directory / "timerwheel"]
    paths.append(store.directory / "config" / "timercheck")
    return {path.name: path.read_bytes() for path in paths}


def repaired(store: CheckedStore) -> dict[str, object]:
    report = repair_store(Disk(), store.directory, store.sizes, now_ms=NOW_MS)
    assert report["is_sound"]
    assert store.kinds() == set()
    return report


def test_a_wheel_follows_from_its_units(golden: GoldenStores) -> None:
    files = read_timer_files(Disk(), golden.store("semantics"))
    links = link_units(files.units, files.places)
    assert len(files.units) == 134
    assert links.slots.tobytes() == (golden.store("semantics") / "timerwheel").read_bytes()
    assert (links.previous == files.units["previous"]).all()


def test_what_a_real_broker_left_is_sound(store: CheckedStore) -> None:
    found = store.verify()
    assert (found.counts, found.notes) == ({}, [])


def test_a_slot_serves_another_second_after_two_weeks() -> None:
    units = np.zeros(4, LOG_UNIT_TYPE)
    units["magic"] = 1
    units["write_time"] = [10_000, 10_000, 10_000 + SLOT_COUNT * 1000, 10_000]
    units["delay"] = [5_000, 5_000, 5_000, 6_000]
    links = link_units(units, np.arange(4) * 52)
    assert links.previous.tolist() == [-1, 0, -1, -1]
    assert links.slots[15].tolist() == (15 + SLOT_COUNT, 104, 104, 1, 0)
    assert links.slots[16].tolist() == (16, 156, 156, 1, 0)
    assert np.count_nonzero(links.slots["time"]) == 2


def test_a_lost_wheel_comes_back_byte_for_byte(store: CheckedStore) -> None:
    with (store.directory / "config" / "timercheck").open("r+b") as check:
        check.seek(4_056)
        check.write(b"pocketmq" + bytes(range(32)))  # What only this broker keeps there.
    before = timer_files(store)
    (store.directory / "timerwheel").unlink()
    assert store.kinds() == {"missing_file"}
    repaired(store)
    assert timer_files(store) == before
    assert repair_store(Disk(), store.directory, store.sizes, now_ms=NOW_MS)["state"] == (
        NOTHING_TO_DO
    )


def test_a_wheel_of_another_length(store: CheckedStore) -> None:
    before = timer_files(store)
    (store.directory / "timerwheel").write_bytes(b"\0" * 100)
    (finding,) = store.verify().findings
    assert (finding.kind, finding.file, finding.found) == ("file_size", "timerwheel", "100 bytes")
    repaired(store)
    assert timer_files(store) == before


def test_a_slot_that_leads_elsewhere(store: CheckedStore) -> None:
    slot = PENDING_SECOND % SLOT_COUNT
    wheel = store.directory / "timerwheel"
    with store.changed(wheel, slot * SLOT_SIZE + 23):
        (finding,) = store.verify().findings
    assert (finding.kind, finding.offset) == ("timer_slot", slot * SLOT_SIZE)
    with store.changed(wheel, slot * SLOT_SIZE + 27):
        found = store.verify()
    assert found.counts == {}
    assert "timerwheel: 1 slots count what they do not have" in found.notes
    (store.directory / "abort").write_bytes(b"1")
    with store.changed(wheel, slot * SLOT_SIZE + 23):
        found = store.verify()
    assert found.counts == {}
    assert any("a start revises it" in note for note in found.notes)


def test_slots_that_are_over_may_say_anything(store: CheckedStore) -> None:
    with store.changed(
        store.directory / "timerwheel", (1_795_221_434 % SLOT_COUNT) * SLOT_SIZE + 23
    ):
        assert store.kinds() == set()


def test_bytes_of_a_unit(store: CheckedStore) -> None:
    path = store.directory / "timerlog" / "00000000000000005200"
    kinds = {"timer_log", "timer_unit", "timer_slot", "lost_timer", "timer_check"}
    for position in range(3, 44, 4):  # The lowest byte of each number, or of its half.
        with store.changed(path, 52 * 7 + position):
            assert store.kinds() & kinds, position


def test_a_torn_timer_log_gets_its_units_back_from_the_log(store: CheckedStore) -> None:
    before = read_timer_files(Disk(), store.directory)
    assert before.check is not None
    path = store.directory / "timerlog" / "00000000000000000000"
    content = path.read_bytes()
    path.write_bytes(content[: 52 * 20] + b"\xff" * 52 + content[52 * 21 :])
    assert {"timer_log", "lost_timer"} <= store.kinds()
    assert repaired(store)["timers"] == {"dropped": 0, "added": 54}
    after = read_timer_files(Disk(), store.directory)
    for files in (before, after):
        to_come = files.units[files.units["write_time"] + files.units["delay"] >= files.read_ms]
        assert len(set(to_come["physical_offset"].tolist())) == 36 + 30
    assert after.check == before.check._replace(log_flushed=after.end)


def test_a_checkpoint_beyond_the_topic(store: CheckedStore) -> None:
    path = store.directory / "config" / "timercheck"
    before = path.read_bytes()
    numbers = list(CHECK.struct.unpack_from(before))
    numbers[2] = 135
    path.write_bytes(CHECK.struct.pack(*numbers).ljust(4096, b"\0"))
    (finding,) = store.verify().findings
    assert (finding.kind, finding.offset, finding.found) == ("timer_check", 16, "135")
    repaired(store)
    assert path.read_bytes() == before


def test_a_rebuild_writes_the_wheel(store: CheckedStore, tmp_path: Path) -> None:
    before = timer_files(store)
    out = tmp_path / "out"
    done = rebuild_beside(
        Disk(), plan_rebuild(Disk(), store.directory, store.sizes, out=out), accept_holes=False
    )
    assert done.record_count == 626
    assert (out / "timerwheel").read_bytes() == before["timerwheel"]
    (store.directory / "timerwheel").write_bytes(bytes(SLOT_COUNT * SLOT_SIZE))
    assert store.kinds() == {"timer_slot"}
    rebuild_in_place(
        Disk(), plan_rebuild(Disk(), store.directory, store.sizes), store.sizes, accept_holes=False
    )
    assert timer_files(store) == before
    assert store.kinds() == set()


# -- what a start after a crash leaves out ---------------------------------------------------------
SECOND_MS = 1_000
LOG_END = 10_000
LOG_FILE_BYTES = 52 * 100


class CrashedTimer:
    """Wheel and log of a timer that crashes; messages are named by physical offset."""

    def __init__(self, directory: Path) -> None:
        disk, self._directory = Disk(), directory
        self.log = TimerLog(disk, directory / TIMER_LOG_DIRECTORY, LOG_FILE_BYTES)
        self.wheel = TimerWheel(disk, directory / TIMER_WHEEL_FILE, precision_ms=SECOND_MS)
        self.wheel.make(directory)
        self.wheel.open()

    def add(self, second: int, *messages: int, knows_wheel: bool = True) -> None:
        """Let messages wait for a second; a crash may come before the wheel knows."""
        units = np.zeros(len(messages), LOG_UNIT_TYPE)
        assert self.log.room() >= len(messages)
        places, times = self.log.places(len(messages)), np.full(len(messages), second * SECOND_MS)
        units["magic"], units["size"], units["write_time"] = 1, LOG_UNIT_SIZE, times
        units["physical_offset"], units["record_size"] = messages, 100
        units["previous"] = self.wheel.before(times, places)
        self.log.append(units)
        if knows_wheel:
            self.wheel.add(times, places, np.ones(len(messages), np.int64))

    def crash(self) -> None:
        progress = TimerProgress(read_ms=SECOND_MS)
        recover_files(self.log, self.wheel, progress, LOG_END, lambda: None, why_new="")

    def findings(self) -> list[tuple[str, str, str]]:
        files = read_timer_files(Disk(), self._directory)
        collector = Collector(self._directory, LOG_END)
        check = TimerCheck(files, collector, log_begin=LOG_END, last_time_ms=0, is_orderly=True)
        check.look(())
        return [(finding.kind, finding.expected, finding.found) for finding in collector.findings]


@pytest.fixture
def crashed(tmp_path: Path) -> Iterator[CrashedTimer]:
    timer = CrashedTimer(tmp_path)
    yield timer
    timer.wheel.close()
    timer.log.close()


def test_a_unit_leads_past_one_whose_message_moved_before_the_crash(crashed: CrashedTimer) -> None:
    crashed.add(50, 100, 200, 300)
    crashed.add(52, 200, 300)
    crashed.crash()
    crashed.add(50, 400)
    chain, _ = crashed.log.chain(5 * LOG_UNIT_SIZE, 9)
    assert chain == [5 * LOG_UNIT_SIZE, 0]
    assert crashed.findings() == []


def test_a_slot_whose_messages_all_moved_is_empty_or_begins_anew(crashed: CrashedTimer) -> None:
    crashed.add(50, 100, knows_wheel=False)
    crashed.add(60, 200, knows_wheel=False)
    crashed.add(52, 100, 200)
    crashed.crash()
    assert crashed.wheel.slot(50 * SECOND_MS) is None
    assert crashed.findings() == []
    crashed.add(60, 400)
    assert crashed.findings() == []


def test_a_unit_that_moved_nowhere_is_not_led_past(crashed: CrashedTimer) -> None:
    crashed.add(50, 100)
    crashed.add(50, 200, knows_wheel=False)
    crashed.add(50, 300)
    crashed.add(52, 200)  # Too late: the unit of 300 was written before.
    told = ("timer_unit", f"previous {LOG_UNIT_SIZE}", "previous 0")
    assert crashed.findings() == [told]


def test_a_slot_that_lost_a_message_is_told(crashed: CrashedTimer) -> None:
    crashed.add(50, 100, 200)
    crashed.add(52, 200)
    crashed.add(50, 300, knows_wheel=False)
    (finding,) = crashed.findings()
    assert finding[0] == "timer_slot"
    crashed.crash()
    assert crashed.findings() == []
    crashed.wheel.clear(52 * SECOND_MS)
    (finding,) = crashed.findings()
    assert finding[0] == "timer_slot"
