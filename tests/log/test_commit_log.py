"""The commit log: where records go when a file ends, what a walk finds, what a cut leaves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq.files.mapped_file import MappedFile
from pocketmq.format.record import MAGIC_BLANK, SIZE_AND_MAGIC, decode_record
from pocketmq.log.commit_log import DRAFT_NAME, CommitLog, LogScan
from pocketmq.model.errors import DiskFull, StoreGap
from pocketmq.model.finding import ScanEnd
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import open_log
from tests.kit.records import record
from tests.sim.quick_disk import QuickDisk, full_disk

SIZE = 1024
SMALLEST = len(record(0))


class Log:
    """A log in a directory of its own, with files of 1 KiB.

    log.write("a", "b"); log.tear(4); assert log.reopen() == ["a"]
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.own = directory / "pocketmq"
        self.own.mkdir(parents=True)
        self.disk = QuickDisk()
        self.log = CommitLog(self.disk, directory / "commitlog", SIZE)

    def close(self) -> None:
        self.log.close()

    def spare(self) -> MappedFile:
        """Makes the file that is wanted next."""
        base = self.log.spare_base
        assert base is not None
        return self.log.make_spare(self.own, base)

    def append(self, *sizes: int) -> list[int]:
        """Puts records of these sizes as one batch; returns where they lie."""
        total = sum(sizes)
        if not self.log.has_room(total):
            self.log.offer_spare(self.spare())
        assert self.log.has_room(total)
        place = self.log.place(total)
        places = [place + sum(sizes[:number]) for number in range(len(sizes))]
        records = [record(at, size=size) for at, size in zip(places, sizes, strict=True)]
        self.log.write(place, b"".join(records))
        return places

    def many(self, count: int) -> list[int]:
        """Puts so many records of 150 bytes, each alone; returns where they lie."""
        return [place for _ in range(count) for place in self.append(150)]

    def write(self, *bodies: str) -> list[int]:
        """Puts one record for each body; returns where they lie."""
        places = []
        for body in bodies:
            size = len(record(0, body.encode()))
            if not self.log.has_room(size):
                self.log.offer_spare(self.spare())
            places.append(self.log.place(size))
            self.log.write(places[-1], record(places[-1], body.encode()))
        return places

    def fill(self, left: int) -> None:
        """Puts one record that leaves so many bytes in a fresh file."""
        self.append(SIZE - left)

    def tear(self, size: int) -> None:
        """Takes the last bytes of the newest record away, as a power cut does."""
        self.overwrite(self.log.appended - size, bytes(size))

    def overwrite(self, place: int, content: bytes) -> None:
        path = self.path(place - place % SIZE)
        held = bytearray(path.read_bytes())
        held[place % SIZE : place % SIZE + len(content)] = content
        path.write_bytes(held)

    def load(self) -> CommitLog:
        """Opens the log anew, as a start does, up to where recovery says what is sound."""
        self.log.close()
        self.log = CommitLog(self.disk, self.directory / "commitlog", SIZE)
        self.log.load()
        return self.log

    def reopen(self) -> list[str]:
        """Opens the log anew and cut what is not sound; returns the bodies left."""
        self.load()
        scan = self.log.scan(0)
        bodies = [body_at(file, position) for _, file, position, _ in scan]
        self.log.truncate(scan.position)
        return bodies

    def path(self, base: int) -> Path:
        return self.directory / "commitlog" / f"{base:020d}"

    def bytes_of(self, base: int) -> bytes:
        return self.path(base).read_bytes()

    @property
    def bases(self) -> list[int]:
        return [int(name) for name in self.disk.names(self.directory / "commitlog")]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path / "store")
    yield made
    made.close()


def body_at(file: MappedFile, position: int) -> str:
    return decode_record(file.view, position).body.decode()


def walk(scan: LogScan) -> list[tuple[int, int]]:
    """The (physical offset, size) of every record the scan finds."""
    return [(place, size) for place, _, _, size in scan]


# -- appending -------------------------------------------------------------------------------------


def test_records_follow_on_each_other_from_0_on(log: Log) -> None:
    assert log.log.spare_base == 0
    assert not log.log.has_room(1)
    assert walk(log.log.scan(0)) == []
    assert log.append(100) + log.append(120, 130) == [0, 100, 220]
    assert (log.log.appended, log.log.min_offset) == (350, 0)
    assert log.bytes_of(0) == (
        record(0, size=100) + record(100, size=120) + record(220, size=130) + bytes(SIZE - 350)
    )


@pytest.mark.parametrize("left", range(41))
def test_a_record_stays_in_its_file_if_8_bytes_are_left(log: Log, left: int) -> None:
    log.fill(200)
    (place,) = log.append(200 - left)
    if left >= 8:
        assert (place, log.bases) == (SIZE - 200, [0])
        assert log.bytes_of(0)[SIZE - left :] == bytes(left)
        return
    assert (place, log.bases) == (SIZE, [0, SIZE])
    assert log.bytes_of(0)[SIZE - 200 :] == SIZE_AND_MAGIC.pack(200, MAGIC_BLANK) + bytes(192)


@pytest.mark.parametrize("left", range(8, 41))
def test_what_is_left_of_a_file_is_closed_by_a_blank(log: Log, left: int) -> None:
    log.fill(left)
    assert log.append(SMALLEST) == [SIZE]
    assert log.bytes_of(0)[SIZE - left :] == (
        SIZE_AND_MAGIC.pack(left, MAGIC_BLANK) + bytes(left - 8)
    )
    assert walk(log.log.scan(0)) == [(0, SIZE - left), (SIZE, SMALLEST)]


@pytest.mark.parametrize("left", range(41))
def test_a_log_found_with_little_room_goes_on_in_the_next_file(log: Log, left: int) -> None:
    log.append(SMALLEST)
    log.overwrite(0, record(0, size=SIZE - left))
    log.load().adopt_end(SIZE - left)
    assert log.append(SMALLEST) == [SIZE]
    blank = SIZE_AND_MAGIC.pack(left, MAGIC_BLANK).ljust(left, b"\0") if left >= 8 else bytes(left)
    assert log.bytes_of(0) == record(0, size=SIZE - left) + blank
    assert walk(log.log.scan(0)) == [(0, SIZE - left), (SIZE, SMALLEST)]


def test_a_batch_moves_as_a_whole(log: Log) -> None:
    log.fill(300)
    assert log.append(100, 100, 100) == [SIZE, SIZE + 100, SIZE + 200]
    assert log.bytes_of(0)[SIZE - 300 :][:8] == SIZE_AND_MAGIC.pack(300, MAGIC_BLANK)


def test_the_largest_record_takes_a_file_but_for_a_blank(log: Log) -> None:
    assert log.log.record_size_max == SIZE - 8
    assert log.append(SIZE - 8) + log.append(SIZE - 8) == [0, SIZE]
    log.log.offer_spare(log.spare())
    with pytest.raises(AssertionError):
        log.log.place(SIZE - 7)


def test_bytes_go_where_they_were_placed_and_nowhere_else(log: Log) -> None:
    log.append(100)
    place = log.log.place(100)
    with pytest.raises(AssertionError):
        log.log.write(place + 1, record(place + 1, size=100))
    assert log.log.appended == 100


def test_a_blank_is_not_counted_until_a_record_follows_it(log: Log) -> None:
    log.fill(50)
    log.log.offer_spare(log.spare())
    place = log.log.place(100)
    assert log.log.appended == SIZE - 50
    log.log.write(place, record(place, size=100))
    assert log.load().files.max_offset == 2 * SIZE
    assert walk(log.log.scan(0)) == [(0, SIZE - 50), (SIZE, 100)]


# -- the next file ---------------------------------------------------------------------------------


def test_a_spare_is_made_ahead_with_all_its_blocks(log: Log) -> None:
    log.append(100)
    assert log.log.spare_base == SIZE
    log.log.offer_spare(log.spare())
    assert log.log.has_room(SIZE - 8)
    assert [log.log.spare_base] == [None]
    assert log.path(SIZE).stat().st_blocks * 512 >= SIZE
    assert not (log.own / DRAFT_NAME).exists()


def test_a_spare_for_another_place_is_removed(log: Log) -> None:
    log.append(100)
    log.log.offer_spare(log.log.make_spare(log.own, 5 * SIZE))
    assert log.bases == [0]
    assert log.log.spare_base == SIZE


def test_a_spare_that_was_never_used_goes_with_the_log(log: Log) -> None:
    log.append(100)
    log.log.offer_spare(log.spare())
    log.close()
    assert log.bases == [0]


def test_a_spare_that_a_crash_left_is_no_end_of_data(log: Log) -> None:
    log.write("a")
    log.spare().close()
    assert log.bases == [0, SIZE]
    assert log.reopen() == ["a"]
    assert log.bases == [0]


def test_a_full_disk_leaves_no_file_and_room_comes_back(log: Log) -> None:
    log.fill(50)
    log.disk.fail("allocate", full_disk())
    with pytest.raises(DiskFull):
        log.spare()
    assert (log.bases, log.disk.names(log.own)) == ([0], [])
    assert not log.log.has_room(100)
    assert log.append(100) == [SIZE]


# -- reading ---------------------------------------------------------------------------------------


def test_bytes_are_read_up_to_the_end_of_their_file(log: Log) -> None:
    log.fill(50)
    log.append(100)
    assert log.log.read(SIZE, 100) == record(SIZE, size=100)
    assert len(log.log.read(SIZE - 60, 1000)) == 60
    assert log.log.read(2 * SIZE, 10) == b""
    assert log.log.read(-1, 10) == b""


def test_only_the_start_of_a_record_has_a_size(log: Log) -> None:
    log.fill(120)
    log.append(SMALLEST)
    log.append(200)
    sizes = {place: log.log.record_size_at(place) for place in range(-1, 2 * SIZE + 1)}
    found = {place: size for place, size in sizes.items() if size is not None}
    assert found == {0: SIZE - 120, SIZE - 120: SMALLEST, SIZE: 200}
    log.log.appended = SIZE
    assert log.log.record_size_at(SIZE) is None, "it is not appended yet"


# -- walking ---------------------------------------------------------------------------------------


def test_a_walk_goes_across_files_and_ends_with_the_data(log: Log) -> None:
    places = log.many(20)
    assert len(log.bases) == 4
    scan = log.log.scan(0)
    assert walk(scan) == [(place, 150) for place in places]
    assert (scan.position, scan.end, scan.reason) == (places[-1] + 150, ScanEnd.END_OF_DATA, "")


def test_a_walk_begins_and_ends_where_it_is_told(log: Log) -> None:
    places = log.many(12)
    scan = log.log.scan(places[3], places[9])
    assert walk(scan) == [(place, 150) for place in places[3:9]]
    assert walk(log.log.scan(places[3], places[9] + 1)) == [(at, 150) for at in places[3:10]]


def test_a_walk_begins_with_the_oldest_file(log: Log) -> None:
    log.many(20)
    log.log.close()
    log.path(0).unlink()
    assert walk(log.load().scan(0))[0] == (SIZE, 150)
    assert log.log.min_offset == SIZE


def test_a_walk_stops_in_front_of_a_blank_that_nothing_follows(log: Log) -> None:
    log.fill(50)
    log.append(100)
    log.log.close()
    log.path(SIZE).unlink()
    scan = log.load().scan(0)
    assert walk(scan) == [(0, SIZE - 50)]
    assert (scan.position, scan.end) == (SIZE - 50, ScanEnd.END_OF_DATA)


@pytest.mark.parametrize(
    ("place", "content", "reason"),
    [
        (204, b"\x01\x02\x03\x04", "magic 0x01020304"),
        (200, record(0, size=200), "its own physical offset is 0"),
    ],
)
def test_a_walk_says_where_and_why_it_stopped(
    log: Log, place: int, content: bytes, reason: str
) -> None:
    log.append(200, 200)
    log.overwrite(place, content)
    scan = log.load().scan(0)
    assert walk(scan) == [(0, 200)]
    assert (scan.position, scan.end, scan.path) == (200, ScanEnd.BAD, str(log.path(0)))
    assert reason in scan.reason


def test_a_missing_file_is_named(log: Log) -> None:
    log.many(20)
    log.log.close()
    log.path(SIZE).unlink()
    with pytest.raises(StoreGap, match=str(2 * SIZE)):
        log.load()


# -- starting again --------------------------------------------------------------------------------


def test_a_torn_record_is_cut_and_the_log_goes_on(log: Log) -> None:
    log.write("a", "b")
    log.tear(4)
    assert log.reopen() == ["a"]
    log.write("c")
    assert log.reopen() == ["a", "c"]


def test_a_record_behind_a_torn_one_does_not_come_back(log: Log) -> None:
    log.write("one", "two", "three", "four")
    log.overwrite(SMALLEST + 3, b"\xff" * 4)
    assert log.reopen() == ["one"]
    log.write("tow")
    assert log.reopen() == ["one", "tow"]
    log.write("eerht")
    assert log.reopen() == ["one", "tow", "eerht"]


def test_a_file_found_sparse_gets_its_blocks_before_it_is_written(log: Log) -> None:
    path = log.path(0)
    path.parent.mkdir()
    log.disk.close(log.disk.make_sparse_file(path, SIZE))
    log.load().adopt_end(0)
    assert path.stat().st_blocks * 512 >= SIZE


@pytest.mark.parametrize("end", [0, 1, 150, SIZE - 8, SIZE, SIZE + 1, 2 * SIZE])
def test_the_log_goes_on_from_any_end(tmp_path: Path, end: int) -> None:
    log = Log(tmp_path / "store")
    log.many(18)
    log.load().adopt_end(end)
    assert log.log.appended == end
    (place,) = log.append(200)
    fits = end % SIZE + 200 + 8 <= SIZE
    is_in_new_file = end % SIZE == 0 or fits
    assert place == (end if is_in_new_file else end - end % SIZE + SIZE)
    assert log.bases == list(range(0, place + 1, SIZE))
    log.close()


def test_the_log_goes_on_from_the_end_of_a_whole_page(tmp_path: Path) -> None:
    own = tmp_path / "pocketmq"
    own.mkdir()
    log = CommitLog(QuickDisk(), tmp_path / "commitlog", 8192)
    log.offer_spare(log.make_spare(own, 0))
    log.write(log.place(8000), record(0, size=8000))
    log.offer_spare(log.make_spare(own, 8192))
    log.place(8000)
    log.close()  # Nothing but the blank reached the disk.
    log = CommitLog(QuickDisk(), tmp_path / "commitlog", 8192)
    log.load()
    scan = log.scan(0)
    assert walk(scan) == [(0, 8000)]
    assert scan.position == 8192
    log.truncate(scan.position)
    log.offer_spare(log.make_spare(own, 8192))
    assert log.place(8000) == 8192
    log.close()


def test_a_log_whose_oldest_file_is_not_the_first_may_lose_all_its_records(log: Log) -> None:
    log.many(12)
    log.log.close()
    log.path(0).unlink()
    log.overwrite(SIZE, b"\xff" * 8)
    assert log.reopen() == []
    assert (log.log.appended, log.bases) == (SIZE, [SIZE])
    assert log.append(100) == [SIZE]


def test_a_reader_changes_nothing(log: Log) -> None:
    log.append(150)
    log.log.close()
    log.log = CommitLog(log.disk, log.directory / "commitlog", SIZE)
    log.log.load(read_only=True)
    assert walk(log.log.scan(0)) == [(0, 150)]
    assert log.log.read(0, 150) == record(0, size=150)


# -- cutting, syncing ------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [0, 1, 5, 6, 7, 12, 19, 20])
def test_a_cut_leaves_zeros_and_no_later_file(log: Log, kept: int) -> None:
    places = log.many(20)
    cut = places[kept] if kept < 20 else log.log.appended
    before = b"".join(log.bytes_of(base) for base in log.bases)
    log.disk.calls.clear()
    log.log.truncate(cut)
    assert log.log.appended == cut
    assert len(log.disk.calls["sync"]) == 1
    after = b"".join(log.bytes_of(base) for base in log.bases)
    assert after == before[:cut] + bytes(len(after) - cut)
    assert len(after) - cut <= SIZE
    assert walk(log.log.scan(0)) == [(place, 150) for place in places[:kept]]


def test_files_between_two_offsets(log: Log) -> None:
    """A blank behind what was flushed is still to be flushed."""

    def between(begin: int, upto: int) -> list[int]:
        return [file.base for file in log.log.files_between(begin, upto)]

    log.fill(50)
    flushed = log.log.appended
    log.append(100)
    assert between(flushed, log.log.appended) == [0, SIZE]
    log.many(18)
    end = log.log.appended
    assert between(0, end) == [0, SIZE, 2 * SIZE, 3 * SIZE]
    assert between(0, 2 * SIZE) == [0, SIZE]
    assert between(SIZE, 2 * SIZE + 1) == [SIZE, 2 * SIZE]
    assert between(end, end) == [3 * SIZE]


# -- what a real broker wrote ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["basic", "v533", "propcrc", "rebuild-base"])
def test_a_walk_finds_the_records_and_blanks_of_a_real_log(golden: GoldenStores, name: str) -> None:
    manifest = golden.manifest(name)
    log = open_log(golden, name)
    scan = log.scan(0)
    found = walk(scan)
    assert found == [(row["phy"], row["size"]) for row in manifest["records"]]
    assert (scan.position, scan.end) == (manifest["lastRecordEnd"], ScanEnd.END_OF_DATA)
    ends = [place + size for place, size in found]
    begins = [place for place, _ in found[1:]]
    gaps = [(end, begin - end) for end, begin in zip(ends, begins, strict=False) if end != begin]
    assert gaps == [(row["phy"], row["size"]) for row in manifest["blanks"]]
    blanks = [log.read(place, min(size, 8)) for place, size in gaps]
    assert blanks == [SIZE_AND_MAGIC.pack(size, MAGIC_BLANK) for _, size in gaps]
    log.close()


def test_records_put_again_make_the_files_a_real_broker_wrote(
    golden: GoldenStores, tmp_path: Path
) -> None:
    """A batch that moved is recognised by its first record, which alone would have fitted."""
    source = open_log(golden, "basic")
    (tmp_path / "own").mkdir()
    target = CommitLog(QuickDisk(), tmp_path / "commitlog", source.file_size_bytes)
    rows = walk(source.scan(0))
    moved_count = 0
    while rows:
        count = 1
        left = -target.appended % target.file_size_bytes
        while rows[0][0] != target.appended and sum_of(rows[:count]) + 8 <= left:
            count += 1
        moved_count += count > 1
        if target.spare_base is not None:
            target.offer_spare(target.make_spare(tmp_path / "own", target.spare_base))
        assert target.place(sum_of(rows[:count])) == rows[0][0]
        target.write(rows[0][0], source.read(rows[0][0], sum_of(rows[:count])))
        del rows[:count]
    source.close()
    target.close()
    written = [
        path.read_bytes() for path in sorted((golden.store("basic") / "commitlog").iterdir())
    ]
    assert [path.read_bytes() for path in sorted((tmp_path / "commitlog").iterdir())] == written
    assert moved_count > 0


def sum_of(rows: list[tuple[int, int]]) -> int:
    return sum(size for _, size in rows)
