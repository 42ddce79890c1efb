"""The hash index: its entries, the ends of files, effects of cuts and distrust, lookups."""

from collections.abc import Iterator
from datetime import UTC, timedelta, timezone
from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.index_entries import index_entries
from pocketmq.format.index_layout import (
    ENTRY_SIZE,
    HEADER_SIZE,
    STYLE_5_3,
    STYLE_5_5,
    IndexGeometry,
)
from pocketmq.format.java_hash import java_hash
from pocketmq.log.hash_index import HashIndex
from pocketmq.model.batch import Written
from pocketmq.model.errors import DiskFull, WrongFileSize
from pocketmq.model.message import (
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from pocketmq.model.stats import Counter
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import files_below, golden_entries, index_contents
from tests.kit.records import TIME_MS, Records, batches, entry, store_time
from tests.sim.quick_disk import QuickDisk, full_disk

GEOMETRY = IndexGeometry(4, 6)
"""Four slots; a file takes five entries."""
FOREVER_MS = 2**62


class Index:
    """The index of a store in a directory of its own.

    index.apply(entry(0, keys="a b")); assert index.find("a") == [0]
    """

    def __init__(
        self, directory: Path, geometry: IndexGeometry = GEOMETRY, *, style: str = STYLE_5_5
    ) -> None:
        self.directory = directory / "index"
        self.geometry = geometry
        self.style = style
        self.disk = QuickDisk()
        self.index = self.anew()

    def anew(self) -> HashIndex:
        return HashIndex(self.disk, self.directory, self.geometry, style=self.style, zone=UTC)

    def apply(self, *entries: Written) -> None:
        self.index.apply(entries)

    def find(
        self,
        key: str,
        topic: str = "T",
        *,
        index_type: str = "",
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
    ) -> list[int]:
        """The places where a key may be, newest first."""
        steps = self.index.candidates(
            topic, key, begin_ms=begin_ms, end_ms=end_ms, index_type=index_type
        )
        return [step.physical_offset for step in steps if step.is_match]

    def reopen(self, *, read_only: bool = False) -> HashIndex:
        self.index.close()
        self.index = self.anew()
        self.index.load(read_only=read_only)
        return self.index

    def overwrite(self, number: int, position: int, content: bytes) -> None:
        """Damage the file of a number, then open the index anew."""
        path = self.directory / self.names[number]
        held = bytearray(path.read_bytes())
        held[position : position + len(content)] = content
        path.write_bytes(held)
        self.reopen()

    def complete(self, scratch: Path, entries: list[Written]) -> None:
        """Applies what comes behind the mark: the files are those of an index that met no harm."""
        mark = self.index.durable_offset
        self.apply(*[found for found in entries if found.begin >= mark])
        self.index.close()
        whole = Index(scratch / "whole")
        whole.apply(*entries)
        whole.index.close()
        assert self.contents == whole.contents

    @property
    def names(self) -> list[str]:
        return self.disk.names(self.directory)

    @property
    def contents(self) -> list[bytes]:
        return list(files_below(self.directory).values())


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    made = Index(tmp_path)
    yield made
    made.index.close()


def many_keys(count: int) -> list[Written]:
    """Records of 100 bytes with 1, 2, 3, 4, 1, 2, … keys, a second apart."""
    return [
        entry(
            100 * number,
            keys=" ".join(f"k{number}-{key}" for key in range(number % 4 + 1)),
            time_ms=store_time(100 * number),
        )
        for number in range(count)
    ]


# -- what is indexed -------------------------------------------------------------------------------


def test_a_record_is_found_by_unique_key_keys_and_tag(index: Index) -> None:
    index.apply(entry(500, unique_key="U1", keys="a  b", tag="red"))
    assert [index.find(key) for key in ("U1", "a", "b", "", "red")] == [[500], [500], [500], [], []]
    assert index.find("red", index_type="T") == [500]
    assert index.find("a", topic="X") == []


def test_the_older_style_has_no_tags(tmp_path: Path) -> None:
    index = Index(tmp_path, style=STYLE_5_3)
    index.apply(entry(500, unique_key="U1", keys="a", tag="red"), entry(600, tag="red"))
    assert index.find("a") == [500]
    assert index.find("red", index_type="T") == []
    assert index.index.entries_put.value == 2
    index.index.close()


def test_a_record_without_keys_makes_no_file(index: Index) -> None:
    index.apply(entry(0), entry(100))
    assert index.names == []
    assert index.index.durable_offset == 0


@pytest.mark.parametrize(
    ("transaction", "is_found"),
    [(TRANSACTION_PREPARED, True), (TRANSACTION_COMMIT, True), (TRANSACTION_ROLLBACK, False)],
)
def test_rolled_back_records_are_not_indexed(
    index: Index, transaction: int, is_found: bool
) -> None:
    index.apply(entry(500, keys="a", transaction=transaction))
    assert bool(index.find("a")) is is_found


def test_keys_of_any_script_and_one_without_an_absolute_hash_are_found(index: Index) -> None:
    keys = ["cuikacpk", "ключ", "中文", "😀"]
    assert java_hash("T#cuikacpk") == -(2**31)
    index.apply(entry(100, keys=" ".join(keys)))
    assert [index.find(key) for key in keys] == [[100]] * 4
    assert index.index.files[0].entry(1)[0] == 0


# -- files -----------------------------------------------------------------------------------------


def test_one_records_keys_may_lie_in_several_files(index: Index) -> None:
    index.apply(entry(0, keys="a b c"), entry(100, keys="d e f g h i j k l m n o"))
    assert [file.entry_count for file in index.index.files] == [5, 5, 5]
    assert [index.find(key) for key in "cdefghijklmno"] == [[0]] + [[100]] * 12
    assert index.index.files[0].header.end_physical_offset == 100
    assert index.index.files[1].header.begin_physical_offset == 100
    assert index.index.durable_offset == 101


def test_a_full_file_is_followed_when_the_next_entry_comes(index: Index) -> None:
    """The next one counts from its end."""
    index.apply(*Records().take(5))
    assert len(index.names) == 1
    index.apply(entry(500, keys="late", time_ms=store_time(400) + 7000))
    assert len(index.names) == 2
    assert [file.entry(1)[2] for file in index.index.files] == [0, 7]


def test_files_are_named_by_the_local_time_of_their_first_record(tmp_path: Path) -> None:
    zone = timezone(timedelta(hours=5, minutes=30))
    index = HashIndex(QuickDisk(), tmp_path, GEOMETRY, style=STYLE_5_5, zone=zone)
    index.apply([entry(0, keys="a", time_ms=1795221315660)])
    assert [path.name for path in tmp_path.iterdir()] == ["20261121060515660"]
    index.close()


def test_names_rise_when_the_clock_goes_back_or_stands_still(index: Index) -> None:
    times = [TIME_MS, TIME_MS, TIME_MS - 3_600_000, TIME_MS + 5]
    for number, time_ms in enumerate(times):
        keys = [entry(100 * number, keys="a b c d e", time_ms=time_ms)]
        index.apply(*keys)
    names = [file.path.name for file in index.index.files]
    assert names == [f"20261118110640{ms:03d}" for ms in (0, 1, 2, 5)]
    assert [file.path.name for file in index.reopen().files] == names
    assert index.find("a") == [300, 200, 100, 0]


def test_removing_all_leaves_no_file_and_forgets_what_was_held_back(index: Index) -> None:
    index.apply(*many_keys(12))
    index.disk.fail("make_sparse_file", full_disk())
    with pytest.raises(DiskFull):
        index.apply(entry(1200, keys="a b c d e f g"))
    index.index.remove_all()
    index.apply()
    assert (index.names, index.index.files, index.index.durable_offset) == ([], [], 0)


# -- starting again --------------------------------------------------------------------------------


def test_names_that_are_no_index_files_are_passed_over(index: Index) -> None:
    index.apply(*many_keys(3))
    for name in ("notes.txt", "2026112100351566", "202611210035156600"):
        (index.directory / name).write_text("foreign")
    assert len(index.reopen(read_only=True).files) == 2


def test_a_file_of_another_length_is_refused(index: Index) -> None:
    index.apply(*many_keys(1))
    path = index.directory / index.names[0]
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(WrongFileSize, match="maxHashSlotNum and maxIndexNum"):
        index.reopen()


def test_an_empty_newest_file_does_not_lower_the_mark(index: Index) -> None:
    index.apply(*Records().take(5))
    index.disk.fail("allocate", full_disk(), skip=1)
    with pytest.raises(DiskFull):
        index.apply(*Records().take(6)[5:])
    assert [file.entry_count for file in index.index.files] == [5, 0]
    assert index.index.durable_offset == 401
    assert index.reopen().durable_offset == 401
    index.apply(*Records().take(6)[4:])
    assert index.find("k5") == [500]


# -- cutting, and what is in doubt -----------------------------------------------------------------


def test_sound_files_are_believed(index: Index) -> None:
    index.apply(*many_keys(12))
    before = index.contents
    index.index.drop_doubtful(store_time, None)
    assert index.contents == before


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize(
    ("position", "content"),
    [(0, bytes(HEADER_SIZE)), (GEOMETRY.entries_position + 5 * ENTRY_SIZE, bytes(ENTRY_SIZE))],
    ids=["header zeroed", "last entry torn"],
)
def test_a_damaged_file_goes_with_all_behind_it_and_the_last_record_before(
    tmp_path: Path, number: int, position: int, content: bytes
) -> None:
    index, entries = Index(tmp_path / "damaged"), many_keys(12)
    index.apply(*entries)
    index.overwrite(number, position, content)
    index.index.drop_doubtful(store_time, None)
    assert len(index.names) <= number
    index.complete(tmp_path, entries)


def test_a_doubtful_file_behind_one_that_holds_a_single_record(tmp_path: Path) -> None:
    index = Index(tmp_path / "damaged")
    entries = [entry(0, keys="a b c"), entry(100, keys="d e f g h i j k l m n o")]
    index.apply(*entries)
    index.overwrite(2, 0, bytes(HEADER_SIZE))
    index.index.drop_doubtful(store_time, None)
    index.complete(tmp_path, entries)


@pytest.mark.parametrize("sealed", range(7))
def test_after_another_brokers_crash_files_that_end_later_go(tmp_path: Path, sealed: int) -> None:
    """All of them, where none was sealed."""
    index, entries = Index(tmp_path / "crashed"), many_keys(12)
    index.apply(*entries)
    sealed_time = index.index.files[sealed - 1].header.end_timestamp if sealed else 0
    index.index.drop_doubtful(store_time, sealed_time)
    assert len(index.names) <= sealed
    assert all(file.header.end_timestamp <= sealed_time for file in index.index.files)
    index.complete(tmp_path, entries)


@pytest.mark.parametrize("place", [0, 50, 101, 500, 5000])
@pytest.mark.parametrize("damaged", [None, 0, 2, 5])
@pytest.mark.parametrize("sealed_time", [None, store_time(500)])
def test_where_doubts_and_a_cut_would_leave_the_mark_is_known_before(
    index: Index, place: int, damaged: int | None, sealed_time: int | None
) -> None:
    index.apply(*many_keys(12))
    if damaged is not None:
        index.overwrite(damaged, 0, bytes(HEADER_SIZE))
    told = index.index.durable_below(place, sealed_time)
    index.index.drop_doubtful(store_time, sealed_time)
    index.index.truncate(place, store_time)
    assert index.index.durable_offset == told


# -- syncing, numbers ------------------------------------------------------------------------------


def test_a_flush_remembers_the_last_full_file(index: Index) -> None:
    index.apply(*Records().take(4))
    index.index.flush()
    assert index.index.sealed_time == 0
    index.apply(*Records().take(12)[4:])
    index.index.flush()
    assert index.index.sealed_time == store_time(900)


def test_the_index_tells_how_full_it_is_and_what_it_left_out(index: Index) -> None:
    records = Records().take(7)
    index.apply(*records)
    values = {
        stat.name.removeprefix("pocketmq_index_"): (
            stat.value if isinstance(stat, Counter) else stat.read()
        )
        for stat in index.index.stats
    }
    assert values == {"entries_total": 7, "skipped_total": 0, "files": 2, "fill_ratio": 2 / 5}
    index.apply(records[0])
    index.apply(entry(10_000, keys="k", transaction=TRANSACTION_ROLLBACK))
    assert index.index.skipped.values == {("known",): 1, ("rolled_back",): 1}


# -- finding ---------------------------------------------------------------------------------------


def test_candidates_come_newest_first_across_files(index: Index) -> None:
    index.apply(*[entry(100 * number, keys="hot", time_ms=TIME_MS) for number in range(13)])
    assert index.find("hot") == list(range(1200, -1, -100))


def test_other_keys_of_a_chain_are_steps_but_no_matches(tmp_path: Path) -> None:
    index = Index(tmp_path, IndexGeometry(1, 100))
    index.apply(entry(0, keys="a b"), entry(100, keys="a"))
    steps = list(index.index.candidates("T", "a", begin_ms=0, end_ms=FOREVER_MS))
    found = [(step.number, step.physical_offset, step.is_match) for step in steps]
    assert found == [(3, 100, True), (2, 0, False), (1, 0, True)]
    index.index.close()


@pytest.mark.parametrize("length", [0, 300, 2500])
def test_a_search_by_time_misses_nothing_and_looks_little_further(
    index: Index, length: int
) -> None:
    """Entries keep whole seconds from their file's begin, so both ends look a second further.

    Those of the first second may be older: the clock may have been set back.
    """
    times = {100 * number: TIME_MS + 777 * number for number in range(16)}
    index.apply(*[entry(place, keys="hot", time_ms=time) for place, time in times.items()])
    first = {place: times[place // 500 * 500] for place in times}
    for lower in range(TIME_MS - 1000, TIME_MS + 14_000, 100):
        upper = lower + length
        found = index.find("hot", begin_ms=lower, end_ms=upper)
        assert found == sorted(found, reverse=True)
        assert {place for place, time in times.items() if lower <= time <= upper} <= set(found)
        in_first_second = {place for place in found if times[place] - first[place] < 1000}
        assert all(
            lower - 1000 <= times[place] <= upper + 2000 for place in {*found} - in_first_second
        )


def test_entries_behind_a_clock_that_was_set_right_are_found_by_their_own_time(
    index: Index,
) -> None:
    ahead_ms = TIME_MS + 24 * 365 * 86_400_000
    times = {0: ahead_ms, 100: ahead_ms + 9_000, 200: TIME_MS, 300: TIME_MS + 5_000}
    index.apply(*[entry(place, keys="hot", time_ms=time) for place, time in times.items()])
    assert {200, 300} <= set(index.find("hot", begin_ms=TIME_MS, end_ms=TIME_MS + 6_000))
    assert {0, 100} <= set(index.find("hot", begin_ms=ahead_ms))
    assert index.find("hot", begin_ms=ahead_ms + 60_000) == []


@pytest.mark.parametrize(
    ("set_back_at", "set_right_at"), [(3, 7), (7, 3), (2, 4), (0, 5), (5, 10), (9, 6)]
)
def test_a_search_by_time_misses_nothing_though_the_clock_was_set(
    index: Index, set_back_at: int, set_right_at: int
) -> None:
    """The clock jumps within a file or between two, by days, back and forward or the reverse."""
    times = {100 * number: TIME_MS + 60_000 * number for number in range(16)}
    for number in range(set_back_at, 16):
        times[100 * number] -= 5 * 86_400_000
    for number in range(set_right_at, 16):
        times[100 * number] += 5 * 86_400_000
    index.apply(*[entry(place, keys="hot", time_ms=time) for place, time in times.items()])
    for place, time in times.items():
        assert place in index.find("hot", begin_ms=time, end_ms=time)
    assert index.find("hot", begin_ms=max(times.values()) + 120_000) == []


def test_the_first_message_of_a_file_is_found_by_its_time_after_a_silence(index: Index) -> None:
    """Its entry counts seconds from the end of the file before."""
    index.apply(*[entry(100 * number, keys="hot", time_ms=TIME_MS) for number in range(5)])
    silent_ms = TIME_MS + 10 * 3_600_000
    index.apply(entry(500, keys="hot", time_ms=silent_ms))
    assert [file.entry_count for file in index.index.files] == [5, 1]
    assert index.find("hot", begin_ms=silent_ms, end_ms=silent_ms + 60_000) == [500]


def test_a_search_from_a_place_on_walks_no_file_before_it(index: Index) -> None:
    index.apply(*[entry(100 * number, keys="hot") for number in range(12)])
    steps = [*index.index.candidates("T", "hot", begin_ms=0, end_ms=FOREVER_MS, lowest=900)]
    assert [step.physical_offset for step in steps if step.is_match] == [1_100, 1_000, 900]
    holding = [n for n, file in zip(index.names, index.index.files, strict=True)
               if file.header.end_physical_offset >= 900]  # fmt: skip
    assert {step.file_name for step in steps} == {*holding}
    assert len(holding) < len(index.names)


def test_a_search_goes_on_behind_any_step(tmp_path: Path) -> None:
    index = Index(tmp_path, IndexGeometry(2, 6))
    index.apply(*[entry(100 * number, keys=f"hot k{number}") for number in range(12)])
    steps = list(index.index.candidates("T", "hot", begin_ms=0, end_ms=FOREVER_MS))
    assert len({step.file_name for step in steps}) == 5
    for number, step in enumerate(steps):
        rest = index.index.candidates(
            "T", "hot", begin_ms=0, end_ms=FOREVER_MS, after=(step.file_name, step.number)
        )
        assert list(rest) == steps[number + 1 :]
    index.index.close()


def test_a_search_goes_on_though_the_file_it_stopped_in_is_gone(index: Index) -> None:
    index.apply(*[entry(100 * number, keys="hot") for number in range(12)])
    stopped = (index.names[1], 3)
    index.index.close()
    (index.directory / stopped[0]).unlink()
    index.reopen()
    rest = index.index.candidates("T", "hot", begin_ms=0, end_ms=FOREVER_MS, after=stopped)
    assert [step.physical_offset for step in rest] == [400, 300, 200, 100, 0]


# -- what a real broker wrote ----------------------------------------------------------------------

STYLES = {
    **dict.fromkeys(["basic", "semantics", "propcrc", "rebuild-base", "cqext"], STYLE_5_5),
    "v533": STYLE_5_3,
}


def golden_index(golden: GoldenStores, name: str, directory: Path | None = None) -> HashIndex:
    """The index of a store for reading, or one of its shape in another directory."""
    params = golden.manifest(name)["params"]
    geometry = IndexGeometry(params["maxHashSlotNum"], params["maxIndexNum"])
    if directory is not None:
        return HashIndex(QuickDisk(), directory, geometry, style=STYLES[name], zone=UTC)
    index = HashIndex(Disk(), golden.store(name) / "index", geometry, style="", zone=UTC)
    index.load(read_only=True)
    return index


@pytest.mark.parametrize("size", [1, 7, 100, 4096])
@pytest.mark.parametrize("name", STYLES)
def test_an_index_built_from_a_real_log_is_the_real_one(
    golden: GoldenStores, tmp_path: Path, name: str, size: int
) -> None:
    index = golden_index(golden, name, tmp_path)
    for part in batches(list(golden_entries(golden, name)), size):
        index.apply(part)
    index.close()
    assert [*files_below(tmp_path).values()] == index_contents(golden.store(name))


@pytest.mark.parametrize("name", STYLES)
def test_real_files_are_sound_and_tell_what_their_broker_tells(
    golden: GoldenStores, name: str
) -> None:
    index = golden_index(golden, name)
    assert all(file.is_sound() for file in index.files)
    fields = ["beginTimestamp", "endTimestamp", "beginPhyOffset", "endPhyOffset"]
    fields += ["hashSlotCount", "indexCount"]
    told = [tuple(row[field] for field in fields) for row in golden.manifest(name)["indexFiles"]]
    assert [tuple(file.header) for file in index.files] == told
    index.close()


@pytest.mark.parametrize("name", ["basic", "semantics", "v533"])
def test_what_a_real_broker_finds_is_among_the_candidates(golden: GoldenStores, name: str) -> None:
    index = golden_index(golden, name)
    end = golden.manifest(name)["lastRecordEnd"]
    for query in golden.manifest(name)["queries"]:
        steps = index.candidates(
            query["topic"],
            query["key"],
            begin_ms=query["begin"],
            end_ms=min(query["end"], FOREVER_MS),
            index_type=query["indexType"] or "",
        )
        found = {step.physical_offset for step in steps if step.is_match}
        told = {place for place in query["offsets"] if place < end}
        assert told <= found, query
    index.close()


def test_entries_hashed_already_lie_as_records_put_them(tmp_path: Path) -> None:
    entries = Records().take(30)
    one, other = Index(tmp_path / "one"), Index(tmp_path / "other")
    one.index.apply(entries)
    hashed = index_entries(entries, one.index.style)
    other.index.put(hashed[: 7 * ENTRY_SIZE])
    other.index.put(hashed[7 * ENTRY_SIZE :])
    assert files_below(tmp_path / "one") == files_below(tmp_path / "other")
