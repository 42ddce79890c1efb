"""Units that wait in memory: read like those in files, written many at once, never too many."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from pocketmq.format.consume_unit import UNIT, UNIT_SIZE
from pocketmq.log.consume_queue_table import ConsumeQueueTable
from pocketmq.log.unit_buffer import ALL_BYTES_MAX, UNITS_BYTES_MAX
from pocketmq.model.batch import Written
from pocketmq.model.errors import DiskFull
from tests.kit.golden_log import files_below
from tests.kit.records import entry
from tests.sim.quick_disk import QuickDisk, full_disk

SIZE = 1_000 * UNIT_SIZE


class Table:
    """A table of queues that are told of a record each, as often as wanted."""

    def __init__(self, directory: Path, file_size: int = SIZE) -> None:
        self.directory = directory
        self.disk = QuickDisk()
        self.queues = ConsumeQueueTable(self.disk, directory, file_size)
        self.place = 0
        self.counts: dict[int, int] = {}

    def run(self, queue_id: int, count: int = 1) -> Written:
        offset = self.counts.get(queue_id, 0)
        made = entry(self.place, queue_id=queue_id, queue_offset=offset, count=count)
        self.counts[queue_id] = offset + count
        self.place = made.end
        return made

    def tell(self, queue_id: int, count: int = 1) -> None:
        self.queues.apply([self.run(queue_id, count)])

    def waiting(self, queue_id: int) -> int:
        """Units of a queue that are in no file yet."""
        queue = self.queues.queues["T", queue_id]
        return queue.max_offset - queue.files.max_offset // UNIT_SIZE

    def offsets(self, queue_id: int) -> list[int]:
        """The physical offsets its units lead to, all read at once."""
        queue = self.queues.queues["T", queue_id]
        return [unit[0] for unit in UNIT.iter_unpack(queue.units.read(0, queue.max_offset))]


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    """One whose queue 0 has two records in its file, and takes more."""
    made = Table(tmp_path / "q")
    made.tell(0)
    made.tell(0)
    assert not made.waiting(0)
    yield made
    made.queues.close()


def test_units_that_wait_are_read_at_once(table: Table) -> None:
    for _ in range(3):
        table.tell(0)
    queue = table.queues.queues["T", 0]
    assert table.waiting(0) == 3
    assert queue.max_offset == 5
    assert queue.max_physical_offset == table.queues.durable_offset == 500
    assert table.offsets(0) == [0, 100, 200, 300, 400]
    assert [queue.units.at(offset) for offset in (1, 2, 4, 5)] == [
        (100, 100, 0), (200, 100, 0), (400, 100, 0), None,
    ]  # fmt: skip
    assert queue.units.resident_at(3) == (300, 100, 0)
    assert queue.units.read_resident(1, 2) == UNIT.pack(100, 100, 0) + UNIT.pack(200, 100, 0)
    assert queue.units.read(7, 2) == b""
    assert [queue.units.first_at_or_behind(place) for place in (150, 301, 401)] == [2, 4, 5]
    assert queue.end_below(350) == 400


def test_what_waits_is_written_by_one_call(table: Table) -> None:
    for _ in range(50):
        table.tell(0)
    before = len(table.disk.calls["write_at"])
    assert table.waiting(0) == 50
    table.queues.flush()
    assert len(table.disk.calls["write_at"]) == before + 1
    assert not table.waiting(0)
    assert table.offsets(0) == list(range(0, 5_200, 100))


def test_a_queue_waits_with_a_page_at_most(table: Table) -> None:
    most = UNITS_BYTES_MAX // UNIT_SIZE
    for _ in range(most):
        table.tell(0)
    assert table.waiting(0) == most
    table.tell(0)
    assert not table.waiting(0)
    table.tell(0, count=most + 1)
    assert not table.waiting(0)
    assert len(table.offsets(0)) == 2 * most + 4


def test_a_full_file_is_followed_by_another(tmp_path: Path) -> None:
    table = Table(tmp_path, 5 * UNIT_SIZE)
    for _ in range(12):
        table.tell(0)
    assert len(table.queues.queues["T", 0].files.files) == 3
    assert table.offsets(0) == list(range(0, 1_200, 100))
    table.queues.close()


def test_those_that_wait_longest_are_written_when_too_much_waits(tmp_path: Path) -> None:
    table = Table(tmp_path)
    each = UNITS_BYTES_MAX // UNIT_SIZE
    fitting = ALL_BYTES_MAX // (each * UNIT_SIZE)
    for queue_id in range(fitting + 3):
        table.tell(queue_id)
        table.tell(queue_id)
        table.tell(queue_id, count=each)
    waiting = [queue_id for queue_id in table.counts if table.waiting(queue_id)]
    assert waiting == list(range(3, fitting + 3))
    table.queues.close()


def test_a_crash_leaves_units_in_files_only(table: Table) -> None:
    table.tell(0)
    table.queues.flush()
    table.tell(0)
    found = ConsumeQueueTable(QuickDisk(), table.directory, SIZE)
    found.load(read_only=True)
    assert found.queues["T", 0].max_offset == 3
    found.close()


def test_of_a_queue_that_is_removed_nothing_is_written(table: Table) -> None:
    table.tell(0)
    table.queues.remove({("T", 0)})
    table.queues.flush()
    assert files_below(table.directory) == {}
    table.counts[0] = 0
    table.tell(0)
    assert table.offsets(0) == [300]


def test_without_room_units_wait_on(table: Table) -> None:
    table.tell(0)
    table.disk.fail("write_at", full_disk())
    with pytest.raises(DiskFull):
        table.queues.flush()
    assert table.offsets(0) == [0, 100, 200]
    table.tell(0)
    table.queues.flush()
    assert table.offsets(0) == [0, 100, 200, 300]


@settings(max_examples=60)
@given(
    steps=some.lists(
        some.one_of(
            some.tuples(some.integers(0, 3), some.integers(1, 4)),
            some.sampled_from(["flush", "cut", "reopen"]),
        ),
        max_size=40,
    ),
    at_once=some.integers(1, 5),
)
def test_what_waits_makes_no_difference(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int] | str], at_once: int
) -> None:
    table = Table(tmp_path_factory.mktemp("q"), 7 * UNIT_SIZE)
    wanted: dict[int, list[int]] = {}
    runs: list[Written] = []

    def apply() -> None:
        table.queues.apply(runs)
        runs.clear()

    for step in steps:
        if isinstance(step, tuple):
            run = table.run(*step)
            wanted.setdefault(step[0], []).extend(run.physical_offsets)
            runs.append(run)
            if len(runs) < at_once:
                continue
        apply()
        if step == "flush":
            table.queues.flush()
        elif step == "cut":
            cut = table.place // 200 * 100
            table.queues.truncate(cut, lambda _: 0)
            wanted = {key: [p for p in places if p < cut] for key, places in wanted.items()}
            wanted = {key: places for key, places in wanted.items() if places}
            table.counts = {key: len(places) for key, places in wanted.items()}
        elif step == "reopen":
            table.queues.close()
            table.queues = ConsumeQueueTable(table.disk, table.directory, 7 * UNIT_SIZE)
            table.queues.load()
        assert {key[1]: table.offsets(key[1]) for key in table.queues.queues} == wanted
    apply()
    table.queues.close()
    again = Table(table.directory, 7 * UNIT_SIZE)
    again.queues.load()
    assert {key[1]: again.offsets(key[1]) for key in again.queues.queues} == wanted
    again.queues.close()
