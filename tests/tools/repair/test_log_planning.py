"""Replacements of damage, by its place and the bytes that were there."""

from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.record import encode_blank, property_crc_field
from pocketmq.model.finding import Finding
from pocketmq.rebuild.log_files import find_log_files
from pocketmq.tools.repair.actions import LogAct, LogAction
from pocketmq.tools.repair.planning import LogPlanner, Suspect
from pocketmq.tools.verify.losses import QueueWitness
from pocketmq.walk.log_walk import ORDERLY_END, Hole
from tests.golden_stores import GoldenStores
from tests.kit.damaged_store import DamagedStore

FINDING = Finding("kind", "commitlog/0", 0, "expected", "found")


class Planned(DamagedStore):
    """A damaged store with a planner for it."""

    def planner(self, *damage: Hole, now_ms: int = 0) -> LogPlanner:
        witness = QueueWitness(Disk(), self.directory)
        files = find_log_files(self.directory, self.file_size)
        return LogPlanner(files, damage, witness.losses, property_crc=False, now_ms=now_ms)

    def hole(self, number: int, *, reason: str = "torn", to_file_end: bool = False) -> Hole:
        begin = self.places[number]
        file_end = begin - begin % self.file_size + self.file_size
        end = file_end if to_file_end else begin + len(self.records[begin])
        return Hole(str(self.path(begin)), begin, end, reason, not to_file_end)

    def of_suspect(self, number: int, kind: str, *others: int) -> tuple[list[LogAction], int]:
        suspects = [Suspect(self.places[n], kind, FINDING) for n in (number, *others)]
        actions, left = self.planner().of_suspects(suspects)
        return actions, len(left)


@pytest.fixture
def store(golden: GoldenStores, tmp_path: Path) -> Planned:
    made = Planned.of_golden(golden, "propcrc", tmp_path / "s")
    assert isinstance(made, Planned)
    return made


def last_of_file(store: DamagedStore) -> int:
    """The last record of the first file."""
    return max(n for n, place in enumerate(store.places) if place < store.file_size)


def test_between_sound_records(store: Planned) -> None:
    action = store.planner().of_hole(store.hole(5))
    assert (action.act, action.file) == (LogAct.STAND_IN, f"commitlog/{0:020d}")
    assert (action.begin, action.end) == (store.places[5], store.places[6])
    assert action.style.property_crc
    assert sum(loss.messages for loss in action.losses) <= 1


def test_up_to_the_end_of_a_file(store: Planned) -> None:
    hole = store.hole(last_of_file(store), reason=ORDERLY_END, to_file_end=True)
    action = store.planner(hole).of_hole(hole)
    assert (action.act, action.end) == (LogAct.FILE_END, store.file_size)
    assert action.reason == "no record where one must be"


def test_a_damaged_blank(store: Planned) -> None:
    place = store.places[last_of_file(store)]
    blank = place + len(store.records[place])
    store.write(blank, encode_blank(77)[:7] + b"x")
    hole = Hole(str(store.path(0)), blank, store.file_size, "bad", False)
    assert store.planner(hole).of_hole(hole).act is LogAct.BLANK


def test_damage_too_small_for_any_record_takes_the_next_one_with_it(store: Planned) -> None:
    begin = store.places[6] - 60
    hole = Hole(str(store.path(0)), begin, store.places[6], "bad", True)
    action = store.planner(hole).of_hole(hole)
    assert (action.begin, action.end) == (begin, store.places[7])


def test_behind_the_last_record(store: Planned) -> None:
    tail = store.hole(len(store.places) - 1, to_file_end=True)
    action = store.planner().of_tail(tail)
    assert (action.act, action.begin, action.end) == (LogAct.ZERO, tail.begin, tail.end)


@pytest.mark.parametrize("kind", ["topic", "queue_id", "queue_offset"])
def test_a_head_that_no_broker_writes(store: Planned, kind: str) -> None:
    (action,), left = store.of_suspect(5, kind)
    assert (action.act, action.begin, action.end) == (
        LogAct.STAND_IN, store.places[5], store.places[6],
    )  # fmt: skip
    assert left == 0


def test_a_store_time_that_cannot_be_is_that_of_the_record_before(store: Planned) -> None:
    (action,), left = store.of_suspect(5, "store_time")
    assert (action.act, action.end - action.begin, left) == (LogAct.TIME, 8, 0)
    assert action.content == store.records[store.places[4]][56:64]


def test_store_times_in_a_row_that_cannot_be_are_that_of_the_record_before(store: Planned) -> None:
    (action,), left = store.of_suspect(5, "store_time", 6)
    assert (action.begin, action.end, left) == (store.places[5], store.places[7], 0)
    assert len(action.content) == action.end - action.begin
    begin = store.places[6] - store.places[5]
    for record in (action.content[:begin], action.content[begin:]):
        assert record[56:64] == store.records[store.places[4]][56:64]
        assert record[-20:] == property_crc_field(record[:-20])


def test_at_the_begin_of_a_log_it_is_the_time_of_the_record_behind(store: Planned) -> None:
    (action,), left = store.of_suspect(0, "store_time", 1)
    assert left == 0
    assert action.content[56:64] == store.records[store.places[2]][56:64]


def test_a_log_without_a_time_that_can_be_gets_that_of_its_repair(store: Planned) -> None:
    suspects = [Suspect(place, "store_time", FINDING) for place in store.places]
    actions, left = store.planner(now_ms=77).of_suspects(suspects)
    assert left == []
    assert {action.content[56:64] for action in actions} == {(77).to_bytes(8)}
    begins = [begin for action in actions for begin in (action.begin, action.end)]
    assert begins[0] == store.places[0]
    assert sum(len(action.content) for action in actions) == sum(map(len, store.records.values()))


def crc_begin(store: DamagedStore, number: int) -> int:
    return store.places[number + 1] - 20


def test_a_property_crc_gets_its_name_back(store: Planned) -> None:
    begin = crc_begin(store, 5)
    store.write(begin + 2, b"??")
    (action,), _ = store.of_suspect(5, "property_crc")
    assert (action.act, action.begin) == (LogAct.CRC_FIELD, begin)
    record = store.records[store.places[5]]
    assert action.content == record[-20:] == property_crc_field(record[:-20])


def test_damaged_properties_take_their_record_with_them(store: Planned) -> None:
    for content in (b"\xff" * 20, bytes(20), b"no separator at all\x02"):
        store.write(crc_begin(store, 5), content)
        (action,), _ = store.of_suspect(5, "property_crc")
        assert action.act is LogAct.STAND_IN


def test_a_record_written_without_a_property_crc_stays(store: Planned) -> None:
    store.write(crc_begin(store, 5), b"name\x01a value of 14\x02")
    assert store.of_suspect(5, "property_crc") == ([], 1)


def test_what_is_no_record_is_left(store: Planned) -> None:
    actions, left = store.planner().of_suspects([Suspect(store.end, "topic", FINDING)])
    assert (actions, left) == ([], [FINDING])
