"""Ends taken from a table: nothing is read, others' files are noticed, leftovers go in time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.files.mapped_file import ColdRead
from broker.format.consume_unit import UNIT_SIZE
from broker.log.consume_queue import ConsumeQueue
from broker.log.queue_ends import QueueEnd
from broker.model.errors import Corruption
from tests.fakes.quick_disk import QuickDisk
from tests.fakes.records import entry

UNITS = 5
SIZE = UNITS * UNIT_SIZE


class Adopted:
    """A queue of so many records of 100 bytes, begun anew from its end."""

    def __init__(self, directory: Path, count: int, *, first: int = 0) -> None:
        self.directory = directory
        self.disk = QuickDisk()
        self.queue = self._anew()
        self.put(count, first=first)
        self.end = self.queue.end()

    def _anew(self) -> ConsumeQueue:
        return ConsumeQueue(self.disk, self.directory, SIZE, topic="T", queue_id=0)

    def put(self, count: int, *, first: int = 0) -> None:
        begin = max(self.queue.max_offset, first)
        places = range(begin, begin + count)
        self.queue.put_all([entry(100 * place + 100, queue_offset=place) for place in places])

    def again(self) -> bool:
        """Begin anew with the end of before; returns whether it was taken."""
        self.queue.files.close()
        self.queue = self._anew()
        return self.queue.adopt(self.end)

    def path(self, number: int) -> Path:
        return self.directory / f"{number * SIZE:020d}"

    @property
    def places(self) -> list[int]:
        units = [self.queue.units.at(number) for number in range(self.queue.max_offset)]
        return [unit[0] // 100 - 1 for unit in units if unit is not None]

    @property
    def loaded(self) -> ConsumeQueue:
        """The queue as a start finds it that reads its files."""
        queue = self._anew()
        queue.load()
        queue.correct_min(0)
        queue.files.close()
        return queue

    def close(self) -> None:
        self.queue.files.close()


@pytest.fixture(params=[1, UNITS, UNITS + 1, 3 * UNITS])
def adopted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Adopted]:
    made = Adopted(tmp_path / "0", request.param)
    yield made
    made.close()


def test_an_end_is_what_a_start_would_find(adopted: Adopted) -> None:
    assert adopted.again()
    queue, loaded = adopted.queue, adopted.loaded
    assert queue.end() == loaded.end() == adopted.end
    assert queue.flushed == loaded.flushed
    assert queue.dirty_files() == []


def test_nothing_is_opened_for_it(adopted: Adopted) -> None:
    assert adopted.again()
    adopted.queue.correct_min(0)
    assert not any(file.is_open for file in adopted.queue.files.files)
    count = adopted.queue.max_offset
    assert adopted.places == list(range(count))


def test_it_goes_on_behind_its_end(adopted: Adopted) -> None:
    count = adopted.queue.max_offset
    assert adopted.again()
    adopted.put(2 * UNITS)
    assert adopted.places == list(range(count + 2 * UNITS))


def test_the_first_message_is_known_behind_pre_blank_units(tmp_path: Path) -> None:
    adopted = Adopted(tmp_path / "0", 2, first=7)
    assert adopted.end == QueueEnd(SIZE, 9 * UNIT_SIZE, 1_000, 7, 800)
    assert adopted.again()
    assert adopted.queue.min_offset == 7
    adopted.close()


# -- files of another kind -------------------------------------------------------------------------


def test_without_its_last_file_it_is_to_be_loaded(adopted: Adopted) -> None:
    [*adopted.directory.iterdir()][-1].unlink()
    adopted.path(len(adopted.queue.files.files) - 1).unlink(missing_ok=True)
    assert not adopted.again()
    assert adopted.queue.files.files == []


def test_with_a_last_file_cut_short_too(adopted: Adopted) -> None:
    path = adopted.path(len(adopted.queue.files.files) - 1)
    path.write_bytes(path.read_bytes()[:-1])
    assert not adopted.again()


def test_and_when_retention_has_taken_its_first_file(tmp_path: Path) -> None:
    adopted = Adopted(tmp_path / "0", 2 * UNITS)
    adopted.path(0).unlink()
    assert not adopted.again()
    adopted.close()


@pytest.mark.parametrize("end", [QueueEnd(0, 0, 100, 0, 0), QueueEnd(0, 20, 0, 0, 0)])
def test_a_queue_without_a_message_has_no_end(tmp_path: Path, end: QueueEnd) -> None:
    adopted = Adopted(tmp_path / "0", 1)
    adopted.end = end
    assert not adopted.again()
    adopted.close()


# -- what a crash left -----------------------------------------------------------------------------


@pytest.mark.parametrize("more", [1, UNITS, 3 * UNITS])
def test_what_lies_behind_goes(adopted: Adopted, more: int) -> None:
    adopted.put(more)
    assert adopted.again()
    queue = adopted.queue
    assert [queue.is_doubtful, queue.settle(), queue.is_doubtful] == [True, True, False]
    assert not queue.settle()
    assert adopted.loaded.end() == adopted.end


def test_where_nothing_lies_nothing_is_done(adopted: Adopted) -> None:
    assert adopted.again()
    assert not adopted.queue.settle()


@pytest.mark.parametrize("more", [1, UNITS, 3 * UNITS])
def test_units_written_anew_meet_what_is_left(adopted: Adopted, more: int) -> None:
    adopted.put(3 * UNITS)
    assert adopted.again()
    adopted.put(more)
    adopted.queue.settle()
    count = adopted.end.end // UNIT_SIZE + more
    assert adopted.places == list(range(count))
    assert adopted.loaded.max_offset == count


def test_a_cut_takes_what_is_left_with_it(tmp_path: Path) -> None:
    adopted = Adopted(tmp_path / "0", 2 * UNITS)
    adopted.put(UNITS)
    assert adopted.again()
    adopted.queue.truncate(400)
    assert not adopted.queue.is_doubtful
    assert adopted.places == [0, 1, 2]
    assert adopted.loaded.max_offset == 3
    adopted.close()


def test_a_last_unit_that_leads_elsewhere_is_told(adopted: Adopted) -> None:
    adopted.end = adopted.end._replace(max_physical_offset=adopted.end.max_physical_offset + 100)
    assert adopted.again()
    with pytest.raises(Corruption, match=r"/0/\d{20} is damaged at byte \d+"):
        adopted.queue.settle()
    assert adopted.queue.is_doubtful


def test_what_nobody_has_read_is_read_without_waiting(adopted: Adopted) -> None:
    count = adopted.queue.max_offset
    assert adopted.again()
    adopted.put(1)
    adopted.disk.drop_resident()
    with pytest.raises(ColdRead):
        adopted.queue.units.read_resident(count - 1, 1)
    assert adopted.queue.units.read_resident(count, 1)
