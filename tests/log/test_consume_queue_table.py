"""All queues of a store: each record goes to its queue; the files are RocketMQ's to the byte."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from pocketmq.files.disk import Disk
from pocketmq.format.columns.units import UNIT_TYPE
from pocketmq.format.consume_unit import UNIT, UNIT_SIZE
from pocketmq.log.consume_queue_table import FILES_APART_MAX, ConsumeQueueTable
from pocketmq.log.queue_extension import NO_EXTENSION, ExtensionFiles
from pocketmq.model.batch import Written
from pocketmq.model.errors import WrongFileSize
from pocketmq.model.message import (
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    QueueKey,
)
from pocketmq.model.topic import QUARANTINE_TOPIC
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import files_below, golden_entries
from tests.kit.records import Records, batches, columns_of, entry, of_three_queues, store_time
from tests.sim.quick_disk import QuickDisk

SIZE = 5 * UNIT_SIZE


class Queues:
    """The queues of a store in a directory of its own, with files of five units.

    queues.apply(entry(0), entry(100, topic="U")); assert queues.reopen() == {("T", 0): [0], …}
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.disk = QuickDisk()
        self.table = ConsumeQueueTable(self.disk, directory, SIZE)

    def apply(self, *entries: Written) -> None:
        self.table.apply(entries)

    def anew(self, extension: ExtensionFiles = NO_EXTENSION) -> ConsumeQueueTable:
        self.table.close()
        self.table = ConsumeQueueTable(self.disk, self.directory, SIZE, None, extension)
        return self.table

    def reopen(self, *, read_only: bool = False) -> dict[QueueKey, list[int]]:
        self.anew().load(read_only=read_only)
        return self.places

    @property
    def places(self) -> dict[QueueKey, list[int]]:
        """Where the units of each queue lead to."""
        found = {}
        for key, queue in self.table.queues.items():
            units = [queue.units.at(queue_offset) for queue_offset in range(queue.max_offset)]
            found[key] = [unit[0] for unit in units if unit is not None]
        return found


@pytest.fixture
def queues(tmp_path: Path) -> Iterator[Queues]:
    made = Queues(tmp_path / "consumequeue")
    yield made
    made.table.close()


def places_of(count: int) -> dict[QueueKey, list[int]]:
    places: dict[QueueKey, list[int]] = {}
    for found in of_three_queues(count):
        places.setdefault(found.destination.queue, []).append(found.begin)
    return places


# -- applying --------------------------------------------------------------------------------------


def test_each_record_goes_to_its_queue(queues: Queues) -> None:
    queues.apply(*of_three_queues(20))
    assert queues.places == places_of(20)
    assert sorted(files_below(queues.directory)) == [
        f"{topic}/{queue_id}/{base:020d}"
        for topic, queue_id in [("T", 0), ("T", 1), ("U", 0)]
        for base in (0, SIZE)
    ]


def test_queues_come_into_being_with_their_first_record(queues: Queues) -> None:
    assert queues.table.find("T", 0) is None
    queues.apply(entry(0))
    found = queues.table.find("T", 0)
    assert found is not None
    assert (found.topic, found.queue_id, found.max_offset) == ("T", 0, 1)
    assert queues.table.find("T", 1) is None


@pytest.mark.parametrize(
    ("transaction", "has_unit"),
    [(TRANSACTION_COMMIT, True), (TRANSACTION_PREPARED, False), (TRANSACTION_ROLLBACK, False)],
)
def test_prepared_and_rolled_back_records_have_no_unit(
    queues: Queues, transaction: int, has_unit: bool
) -> None:
    queues.apply(entry(0, transaction=transaction))
    assert queues.places == ({("T", 0): [0]} if has_unit else {})


def test_a_quarantine_record_tells_where_messages_are_lost(queues: Queues) -> None:
    taken_out = entry(100, 300, topic=QUARANTINE_TOPIC, transaction=TRANSACTION_ROLLBACK)
    queues.apply(entry(0))
    queues.apply(taken_out, entry(400, queue_offset=3))
    queues.apply(taken_out, entry(500, topic="U"), entry(600, topic="U", queue_offset=2))
    assert queues.places == {("T", 0): [0, 0, 0, 400], ("U", 0): [500, 600]}


def test_the_mark_is_the_end_of_the_last_record_with_a_unit(queues: Queues) -> None:
    assert queues.table.durable_offset == 0
    queues.apply(entry(0, 100), entry(100, 120, topic="U"))
    queues.apply(entry(220, 100, topic="V", transaction=TRANSACTION_PREPARED))
    assert queues.table.durable_offset == 220


def test_a_topic_that_would_lead_elsewhere_has_no_queue(queues: Queues, tmp_path: Path) -> None:
    queues.apply(entry(0, topic="../T"))
    assert files_below(tmp_path) == {}


# -- starting again --------------------------------------------------------------------------------


def test_what_is_no_topic_or_no_queue_is_passed_over(queues: Queues) -> None:
    queues.apply(*of_three_queues(3))
    assert queues.reopen(read_only=True) == places_of(3)
    for name in ("lost+found", "no.topic", "T/x", "T/-1", "T/1.5", "empty", "U/7"):
        (queues.directory / name).mkdir()
    (queues.directory / "README").write_text("not a topic")
    (queues.directory / "T" / "77").write_text("not a queue")
    assert queues.reopen() == places_of(3)
    queues.apply(entry(300, topic="U", queue_offset=1))
    assert queues.table.durable_offset == 400


def test_a_file_of_another_length_is_refused(queues: Queues) -> None:
    queues.apply(*of_three_queues(20))
    path = queues.directory / "T" / "1" / f"{0:020d}"
    path.write_bytes(path.read_bytes() + b"\0" * UNIT_SIZE)
    with pytest.raises(WrongFileSize, match="mappedFileSizeConsumeQueue"):
        queues.reopen()


def test_a_queue_that_misses_a_file_in_the_middle_is_named_and_built_again(queues: Queues) -> None:
    entries = of_three_queues(60)
    queues.apply(*entries)
    before = files_below(queues.directory)
    (queues.directory / "T" / "1" / f"{SIZE:020d}").unlink()
    queues.reopen()
    assert queues.table.damaged == {("T", 1)}
    queues.table.remove(queues.table.damaged)
    assert not any(name.startswith("T/1/") for name in files_below(queues.directory))
    queues.apply(*entries)
    assert queues.reopen() == places_of(60)
    assert files_below(queues.directory) == before


def test_a_removed_queue_leaves_no_file_and_the_others_alone(queues: Queues) -> None:
    queues.apply(*of_three_queues(20))
    queues.table.remove({("T", 0), ("unknown", 3)})
    assert set(queues.places) == {("T", 1), ("U", 0)}
    assert not any(name.startswith("T/0/") for name in files_below(queues.directory))


@pytest.mark.parametrize(("next_offset", "is_left"), [(9, True), (10, False), (12, False)])
def test_a_removal_that_a_crash_interrupted_is_finished(
    queues: Queues, next_offset: int, is_left: bool
) -> None:
    queues.apply(*(entry(100 * number, queue_offset=number) for number in range(10)))
    queues.table.removed = {("T", 0): next_offset, ("unknown", 1): 5}
    queues.table.finish_removals()
    assert bool(queues.places) == bool(files_below(queues.directory)) == is_left


# -- cutting, syncing ------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 1, 100, 101, 950, 1000, 1999, 5000])
def test_where_a_cut_would_leave_the_mark_is_known_before(queues: Queues, place: int) -> None:
    queues.apply(*of_three_queues(20))
    told = queues.table.durable_below(place)
    queues.table.truncate(place, store_time)
    assert queues.table.durable_offset == told


def test_every_queue_learns_what_the_log_still_holds(queues: Queues) -> None:
    queues.apply(*of_three_queues(20))
    queues.table.correct_min(900)
    minima = {key: queue.min_offset for key, queue in queues.table.queues.items()}
    assert minima == {("T", 0): 3, ("T", 1): 3, ("U", 0): 3}
    queues.table.correct_min(1000)
    assert queues.table.queues["T", 0].min_offset == 4


def test_the_number_of_files_is_told(queues: Queues) -> None:
    queues.apply(*of_three_queues(20))
    (gauge,) = queues.table.stats
    assert gauge.read() == 6


# -- what a real broker wrote ----------------------------------------------------------------------


def built(directory: Path, unit_count: int, parts: Iterable[list[Written]]) -> Path:
    table = ConsumeQueueTable(QuickDisk(), directory, unit_count * UNIT_SIZE)
    for part in parts:
        table.apply(part)
    table.close()
    return directory


@pytest.mark.parametrize("size", [1, 7, 100, 4096])
@pytest.mark.parametrize("name", ["basic", "semantics", "propcrc", "rebuild-base", "v533"])
def test_queues_built_from_a_real_log_are_the_real_ones(
    golden: GoldenStores, tmp_path: Path, name: str, size: int
) -> None:
    unit_count = golden.manifest(name)["params"]["mappedFileSizeConsumeQueue"] // UNIT_SIZE
    entries = list(golden_entries(golden, name))
    built(tmp_path / "built", unit_count, batches(entries, size))
    assert files_below(tmp_path / "built") == files_below(golden.store(name) / "consumequeue")


@pytest.mark.parametrize("name", ["basic", "semantics", "v533"])
def test_real_queues_are_found_as_their_broker_tells(golden: GoldenStores, name: str) -> None:
    manifest = golden.manifest(name)
    size = manifest["params"]["mappedFileSizeConsumeQueue"]
    table = ConsumeQueueTable(Disk(), golden.store(name) / "consumequeue", size)
    table.load(read_only=True)
    table.correct_min(0)
    told = {
        (row["topic"], row["queueId"]): (row["minOffset"], row["maxOffset"], row["maxPhysicOffset"])
        for row in manifest["queues"]
    }
    found = {
        key: (queue.min_offset, queue.max_offset, queue.max_physical_offset)
        for key, queue in table.queues.items()
    }
    assert found == told
    table.close()


def test_a_file_size_that_is_no_whole_number_of_units_is_rounded_up(tmp_path: Path) -> None:
    table = ConsumeQueueTable(QuickDisk(), tmp_path / "q", SIZE - 3)
    table.apply(Records().take(6))
    names = [path.name for path in sorted((tmp_path / "q" / "T" / "0").iterdir())]
    assert names == [f"{0:020d}", f"{SIZE:020d}"]
    table.close()


# -- by column -------------------------------------------------------------------------------------

KEYS = [("T", 0), ("U", 0), ("T", 1)]


def apply_units(queues: Queues, entries: list[Written]) -> None:
    """Gives the table the units of entries as a start does that has read them by column."""
    units = b"".join(UNIT.pack(*columns_of(found)[:3]) for found in entries)
    queues.table.apply_units(
        KEYS,
        np.array([KEYS.index(found.destination.queue) for found in entries], dtype=np.int64),
        np.array([found.queue_offset for found in entries], dtype=np.int64),
        np.frombuffer(units, dtype=UNIT_TYPE),
        np.array([found.store_time_ms for found in entries], dtype=np.int64),
    )


def test_units_of_nothing_but_a_removed_topic_make_no_queue(queues: Queues) -> None:
    queues.table.removed = {("T", 0): 1_000}
    apply_units(queues, of_three_queues(20))
    assert queues.places == {key: found for key, found in places_of(20).items() if key != ("T", 0)}
    assert ("T", 0) not in queues.table.queues


def test_units_by_column_go_to_their_queues(queues: Queues) -> None:
    apply_units(queues, of_three_queues(20))
    assert queues.places == places_of(20)
    assert queues.table.dirty == {*KEYS}
    apply_units(queues, of_three_queues(31))
    assert queues.reopen() == places_of(31)


@settings(max_examples=40)
@given(
    some.lists(some.tuples(some.sampled_from(KEYS), some.integers(0, 9)), min_size=1, max_size=40),
    some.lists(some.integers(1, 39), max_size=3),
    some.booleans(),
)
def test_by_column_or_one_by_one_is_the_same(
    records: list[tuple[QueueKey, int]], cuts: list[int], is_removed: bool
) -> None:
    # Queue offsets come as they like: jumps, repetitions, steps back.
    ends = dict.fromkeys(KEYS, 0)
    entries = []
    for number, (key, step) in enumerate(records):
        ordinal = max(ends[key] + (step - 7 if step > 6 else 0), 0)
        ends[key] = ordinal + 1
        made = entry(100 * number, queue_offset=ordinal, topic=key[0], queue_id=key[1])
        entries.append(made)
    with TemporaryDirectory() as directory:
        one, other = Queues(Path(directory) / "one"), Queues(Path(directory) / "other")
        for queues in (one, other):
            queues.table.removed = {("T", 0): 2} if is_removed else {}
            queues.table.note_gaps([(100, 1_500)])
        for begin, end in pairwise([0, *sorted(cuts), len(entries)]):
            one.apply(*entries[begin:end])
            if begin < min(end, len(entries)):
                apply_units(other, entries[begin:end])
        assert files_below(one.directory) == files_below(other.directory)
        assert one.table.durable_offset == other.table.durable_offset
        one.table.close()
        other.table.close()


# -- syncing many ----------------------------------------------------------------------------------


def many(count: int, per_queue: int = 2) -> list[Written]:
    return [
        entry(100 * number, queue_id=number % count, queue_offset=number // count)
        for number in range(count * per_queue)
    ]


@pytest.mark.parametrize("count", [FILES_APART_MAX, FILES_APART_MAX + 1])
def test_many_dirty_files_or_cuts_are_synced_by_one_call(queues: Queues, count: int) -> None:
    """A unit that was cut must not come back once a checkpoint lies behind it."""
    is_many = count > FILES_APART_MAX
    queues.apply(*many(count))
    assert queues.table.has_much_to_sync is is_many
    queues.table.flush()
    assert len(queues.disk.calls["sync"]) == (0 if is_many else count)
    assert len(queues.disk.calls["sync_all"]) == is_many
    assert not queues.table.has_much_to_sync
    queues.disk.calls.clear()
    queues.table.truncate(100 * count, store_time)
    assert len(queues.disk.calls["sync"]) == (0 if is_many else count)
    assert queues.table.has_unsynced_cuts is is_many
    queues.table.flush()
    assert len(queues.disk.calls["sync_all"]) == is_many
    assert not queues.table.has_unsynced_cuts


def test_what_is_believed_is_told_to_every_queue(queues: Queues) -> None:
    queues.apply(*many(2, 23))
    table = queues.anew()
    table.load(believed_upto=4_200)
    assert table.durable_offset == 4_600
    found = [file for queue in table.queues.values() for file in queue.files.files]
    assert [file.base // SIZE for file in found if file.is_open] == [4, 4]


def test_where_no_extension_is_nobody_looks_for_one(queues: Queues, tmp_path: Path) -> None:
    queues.apply(*of_three_queues(6))
    table = queues.anew(ExtensionFiles(tmp_path / "consumequeue_ext", 1_000, False))
    table.load()
    assert queues.places == places_of(6)
    assert [queue.extension for queue in table.queues.values()] == [None] * 3


# -- ends from a table -----------------------------------------------------------------------------


class Begun:
    """Three queues of two records each, begun anew with the ends that they had then."""

    def __init__(self, queues: Queues) -> None:
        self.queues = queues
        queues.apply(*many(3))
        self.ends = queues.table.ends()

    def anew(
        self,
        *,
        believed_upto: int = 10_000,
        removed: int = 0,
        extension: ExtensionFiles = NO_EXTENSION,
    ) -> ConsumeQueueTable:
        table = self.queues.anew(extension)
        table.removed = {("T", 1): removed}
        table.load(believed_upto=believed_upto, ends=self.ends)
        return table

    @property
    def doubtful(self) -> list[int]:
        return [queue.queue_id for queue in self.queues.table.doubtful]


@pytest.fixture
def begun(queues: Queues) -> Begun:
    return Begun(queues)


def test_queues_with_an_end_are_not_read_unless_a_unit_is_to_be_doubted(begun: Begun) -> None:
    before = begun.queues.places
    table = begun.anew()
    assert table.ends() == begun.ends
    assert begun.doubtful == [0, 1, 2]
    assert not any(queue.files.files[0].is_open for queue in table.queues.values())
    assert begun.queues.places == before
    begun.anew(believed_upto=begun.ends["T", 1].max_physical_offset)
    assert begun.doubtful == [0, 1]


def test_a_queue_that_came_since_is_read(begun: Begun) -> None:
    begun.queues.apply(entry(1_000, queue_id=7))
    table = begun.anew()
    assert begun.doubtful == [0, 1, 2]
    assert table.queues["T", 7].max_offset == 1


@pytest.mark.parametrize("is_file", [False, True], ids=["its directory", "its file"])
def test_a_queue_that_is_gone_is_to_be_built_again_unless_it_was_removed(
    begun: Begun, is_file: bool
) -> None:
    directory = begun.queues.directory / "T" / "1"
    (directory / f"{0:020d}").unlink()
    if not is_file:
        directory.rmdir()
        assert begun.anew(removed=2).damaged == set()
        assert sorted(begun.queues.table.queues) == [("T", 0), ("T", 2)]
    table = begun.anew()
    assert table.damaged == {("T", 1)}
    table.remove(table.damaged)
    assert sorted(table.queues) == [("T", 0), ("T", 2)]


def test_with_an_extension_all_queues_are_read(begun: Begun, tmp_path: Path) -> None:
    begun.anew(extension=ExtensionFiles(tmp_path / "consumequeue_ext", 1_000, True))
    assert begun.doubtful == []
    assert len(begun.queues.places) == 3


@pytest.mark.parametrize("is_left", [False, True])
def test_a_flush_takes_away_what_a_crash_left(begun: Begun, is_left: bool) -> None:
    if is_left:
        begun.queues.apply(entry(1_000, queue_offset=2))
    table = begun.anew()
    begun.queues.disk.calls.clear()
    table.flush()
    assert begun.doubtful == []
    assert len(begun.queues.disk.calls["sync_all"]) == is_left
    assert begun.queues.reopen() == {("T", n): [100 * n, 100 * n + 300] for n in range(3)}


def test_a_cut_that_met_leftovers_is_synced_before_the_next_checkpoint(begun: Begun) -> None:
    table = begun.anew()
    table.truncate(10_000, store_time)
    assert not table.has_unsynced_cuts
    table.truncate(400, store_time)
    assert table.has_unsynced_cuts


@pytest.mark.parametrize("count", [FILES_APART_MAX, FILES_APART_MAX + 1])
def test_a_start_does_not_look_behind_the_ends_of_many_queues(queues: Queues, count: int) -> None:
    queues.apply(*many(count))
    queues.table.flush()
    ends = queues.table.ends()
    queues.anew().load(believed_upto=1 << 40, ends=ends)
    assert queues.table.has_much_to_sync is (count > FILES_APART_MAX)
