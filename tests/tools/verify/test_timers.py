"""The timer's files: what is wrong of them is seen, and a repair makes them whole."""

from pathlib import Path

import numpy as np
import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.timer_layout import CHECK, LOG_UNIT_TYPE, SLOT_COUNT, SLOT_SIZE
from pocketmq.tools.pending.timer_files import link_units, read_timer_files
from pocketmq.tools.rebuild import plan_rebuild, rebuild_beside, rebuild_in_place
from pocketmq.tools.repair.repair import NOTHING_TO_DO, repair_store
from tests.golden_stores import GoldenStores
from tests.kit.checked_store import CheckedStore

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


@pytest.mark.parametrize(
    ("role", "has_wheel", "kinds"),
    [
        ("follower", True, set()), ("follower", False, set()), ("", False, set()),
        ("leader", True, {"timer_slot"}), ("leader", False, {"missing_file"}),
        ("", True, {"timer_slot"}),
    ],
)  # fmt: skip
def test_a_followers_wheel_is_made_by_a_start(
    store: CheckedStore, role: str, has_wheel: bool, kinds: set[str]
) -> None:
    own, wheel = store.directory / "pocketmq", store.directory / "timerwheel"
    own.mkdir(exist_ok=True)
    (own / "identity.json").write_text('{"follower": "f", "store": "s"}')
    (own / "terms.json").write_text(f'{{"role": "{role}", "leader": "", "terms": []}}')
    if has_wheel:
        wheel.write_bytes(bytes(wheel.stat().st_size))
    else:
        wheel.unlink()
    found = store.verify()
    assert set(found.counts) == kinds
    note = "timerwheel is behind the timer log, as on every follower: a start makes it"
    assert (note in found.notes) == (not kinds)


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
    assert "timerwheel: 1 slots have wrong message counts" in found.notes
    (store.directory / "abort").write_bytes(b"1")
    with store.changed(wheel, slot * SLOT_SIZE + 23):
        found = store.verify()
    assert found.counts == {}
    assert any("the next start corrects it" in note for note in found.notes)


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
