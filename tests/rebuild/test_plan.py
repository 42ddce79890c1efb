"""The files of a log, their faults by name, and the ranges they are cut into."""

from pathlib import Path

import pytest

from pocketmq.model.errors import NotAStore, StoreGap, WrongFileSize
from pocketmq.rebuild import plan
from pocketmq.rebuild.log_files import find_log_files, records_end
from pocketmq.rebuild.plan import Range, cut_points, map_here, plan_ranges
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import EVERYTHING, LogBytes, golden_files


def log_of_seventy(tmp_path: Path) -> LogBytes:
    log = LogBytes(tmp_path / "s", 4096)
    for number in range(70):
        log.add(queue_offset=number, body=b"x" * (number % 9 * 11))
    return log.close()


def test_many_files_are_ranges_as_they_are(tmp_path: Path) -> None:
    log = log_of_seventy(tmp_path)
    ranges = plan_ranges(log.found(), EVERYTHING, map_here, workers=1)
    assert [(part.begin, part.end) for part in ranges] == [
        (file.base, file.end) for file in log.found()
    ]
    assert ranges[1].name == f"{4096:020d}"


@pytest.mark.parametrize(
    ("workers", "count", "is_cut"),
    [(1, 1, False), (2, 1, True), (2, 2, False), (2, 3, False), (4, 5, True), (4, 6, False)],
)
def test_files_are_cut_where_workers_would_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, count: int, is_cut: bool
) -> None:
    """To find where to cut is a pass over the log: it must be worth it."""
    monkeypatch.setattr(plan, "PIECE_SIZE_MIN", 1)
    log = LogBytes(tmp_path / "s", 512)
    for number in range(30):
        log.add(queue_offset=number)
    files = log.close().found()[:count]
    assert len(files) == count
    ranges = plan_ranges(files, EVERYTHING, map_here, workers=workers)
    assert (len(ranges) > count) == is_cut


@pytest.mark.parametrize("piece_size", [1, 100, 700, 4095])
def test_pieces_begin_at_records_and_leave_nothing_out(tmp_path: Path, piece_size: int) -> None:
    log = log_of_seventy(tmp_path)
    ranges = plan_ranges(log.found(), EVERYTHING, map_here, workers=1, piece_size=piece_size)
    begins = [part.begin for part in ranges]
    assert set(begins) <= set(log.places)
    assert [part.end for part in ranges] == [*begins[1:], log.found()[-1].end]
    for part in ranges:
        assert part.begin in (
            part.file.base,
            *cut_points((Range(part.file, part.file.base, EVERYTHING), piece_size)),
        )
    if piece_size == 1:
        assert begins == log.places


def test_nothing_begins_at_or_behind_the_limit(tmp_path: Path) -> None:
    log = log_of_seventy(tmp_path)
    upto = log.places[40]
    ranges = plan_ranges(log.found(), upto, map_here, workers=1, piece_size=300)
    assert ranges[-1].end == upto
    assert all(part.begin < upto for part in ranges)


def test_behind_damage_nothing_is_cut(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s", 4096)
    for number in range(20):
        log.add(queue_offset=number)
    log.damage(log.places[9] + 4, b"\0")
    (file,) = log.close().found()
    points = cut_points((Range(file, file.base, EVERYTHING), 200))
    assert points
    assert max(points) < log.places[9]


def log_of(tmp_path: Path) -> LogBytes:
    log = LogBytes(tmp_path / "s", 1024, base=2048)
    for number in range(40):
        log.add(queue_offset=number)
    return log.close()


def test_files_come_in_order(tmp_path: Path) -> None:
    """An empty last file and directories are passed over; the oldest files may be gone."""
    log = log_of(tmp_path)
    bases = range(2048, 2048 + 1024 * len(log.files), 1024)
    (log.store / "commitlog/00000000000000090000").touch()
    (log.store / "commitlog/lost").mkdir()
    assert [(file.base, file.end) for file in log.found()] == [(n, n + 1024) for n in bases]
    for base in bases[:2]:
        (log.store / f"commitlog/{base:020d}").unlink()
    assert log.found()[0].base == 4096
    assert find_log_files(tmp_path / "none", 1024) == []


def test_what_does_not_belong_is_named(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    directory = log.store / "commitlog"
    with pytest.raises(WrongFileSize, match="mappedFileSizeCommitLog"):
        find_log_files(log.store, 4096)
    (directory / "00000000000000003072").rename(tmp_path / "away")
    with pytest.raises(StoreGap, match="00000000000000004096"):
        log.found()
    (directory / "note.txt").write_text("")
    (tmp_path / "away").rename(directory / "00000000000000003072")
    with pytest.raises(NotAStore, match=r"note\.txt"):
        log.found()


def test_a_file_cut_short_or_empty_in_the_middle_is_named(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    third = log.store / "commitlog/00000000000000004096"
    for size in (0, 1023, 1025):
        with third.open("r+b") as file:
            file.truncate(size)
        with pytest.raises(WrongFileSize, match=f"{third.name} has {size} bytes"):
            log.found()


def test_an_offset_of_more_than_twenty_digits(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s", 1024, base=10**20)
    log.roll()
    log.close()
    assert [file.base for file in log.found()] == [10**20, 10**20 + 1024]


@pytest.mark.parametrize(
    "name", ["0", "-0000000000000001024", "00000000000000001024.bak", ".hidden"]
)
def test_foreign_names(tmp_path: Path, name: str) -> None:
    log = log_of(tmp_path)
    (log.store / "commitlog" / name).write_bytes(bytes(1024))
    with pytest.raises(NotAStore, match="not a file of the store"):
        log.found()


def test_where_the_records_end(golden: GoldenStores) -> None:
    end = golden.manifest("basic")["lastRecordEnd"]
    assert records_end(golden_files(golden, "basic")) == end
    assert records_end(golden_files(golden, "basic"), end) == end
    assert records_end([]) == 0
