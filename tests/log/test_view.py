"""What holds for every view: it can be built again, in any pieces, and forgets on demand."""

from collections.abc import Callable, Iterator
from datetime import UTC
from pathlib import Path

import pytest

from broker.format.index_layout import STYLE_5_5, IndexGeometry
from broker.log.consume_queue_table import ConsumeQueueTable
from broker.log.hash_index import HashIndex
from broker.log.view import View
from broker.model.batch import Written
from broker.model.errors import DiskFull
from tests.fakes.golden_log import files_below
from tests.fakes.quick_disk import QuickDisk, full_disk
from tests.fakes.records import Records, batches, store_time


def queues(disk: QuickDisk, directory: Path) -> View:
    return ConsumeQueueTable(disk, directory, 100)


def index(disk: QuickDisk, directory: Path) -> View:
    return HashIndex(disk, directory, IndexGeometry(3, 6), style=STYLE_5_5, zone=UTC)


Make = Callable[[QuickDisk, Path], View]


@pytest.fixture(params=[queues, index])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes a view; all that were made are closed in the end."""
    made: list[View] = []

    def remember(disk: QuickDisk, directory: Path) -> View:
        made.append(request.param(disk, directory))
        return made[-1]

    yield remember
    for view in made:
        view.close()


def built(make: Make, directory: Path, *parts: list[Written]) -> dict[str, bytes]:
    view = make(QuickDisk(), directory)
    for part in parts:
        view.apply(part)
    return files_below(directory)


def test_a_view_has_a_name_and_begins_with_nothing(make: Make, tmp_path: Path) -> None:
    view = make(QuickDisk(), tmp_path)
    assert view.name
    assert view.durable_offset == 0
    view.apply(())
    view.flush()
    view.truncate(0, store_time)
    assert files_below(tmp_path) == {}


@pytest.mark.parametrize("size", [1, 4, 25])
def test_records_make_the_same_view_in_pieces_of_any_size(
    make: Make, tmp_path: Path, size: int
) -> None:
    entries = Records().take(25)
    pieces = built(make, tmp_path / "pieces", *batches(entries, size))
    assert pieces == built(make, tmp_path / "whole", entries)


def test_the_mark_lies_behind_every_applied_record_and_not_behind_the_next(
    make: Make, tmp_path: Path
) -> None:
    view = make(QuickDisk(), tmp_path)
    for found in Records().take(12):
        assert view.durable_offset <= found.begin
        view.apply([found])
        assert found.begin < view.durable_offset <= found.end


def test_records_from_the_mark_on_complete_a_view_that_was_closed(
    make: Make, tmp_path: Path
) -> None:
    entries = Records().take(25)
    view = make(QuickDisk(), tmp_path / "halves")
    view.apply(entries[:13])
    mark = view.durable_offset
    view.apply([found for found in entries if found.begin >= mark])
    assert files_below(tmp_path / "halves") == built(make, tmp_path / "whole", entries)


def test_records_before_the_last_one_change_nothing_when_they_come_again(
    make: Make, tmp_path: Path
) -> None:
    entries = Records().take(12)
    once = built(make, tmp_path / "once", entries)
    assert built(make, tmp_path / "again", entries, entries[:11], entries[3:5]) == once


@pytest.mark.parametrize("call", ["make_sparse_file", "allocate"])
@pytest.mark.parametrize("skip", [0, 1, 2])
def test_applying_nothing_goes_on_where_a_full_disk_stopped(
    make: Make, tmp_path: Path, call: str, skip: int
) -> None:
    disk, entries = QuickDisk(), Records().take(25)
    view = make(disk, tmp_path / "full")
    disk.fail(call, full_disk(), skip=skip)
    with pytest.raises(DiskFull):
        view.apply(entries)
    view.apply(())
    assert files_below(tmp_path / "full") == built(make, tmp_path / "whole", entries)


@pytest.mark.parametrize("kept", [0, 1, 5, 6, 24, 25])
def test_a_cut_view_is_the_one_of_that_time(make: Make, tmp_path: Path, kept: int) -> None:
    entries = Records().take(25)
    view = make(QuickDisk(), tmp_path / "cut")
    view.apply(entries)
    view.truncate(100 * kept, store_time)
    assert files_below(tmp_path / "cut") == built(make, tmp_path / "then", entries[:kept])
    view.apply(entries[kept:])
    assert files_below(tmp_path / "cut") == built(make, tmp_path / "whole", entries)


def test_a_flush_syncs_every_file_once(make: Make, tmp_path: Path) -> None:
    disk = QuickDisk()
    view = make(disk, tmp_path)
    view.apply(Records().take(25))
    disk.calls.clear()
    view.flush()
    view.flush()
    assert len(disk.calls["sync"]) == len(files_below(tmp_path))
