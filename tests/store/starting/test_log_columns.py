"""The log by column: the same records, the same end for the same reason as one by one."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from broker.format.names import COMMIT_LOG_DIRECTORY
from broker.log.commit_log import CommitLog, LogScan
from broker.model.results import ScanEnd
from broker.store.starting.log_columns import LogColumns, Piece
from tests.fakes.log_bytes import LogBytes
from tests.fakes.odd_records import records
from tests.fakes.quick_disk import QuickDisk

PIECES = [64, 119, 120, 300, 1 << 20]
FOREVER = 2**63


def opened(log: LogBytes) -> CommitLog:
    made = CommitLog(QuickDisk(), log.store / COMMIT_LOG_DIRECTORY, log.file_size)
    made.load(read_only=True)
    return made


def ended(scan: LogScan) -> tuple[int, ScanEnd, str, str]:
    return scan.position, scan.end, scan.reason, scan.path


def walked(
    log: CommitLog, begin: int, upper: int = FOREVER, *, crc: bool, piece_size: int
) -> tuple[list[int], tuple[int, ScanEnd, str, str]]:
    """Where the records lie that a walk yields, and how it ends."""
    columns = LogColumns(log, QuickDisk(), begin, upper, crc=crc, piece_size=piece_size)
    found: list[int] = []
    for step in columns:
        if isinstance(step, Piece):
            found += step.heads.physical_offset.tolist()
            assert step.end == found[-1] + int(step.heads.size[-1])
        else:
            found.append(step[0])
    return found, ended(columns.scan)


def scanned(
    log: CommitLog, begin: int, upper: int = FOREVER, *, crc: bool
) -> tuple[list[int], tuple[int, ScanEnd, str, str]]:
    scan = log.scan(begin, upper, crc=crc)
    return [place for place, _, _, _ in scan], ended(scan)


def log_of(tmp_path: Path, count: int = 30, file_size: int = 1_024) -> LogBytes:
    log = LogBytes(tmp_path / "s", file_size)
    for number in range(count):
        log.add(queue_offset=number, body=b"x" * (number % 5 * 37), keys="k")
    return log


@pytest.mark.parametrize("piece_size", PIECES)
@pytest.mark.parametrize("first", [0, 3, 17])
def test_every_record_comes_once(tmp_path: Path, piece_size: int, first: int) -> None:
    log = log_of(tmp_path).close()
    found, end = walked(opened(log), log.places[first], crc=True, piece_size=piece_size)
    assert found == log.places[first:]
    assert end == (log.end, ScanEnd.END_OF_DATA, "", end[3])


@pytest.mark.parametrize("upper", [0, 1, 4, 29])
def test_a_walk_ends_where_it_is_told_to(tmp_path: Path, upper: int) -> None:
    log = log_of(tmp_path).close()
    found, _ = walked(opened(log), 0, log.places[upper], crc=False, piece_size=300)
    assert found == log.places[:upper]


def test_large_pieces_are_read_by_column_alone(tmp_path: Path) -> None:
    log = log_of(tmp_path, 400, 200_000).close()
    steps = [*LogColumns(opened(log), QuickDisk(), 0)]
    assert [type(step) for step in steps] == [Piece]


def test_what_is_not_worth_the_columns_is_read_one_by_one(tmp_path: Path) -> None:
    log = log_of(tmp_path).close()
    steps = [*LogColumns(opened(log), QuickDisk(), 0)]
    assert not any(isinstance(step, Piece) for step in steps)
    assert len(steps) == 30


@settings(max_examples=60, deadline=None)
@given(
    fields=records,
    flip=some.tuples(some.floats(0, 1), some.integers(0, 255)),
    piece_size=some.sampled_from(PIECES),
    crc=some.booleans(),
)
def test_damage_ends_both_walks_alike(
    fields: list[dict[str, Any]], flip: tuple[float, int], piece_size: int, crc: bool
) -> None:
    with TemporaryDirectory() as directory:
        log = LogBytes(Path(directory) / "s", 2_048)
        for one in fields:
            log.add(**one)
        log.damage(int(flip[0] * log.end), bytes([flip[1]]))
        made = opened(log.close())
        expected = scanned(made, 0, crc=crc)
        assert walked(made, 0, crc=crc, piece_size=piece_size) == expected
        made.close()
