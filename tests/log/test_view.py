"""Contract of every view: it can be built again, in any pieces, and forgets on demand."""

from collections.abc import Callable, Iterator
from datetime import UTC
from pathlib import Path

import pytest

from pocketmq.format.index_layout import STYLE_5_5, IndexGeometry
from pocketmq.log.consume_queue_table import ConsumeQueueTable
from pocketmq.log.hash_index import HashIndex
from pocketmq.log.view import View
from pocketmq.model.errors import DiskFull
from tests.kit.golden_log import files_below
from tests.kit.records import batches, entry, joined, made_ahead, store_time
from tests.kit.records import of_three_queues as records
from tests.sim.quick_disk import QuickDisk, full_disk


def queues(disk: QuickDisk, directory: Path) -> ConsumeQueueTable:
    return ConsumeQueueTable(disk, directory, 100)


def index(disk: QuickDisk, directory: Path) -> HashIndex:
    return HashIndex(disk, directory, IndexGeometry(4, 6), style=STYLE_5_5, zone=UTC)


class Kit:
    """One kind of view in directories of its own.

    view = kit.view("a"); view.apply(records(9)); assert kit.files("a") == kit.built(9)
    """

    def __init__(
        self, make: Callable[[QuickDisk, Path], ConsumeQueueTable | HashIndex], directory: Path
    ) -> None:
        self.make = make
        self.directory = directory
        self.disk = QuickDisk()
        self.open: list[View] = []
        self.built_count = 0

    def view(self, name: str = "view", *, is_loaded: bool = False) -> ConsumeQueueTable | HashIndex:
        made = self.make(self.disk, self.directory / name)
        if is_loaded:
            made.load()
        self.open.append(made)
        return made

    def files(self, name: str = "view") -> dict[str, bytes]:
        for view in self.open:
            view.flush()
        return files_below(self.directory / name)

    def built(self, count: int) -> dict[str, bytes]:
        """The files of a view to which so many records were applied in one go."""
        self.built_count += 1
        view = self.make(QuickDisk(), self.directory / f"built {self.built_count}")
        view.apply(records(count))
        view.close()
        return self.files(f"built {self.built_count}")


@pytest.fixture(params=[queues, index])
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kit]:
    made = Kit(request.param, tmp_path)
    yield made
    for view in made.open:
        view.close()


def test_a_view_has_a_name_and_begins_with_nothing(kit: Kit) -> None:
    for is_loaded in (False, True):
        view = kit.view(is_loaded=is_loaded)
        assert view.name
        assert view.durable_offset == 0
        view.apply(())
        view.flush()
        view.truncate(0, store_time)
        assert kit.files() == {}


@pytest.mark.parametrize("size", [1, 4, 25])
def test_records_make_the_same_view_in_pieces_of_any_size(kit: Kit, size: int) -> None:
    view = kit.view()
    for part in batches(records(25), size):
        view.apply(part)
    assert kit.files() == kit.built(25)


def test_the_mark_lies_behind_every_applied_record_and_not_behind_the_next(kit: Kit) -> None:
    view = kit.view()
    for found in records(12):
        assert view.durable_offset <= found.begin
        view.apply([found])
        assert found.begin < view.durable_offset <= found.end


@pytest.mark.parametrize("is_closed", [False, True])
def test_records_from_the_mark_on_complete_a_view(kit: Kit, is_closed: bool) -> None:
    view = kit.view()
    view.apply(records(13))
    mark = view.durable_offset
    if is_closed:
        view.close()
        view = kit.view(is_loaded=True)
        assert view.durable_offset == mark
    view.apply([found for found in records(25) if found.begin >= mark])
    assert kit.files() == kit.built(25)


def test_records_before_the_last_one_change_nothing_when_they_come_again(kit: Kit) -> None:
    view = kit.view()
    for part in (records(12), records(11), records(12)[3:5], []):
        view.apply(part)
    assert kit.files() == kit.built(12)


@pytest.mark.parametrize("call", ["make_sparse_file", "allocate"])
@pytest.mark.parametrize("skip", range(5))
@pytest.mark.parametrize("later", [0, 8], ids=["nothing comes next", "more comes next"])
def test_what_a_full_disk_held_back_goes_before_what_comes_next(
    kit: Kit, call: str, skip: int, later: int
) -> None:
    view = kit.view()
    kit.disk.fail(call, full_disk(), skip=skip)
    with pytest.raises(DiskFull):
        view.apply(records(25 - later))
    kit.disk.fail(call, full_disk())
    with pytest.raises(DiskFull):
        view.apply(())
    view.apply(records(25)[25 - later :])
    assert kit.files() == kit.built(25)


def test_what_was_held_back_is_forgotten_by_a_cut(kit: Kit) -> None:
    view = kit.view()
    view.apply(records(3))
    kit.disk.fail("make_sparse_file", full_disk())
    with pytest.raises(DiskFull):
        view.apply([entry(300, topic="V", keys="a b c d e f g", time_ms=store_time(300))])
    view.truncate(300, store_time)
    view.apply(())
    assert kit.files() == kit.built(3)


@pytest.mark.parametrize("place", [0, 1, 100, 101, 450, 500, 600, 1550, 2400, 2499, 2500, 9000])
def test_a_cut_view_is_the_one_of_that_time(kit: Kit, place: int) -> None:
    view, kept = kit.view(), min((place + 99) // 100, 25)
    view.apply(records(25))
    view.truncate(place, store_time)
    assert kit.files() == kit.built(kept)
    view.apply(records(25)[kept:])
    assert kit.files() == kit.built(25)


def test_a_flush_syncs_every_file_that_changed_once(kit: Kit) -> None:
    view = kit.view()
    view.apply(records(24))
    kit.disk.calls.clear()
    count = len(kit.files())
    for _ in range(2):
        view.flush()
        assert len(kit.disk.calls["sync"]) == count
    view.apply(records(25)[24:])
    view.flush()
    assert len(kit.disk.calls["sync"]) == count + 1


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("is_all", [True, False])
def test_what_writing_made_ahead_makes_the_same_files(kit: Kit, size: int, is_all: bool) -> None:
    view = kit.view()
    for number, batch in enumerate(batches(joined(records(60)), size)):
        ahead = [
            made_ahead(run, STYLE_5_5) if is_all or (number + place) % 2 else run
            for place, run in enumerate(batch)
        ]
        view.apply(ahead)
    assert kit.files() == kit.built(60)


def test_of_what_was_made_ahead_only_the_unknown_is_taken(kit: Kit) -> None:
    view, other = kit.view(), kit.view("texts")
    run = entry(0, keys="a b", count=9)
    for taken in (entry(0, keys="a b", count=4), run.behind(2), run.behind(8)):
        view.apply([made_ahead(taken, STYLE_5_5)])
        other.apply([taken])
    for begin in (2, 8):
        view.apply([made_ahead(run, STYLE_5_5).behind(begin)])
        other.apply([run.behind(begin)])
    assert kit.files() == kit.files("texts")
