"""One consume queue: RocketMQ's rules for putting, however records come, and what a start finds."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pocketmq.files.disk import Disk
from pocketmq.format.consume_unit import PRE_BLANK, UNIT, UNIT_SIZE
from pocketmq.log.consume_queue import ConsumeQueue
from pocketmq.model.batch import Written
from pocketmq.model.errors import DiskFull, NotAStore, StoreGap
from tests.kit.golden_log import files_below
from tests.kit.records import Records, entry, joined
from tests.sim.quick_disk import QuickDisk, full_disk

UNITS = 5
SIZE = UNITS * UNIT_SIZE


def unit(place: int, size: int = 100, tags_code: int = 0) -> bytes:
    return UNIT.pack(place, size, tags_code)


class Queue:
    """A queue in a directory of its own, with files of five units.

    queue.put(0, 100, 200); queue.tear(1); assert queue.reopen() == [0, 100]
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.disk = QuickDisk()
        self.queue = self.anew()

    def anew(self) -> ConsumeQueue:
        return ConsumeQueue(self.disk, self.directory, SIZE, topic="T", queue_id=0)

    def put(self, *places: int) -> None:
        """Puts a record of 100 bytes for each place, at the queue's next offsets."""
        begin = self.queue.max_offset
        self.queue.put_all(
            [entry(place, queue_offset=begin + at) for at, place in enumerate(places)]
        )

    def overwrite(self, queue_offset: int, content: bytes) -> None:
        position = queue_offset * UNIT_SIZE
        path = self.directory / f"{position - position % SIZE:020d}"
        held = bytearray(path.read_bytes())
        held[position % SIZE : position % SIZE + len(content)] = content
        path.write_bytes(held)

    def tear(self, count: int) -> None:
        """Takes the last units away, as a power cut does."""
        end = self.queue.max_offset
        for queue_offset in range(end - count, end):
            self.overwrite(queue_offset, bytes(UNIT_SIZE))

    def reopen(self, *, read_only: bool = False, believed_upto: int = 0) -> list[int]:
        """Opens the queue anew, as a start does; returns the places its units lead to."""
        self.queue.files.close()
        self.queue = self.anew()
        self.queue.load(read_only=read_only, believed_upto=believed_upto)
        return self.places

    def close(self) -> None:
        self.queue.files.close()

    @property
    def units(self) -> list[bytes]:
        """All units there are, from the first file's first on."""
        first = self.queue.files.min_offset // UNIT_SIZE
        joined = self.queue.units.read(first, 1 << 20)
        return [joined[at : at + UNIT_SIZE] for at in range(0, len(joined), UNIT_SIZE)]

    @property
    def places(self) -> list[int]:
        return [UNIT.unpack(found)[0] for found in self.units if found != PRE_BLANK]

    @property
    def dirty(self) -> list[int]:
        return [file.base for file in self.queue.dirty_files()]

    @property
    def names(self) -> list[int]:
        return [int(name) for name in self.disk.names(self.directory)]


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    made = Queue(tmp_path / "T" / "0")
    yield made
    made.close()


# -- RocketMQ's rules ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "tags_code", "queue_offset", "is_put"),
    [(100, 9, 2, False), (0, 9, 7, False), (500, 9, 1, False), (200, -1, 2, True),
     (500, 9, 7, True), (500, 9, 0, True)],
    ids=["ends where the last one ends", "ends before", "its place is taken", "follows",
         "behind a gap: appended where the queue ends", "queue offset 0: wherever it ends"],
)  # fmt: skip
def test_what_is_appended(
    queue: Queue, place: int, tags_code: int, queue_offset: int, is_put: bool
) -> None:
    queue.put(0, 100)
    queue.queue.put(place, 100, tags_code, queue_offset)
    assert queue.units == [unit(0), unit(100), unit(place, 100, tags_code)][: 2 + is_put]
    assert (queue.queue.min_offset, queue.queue.max_offset) == (0, 2 + is_put)
    assert queue.queue.max_physical_offset == (place + 100 if is_put else 200)


@pytest.mark.parametrize("first", [1, 4, 5, 6, 12])
def test_what_lies_before_the_first_message_is_pre_blank(queue: Queue, first: int) -> None:
    queue.queue.put(1000, 100, 0, first)
    in_file = first % UNITS
    assert queue.units == [PRE_BLANK] * in_file + [unit(1000)]
    assert queue.names == [(first - in_file) * UNIT_SIZE]
    assert (queue.queue.min_offset, queue.queue.max_offset) == (first, first + 1)


def test_many_pre_blank_units_go_in_pieces(tmp_path: Path) -> None:
    queue = ConsumeQueue(QuickDisk(), tmp_path / "q", 20_000 * UNIT_SIZE, topic="T", queue_id=0)
    queue.put(1000, 100, 0, 10_001)
    assert queue.units.read(0, 20_000) == PRE_BLANK * 10_001 + unit(1000)
    queue.files.close()


def test_no_file_is_made_before_its_first_unit(queue: Queue) -> None:
    queue.put(*range(0, 100 * UNITS, 100))
    assert queue.names == [0]
    assert queue.disk.ranges("allocate") == [(0, SIZE)]


class Model:
    """The rules once more, as store-format.md 4.1 puts them: a list of units and one number."""

    def __init__(self) -> None:
        self.units: list[bytes] = []
        self.begin = 0
        self.max_physical_offset = 0

    def put(self, place: int, size: int, tags_code: int, queue_offset: int) -> None:
        if place + size <= self.max_physical_offset:
            return
        if not self.units:
            self.begin = queue_offset - queue_offset % UNITS
            self.units = [PRE_BLANK] * (queue_offset - self.begin)
        if queue_offset and queue_offset < self.begin + len(self.units):
            return
        self.units.append(UNIT.pack(place, size, tags_code))
        self.max_physical_offset = place + size


def history(first: int, steps: bytes, cuts: bytes) -> list[list[Written]]:
    """Batches as dispatch may bring them: in log order, with gaps, offsets of 0 and repeats.

    A byte of `steps` makes one record: bit 0 room before it, bits 1-3 its size, the rest what
    happens to queue offsets. A byte of `cuts` ends a batch and says how many come again.
    """
    entries: list[Written] = []
    place, queue_offset = 0, first
    for step in steps:
        size, kind = 91 + step // 2 % 8, step // 16
        place += step % 2 * 50
        shown = 0 if kind == 1 else queue_offset
        entries.append(entry(place, size, queue_offset=shown, tags_code=len(entries)))
        place += size
        queue_offset += {2: 0, 3: 2}.get(kind, 1)
    batches = []
    begin = 0
    for cut in cuts:
        end = min(begin + 1 + cut // 4 % 16, len(entries))
        batches.append(entries[begin:end])
        begin = max(end - cut % 4, 0)
    return [batch for batch in [*batches, entries[begin:]] if batch]


HISTORIES = st.builds(
    history,
    st.sampled_from([0, 1, 4, 5, 13]),
    st.binary(min_size=1, max_size=24),
    st.binary(max_size=5),
)


def written(directory: Path, put: Callable[[ConsumeQueue], None]) -> tuple[dict[str, bytes], int]:
    queue = ConsumeQueue(QuickDisk(), directory, SIZE, topic="T", queue_id=0)
    put(queue)
    queue.files.close()
    return files_below(directory), queue.max_physical_offset


def put_batches(queue: ConsumeQueue, batches: Sequence[Sequence[Written]]) -> None:
    for batch in batches:
        queue.put_all(joined(batch))


def put_singly(queue: ConsumeQueue, batches: Sequence[Sequence[Written]]) -> None:
    for batch in batches:
        for found in batch:
            queue.put(found.begin, found.sizes[0], found.tags_codes[0], found.queue_offset)


@settings(max_examples=80)
@given(HISTORIES)
@example([Records().take(3), Records().take(17)])
@example([Records(queue_offset=13).take(1), Records(queue_offset=13).take(12)])
def test_the_files_hold_what_the_rules_say(batches: list[list[Written]]) -> None:
    """Whether records come at once or one by one."""
    model = Model()
    for found in (found for batch in batches for found in batch):
        model.put(found.begin, found.sizes[0], found.tags_codes[0], found.queue_offset)
    with TemporaryDirectory() as directory:
        many = written(Path(directory) / "many", lambda queue: put_batches(queue, batches))
        singly = written(Path(directory) / "singly", lambda queue: put_singly(queue, batches))
    assert many == singly
    content = b"".join(content for _, content in sorted(many[0].items()))
    assert content == b"".join(model.units).ljust(len(content), b"\0")
    assert len(content) - len(model.units) * UNIT_SIZE < SIZE
    assert many[1] == model.max_physical_offset


# -- a full disk -----------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["make_sparse_file", "allocate"])
def test_a_full_disk_leaves_no_file_without_a_unit(queue: Queue, call: str) -> None:
    queue.disk.fail(call, full_disk())
    with pytest.raises(DiskFull):
        queue.put(0)
    assert queue.names == []
    queue.put(*range(0, 100 * UNITS, 100))
    queue.disk.fail(call, full_disk())
    with pytest.raises(DiskFull):
        queue.put(100 * UNITS)
    assert queue.names == [0]


# -- reading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begin", "count", "found"),
    [
        (0, 1, range(1)), (4, 2, range(4, 6)), (0, 99, range(12)), (3, 8, range(3, 11)),
        (11, 5, range(11, 12)), (12, 5, range(0)), (0, 0, range(0)),
    ],
)  # fmt: skip
def test_units_are_read_across_files(queue: Queue, begin: int, count: int, found: range) -> None:
    queue.put(*range(0, 1200, 100))
    assert queue.queue.units.read(begin, count) == b"".join(unit(100 * number) for number in found)


def test_one_unit_is_read_or_none(queue: Queue) -> None:
    queue.queue.put(700, 100, 42, 6)
    found = [queue.queue.units.at(queue_offset) for queue_offset in range(-1, 9)]
    blank = UNIT.unpack(PRE_BLANK)
    assert found == [None] * 6 + [blank, (700, 100, 42), None, None]


def test_the_minimum_passes_over_pre_blank_units_and_what_the_log_lost(queue: Queue) -> None:
    queue.queue.put_all(Records(queue_offset=3).take(12))
    minima = []
    for min_physical_offset in (0, 1, 100, 500, 1100, 1101):
        queue.queue.correct_min(min_physical_offset)
        minima.append(queue.queue.min_offset)
    assert minima == [3, 4, 4, 8, 14, 15]


# -- starting again --------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 4, 5, 6, 10, 12])
def test_a_start_finds_every_unit(queue: Queue, count: int) -> None:
    queue.put(*range(0, 100 * count, 100))
    assert queue.reopen() == list(range(0, 100 * count, 100))
    assert queue.queue.max_physical_offset == 100 * count
    queue.put(5000)
    assert queue.reopen() == [*range(0, 100 * count, 100), 5000]


@pytest.mark.parametrize("torn", [1, 2, 3, 7])
def test_a_start_leaves_units_that_hold_nothing_and_their_files(queue: Queue, torn: int) -> None:
    """A reader leaves the files alone."""
    queue.put(*range(0, 1200, 100))
    queue.tear(torn)
    places = list(range(0, 1200 - 100 * torn, 100))
    assert queue.reopen(read_only=True) == places
    assert queue.names == [0, SIZE, 2 * SIZE]
    assert queue.reopen() == places
    assert queue.names == [base for base in (0, SIZE, 2 * SIZE) if base < (12 - torn) * UNIT_SIZE]
    assert queue.queue.max_physical_offset == 1200 - 100 * torn


@pytest.mark.parametrize("hole", [0, 3, 4, 5, 9, 10, 11])
@pytest.mark.parametrize(
    "content",
    [bytes(UNIT_SIZE), unit(-1), unit(5, 0), unit(5, -3)],
    ids=["zeros", "place -1", "size 0", "size -3"],
)
def test_a_start_ends_at_the_first_unit_that_holds_nothing(
    queue: Queue, hole: int, content: bytes
) -> None:
    queue.put(*range(0, 1200, 100))
    queue.overwrite(hole, content)
    assert queue.reopen() == list(range(0, 100 * hole, 100))


def test_a_queue_of_pre_blank_units_has_no_last_record(queue: Queue) -> None:
    queue.queue.put(700, 100, 0, 3)
    queue.tear(1)
    assert queue.reopen(read_only=True) == []
    assert (queue.queue.max_offset, queue.queue.max_physical_offset) == (3, 0)


def test_what_a_start_found_counts_as_durable(queue: Queue) -> None:
    queue.put(0, 100, 200)
    queue.reopen()
    assert queue.dirty == []
    queue.put(300)
    assert queue.dirty == [0]


def test_a_queue_with_a_missing_or_foreign_file_is_refused(queue: Queue) -> None:
    queue.put(*range(0, 1200, 100))
    (queue.directory / f"{SIZE:020d}").rename(queue.directory / "notes")
    with pytest.raises(StoreGap):
        queue.reopen()
    (queue.directory / f"{2 * SIZE:020d}").unlink()
    with pytest.raises(NotAStore, match="notes"):
        queue.reopen()


# -- cutting, syncing ------------------------------------------------------------------------------


def test_a_cut_behind_the_end_changes_nothing_and_a_cut_queue_goes_on(queue: Queue) -> None:
    queue.put(*range(0, 1200, 100))
    queue.disk.calls.clear()
    queue.queue.truncate(1101)
    assert queue.places == list(range(0, 1200, 100))
    assert not queue.disk.calls["write_at"]
    queue.queue.truncate(350)
    queue.put(5000, 5100)
    assert queue.reopen() == [0, 100, 200, 300, 5000, 5100]


@pytest.mark.parametrize("place", [-1, 0, 1, 99, 100, 101, 550, 1100, 1101, 5000])
@pytest.mark.parametrize("first", [0, 3, 13])
def test_a_cut_leaves_the_files_as_they_were_then(tmp_path: Path, first: int, place: int) -> None:
    """Where it would leave the queue is known before; without messages it has no file."""
    entries, kept = Records(queue_offset=first).take(12), min(max(place + 99, 0) // 100, 12)
    queue = Queue(tmp_path / "cut")
    queue.queue.put_all(entries)
    told = queue.queue.end_below(place)
    queue.queue.truncate(place)
    assert queue.queue.max_physical_offset == told
    assert queue.queue.max_offset == (first + kept if kept else 0)
    queue.close()
    batches = [entries[:kept]] if kept else []
    then = written(tmp_path / "then", lambda queue: put_batches(queue, batches))
    assert (files_below(tmp_path / "cut"), queue.queue.max_physical_offset) == then


def test_units_are_dirty_until_flushed_whatever_was_cut(queue: Queue) -> None:
    queue.put(*range(0, 1200, 100))
    assert queue.dirty == [0, SIZE, 2 * SIZE]
    queue.queue.flushed = queue.queue.files.max_offset
    assert queue.dirty == []
    queue.queue.truncate(650)
    queue.put(5000)
    assert queue.dirty == [SIZE]


# -- messages that a repair took out of the log ----------------------------------------------------


def put_without(queue: ConsumeQueue, lost: Sequence[bool], first: int = 0) -> None:
    """Puts records of 100 bytes, one behind the other, of which some are lost."""
    gaps = [(100 * number, 100 * number + 100) for number, gone in enumerate(lost) if gone]
    queue.put_all(
        [
            entry(100 * number, queue_offset=first + number)
            for number, gone in enumerate(lost)
            if not gone
        ],
        gaps,
    )


def units_without(lost: Sequence[bool]) -> list[bytes]:
    """The units of the same: from the first record that is left up to the last one."""
    kept = [number for number, gone in enumerate(lost) if not gone]
    return [PRE_BLANK if lost[n] else unit(100 * n) for n in range(kept[0], kept[-1] + 1)]


LOSSES = st.tuples(st.integers(0, 7), st.lists(st.booleans(), min_size=1, max_size=30)).filter(
    lambda drawn: not all(drawn[1])
)


@pytest.mark.parametrize("gap", [(0, 100), (600, 900), (100, 281)])
def test_a_gap_elsewhere_or_too_small_for_what_is_missing_does_not_count(
    queue: Queue, gap: tuple[int, int]
) -> None:
    queue.put(0)
    queue.queue.put(500, 100, 0, 3, [gap])
    assert queue.units == [unit(0), unit(500)]


@settings(max_examples=80)
@given(LOSSES)
def test_lost_messages_are_passed_over_wherever_they_are(drawn: tuple[int, list[bool]]) -> None:
    first, lost = drawn
    expected = units_without(lost)
    begin = first + lost.index(False)
    with TemporaryDirectory() as directory:
        queue = Queue(Path(directory))
        put_without(queue.queue, lost, first)
        for _ in range(2):
            assert queue.units == [PRE_BLANK] * (begin % UNITS) + expected
            for place in range(0, 100 * len(lost) + 100, 50):
                places = [100 * n if not gone else -1 for n, gone in enumerate(lost)]
                at = next((n for n, found in enumerate(places) if found >= place), None)
                found = queue.queue.units.first_at_or_behind(place)
                assert found == (queue.queue.max_offset if at is None else first + at)
                before = max((found for found in places if found < place), default=-1)
                assert queue.queue.end_below(place) == (before + 100 if before >= 0 else 0)
            queue.reopen()
        queue.close()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_queue_that_has_some_of_the_lost_messages_keeps_the_place_of_the_others(
    queue: Queue, count: int
) -> None:
    queue.put(*range(0, 100 * count, 100))
    queue.queue.put(400, 100, 0, 4, [(0, 400)])
    known, lost = [unit(100 * n) for n in range(count)], [PRE_BLANK] * (4 - count)
    assert queue.units == [*known, *lost, unit(400)]


@settings(max_examples=80)
@given(LOSSES, st.integers(0, 30))
def test_a_queue_with_lost_messages_is_cut_and_goes_on_as_it_was(
    drawn: tuple[int, list[bool]], kept: int
) -> None:
    """Messages dispatched again after a cut are independent of gaps before the cut."""
    first, lost = drawn
    with TemporaryDirectory() as scratch:
        queue = Queue(Path(scratch) / "cut")
        put_without(queue.queue, lost, first)
        whole = queue.units
        told = queue.queue.end_below(100 * kept)
        queue.queue.truncate(100 * kept)
        assert queue.queue.max_physical_offset == told
        if not any(not gone for gone in lost[:kept]):
            assert queue.names == []
        else:
            queue.reopen()
            gaps = [(100 * n, 100 * n + 100) for n, gone in enumerate(lost) if gone and n >= kept]
            for number, gone in enumerate(lost):
                if not gone:
                    queue.queue.put(100 * number, 100, 0, first + number, gaps)
            assert queue.units == whole
        queue.close()


# -- a start that believes a checkpoint ------------------------------------------------------------


@pytest.mark.parametrize("believed", [0, 50, 450, 550, 1_050, 5_000])
def test_a_whole_queue_is_found_whatever_is_believed(queue: Queue, believed: int) -> None:
    places = [*range(0, 1_200, 100)]
    queue.put(*places)
    assert queue.reopen(believed_upto=believed) == places
    assert queue.queue.max_physical_offset == 1_200


@pytest.mark.parametrize("lost", range(1, 18))
def test_a_page_lost_behind_what_is_believed_ends_the_queue(queue: Queue, lost: int) -> None:
    # Four files: without belief the first of them would not be looked at.
    places = [*range(0, 1_800, 100)]
    queue.put(*places)
    queue.overwrite(lost, bytes(UNIT_SIZE))
    assert queue.reopen(believed_upto=100 * lost) == places[:lost]


def test_what_is_believed_is_read_by_its_end_alone(queue: Queue) -> None:
    queue.put(*range(0, 2_300, 100))
    queue.queue.files.close()
    queue.queue = queue.anew()
    queue.queue.load(believed_upto=2_100)
    assert [file.base // SIZE for file in queue.queue.files.files if file.is_open] == [4]


# -- units as they lie on disk ---------------------------------------------------------------------


def row_of(*units: bytes) -> bytes:
    return b"".join(units)


def test_a_row_is_taken_whole_if_it_follows(queue: Queue) -> None:
    assert not queue.queue.put_row(0, row_of(unit(0)))
    assert queue.names == []
    queue.put(0, 100)
    for queue_offset, place in ((1, 200), (3, 200), (2, 100)):
        assert not queue.queue.put_row(queue_offset, row_of(unit(place)))
    assert queue.places == [0, 100]
    assert queue.queue.put_row(2, row_of(*[unit(200 + 100 * n, tags_code=n) for n in range(9)]))
    assert queue.places == [*range(0, 1_100, 100)]
    assert queue.queue.max_physical_offset == 1_100


# -- the minimum -----------------------------------------------------------------------------------


def test_the_minimum_asked_for_again_costs_nothing_unless_the_queue_was_cut(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.put(*range(0, 1_200, 100))
    queue.queue.correct_min(250)
    assert queue.queue.min_offset == 3
    with monkeypatch.context() as patch:
        patch.delattr(QuickDisk, "read_at")
        patch.delattr(Disk, "read_at")
        for asked in (250, 260, 300):
            queue.queue.correct_min(asked)
            assert queue.queue.min_offset == 3
    for asked, found in ((301, 4), (0, 0), (250, 3)):
        queue.queue.correct_min(asked)
        assert queue.queue.min_offset == found
    queue.queue.truncate(100)
    queue.put(5_000, 5_100)
    queue.queue.correct_min(250)
    assert queue.queue.min_offset == 1


def test_units_behind_a_lost_one_do_not_come_back(queue: Queue) -> None:
    # They lead to records that a power cut took from the log; the lost one is dispatched again.
    queue.put(0, 100, 200, 300)
    queue.overwrite(1, bytes(UNIT_SIZE))
    assert queue.reopen(read_only=True) == [0]
    assert queue.reopen() == [0]
    queue.put(150)
    assert queue.reopen() == [0, 150]


def test_a_queue_whose_first_message_was_lost_begins_anew(queue: Queue) -> None:
    # Units before the first message are no messages: the next one would get a place among them.
    queue.queue.put(100, 100, 0, 13)
    queue.overwrite(12, bytes(2 * UNIT_SIZE))
    assert queue.reopen(read_only=True) == []
    assert queue.reopen() == []
    assert queue.names == []
    queue.queue.put(100, 100, 0, 13)
    assert queue.queue.units.at(13) == (100, 100, 0)


def test_units_lack_at_either_end_unless_their_messages_expired(tmp_path: Path) -> None:
    store = Queue(tmp_path / "q")
    store.put(*range(100, 1_300, 100))
    store.queue.correct_min(0)
    known = store.queue.end()
    assert (known.min_offset, known.min_place) == (0, 100)
    assert not store.queue.lacks(known, 0)
    store.reopen()
    (tmp_path / "q" / f"{0:020d}").unlink()
    store.reopen()
    store.queue.correct_min(0)
    assert store.queue.min_offset == UNITS
    assert store.queue.lacks(known, 100)
    assert not store.queue.lacks(known, 101), "the log begins behind the missing messages"
    (tmp_path / "q" / f"{2 * SIZE:020d}").unlink()
    store.reopen()
    assert store.queue.lacks(known, 101)
    store.close()
