"""The dispatcher: every visible record reaches every view once, whatever the disk does."""

import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.format.dispatch_batch import queues_of
from pocketmq.format.index_layout import STYLE_5_5, IndexGeometry
from pocketmq.format.record_scan import written_at
from pocketmq.log.consume_queue_table import ConsumeQueueTable
from pocketmq.log.hash_index import HashIndex
from pocketmq.log.view import View
from pocketmq.model.batch import Written
from pocketmq.model.errors import AllocationFailed, Corruption, DiskFull
from pocketmq.model.message import (
    TRANSACTION_COMMIT,
    TRANSACTION_NONE,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    QueueKey,
)
from pocketmq.model.store_shape import DelayLevels
from pocketmq.store.dispatch.dispatch_buffer import REMEMBERED_MAX, DispatchBuffer
from pocketmq.store.dispatch.dispatcher import (
    BATCH_MAX,
    INDEX_TRIES_MAX,
    QUEUE_TRIES_MAX,
    RETRY_INTERVAL_MS,
    Dispatcher,
)
from pocketmq.store.marks import Marks
from tests.kit.store_language import view_files
from tests.kit.store_writing import WritingLog

LEVELS = DelayLevels()


class ListView:
    """A view that lists what it took; while `full` it holds, as real ones do."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.places: list[int] = []
        self.full = False
        self.broken = False
        self._held: list[Written] = []

    durable_offset = 0

    def apply(self, written: Sequence[Written]) -> None:
        self._held += written
        if self.broken:
            raise AllocationFailed(why="broken")
        if self.full:
            raise DiskFull(path=self.name)
        self.places += [place for run in self._held for place in run.physical_offsets]
        self._held.clear()

    def flush(self) -> None: ...

    def truncate(self, physical_offset: int, time_of: object) -> None: ...

    def close(self) -> None: ...


class Dispatching:
    """A log, a dispatcher, and two views that list what they took."""

    def __init__(self, directory: Path) -> None:
        self.queues, self.index = ListView("queues"), ListView("index")
        self.heard: list[set[QueueKey]] = []
        self.log = WritingLog(directory, lambda entries: self.dispatcher.remembered.add(entries))
        self.dispatcher = self._make()

    def _make(self) -> Dispatcher:
        views = (self.queues, self.index)
        return Dispatcher(self.log.log, self.log.marks, views, LEVELS, self._hear)

    def _hear(self, written: Sequence[Written]) -> None:
        self.heard.append(set(queues_of(written)))

    def put(self, *bodies: str, topic: str = "T", queue_id: int = 0) -> list[int]:
        return self.log.put(topic, *bodies, queue_id=queue_id).physical_offsets

    def step(self, now_ms: int = 0) -> int:
        """One step over everything that was appended."""
        return self.dispatcher.step(self.log.log.appended, now_ms)

    def has_failed(self) -> bool:
        return self.dispatcher.failure is not None

    def forget(self) -> None:
        """Lose what was remembered, as a restart does."""
        self.dispatcher = self._make()


@pytest.fixture
def dispatching(tmp_path: Path) -> Iterator[Dispatching]:
    made = Dispatching(tmp_path)
    yield made
    made.log.close()


# -- what is dispatched ----------------------------------------------------------------------------


def test_records_reach_every_view_in_log_order(dispatching: Dispatching) -> None:
    places = dispatching.put("a") + dispatching.put("b", "c", queue_id=1)
    assert dispatching.step() == 0
    assert dispatching.queues.places == dispatching.index.places == places
    assert dispatching.log.marks.dispatched.value == dispatching.log.log.appended
    assert dispatching.dispatcher.remembered.count == 0


def test_those_who_wait_hear_which_queues_grew_and_marks_know_the_last_record(
    dispatching: Dispatching,
) -> None:
    dispatching.put("a")
    dispatching.log.clock.advance(5)
    (_, last) = dispatching.put("b", "c", topic="U", queue_id=3)
    dispatching.step()
    marks = dispatching.log.marks
    assert dispatching.heard == [{("T", 0), ("U", 3)}]
    assert marks.last_dispatched == last
    assert marks.dispatched.time_ms == dispatching.log.clock.wall


def test_nothing_new_is_no_work(dispatching: Dispatching) -> None:
    assert dispatching.step() == 0
    dispatching.put("a")
    dispatching.step()
    assert dispatching.step() == 0
    assert len(dispatching.heard) == 1
    assert sum(dispatching.dispatcher.reput_seconds.counts) == 1


def test_what_is_not_visible_waits(dispatching: Dispatching) -> None:
    first, second = dispatching.put("a"), dispatching.put("b")
    assert dispatching.dispatcher.step(second[0], 0) == 0
    assert dispatching.queues.places == first
    assert dispatching.dispatcher.remembered.count == 1
    assert dispatching.step() == 0
    assert dispatching.queues.places == first + second


@pytest.mark.parametrize("is_remembered", [True, False])
def test_a_step_is_bounded_and_asks_for_the_next(
    dispatching: Dispatching, is_remembered: bool
) -> None:
    for _ in range(BATCH_MAX // 8 + 1):
        dispatching.put(*["x"] * 8)
    if not is_remembered:
        dispatching.forget()
    assert dispatching.step(now_ms=77) == 77
    assert len(dispatching.queues.places) == BATCH_MAX
    assert dispatching.step(now_ms=78) == 0
    assert len(dispatching.queues.places) == BATCH_MAX + 8


def test_too_much_to_remember_is_read_from_the_log(
    dispatching: Dispatching,
) -> None:
    dispatching.dispatcher.remembered = DispatchBuffer(5)
    places = [place for _ in range(20) for place in dispatching.put("a", "b")]
    assert dispatching.dispatcher.remembered.count < 6
    while dispatching.step(now_ms=1):
        pass
    assert dispatching.queues.places == places
    assert dispatching.dispatcher.remembered.count == 0


def test_the_end_of_a_file_is_passed_over(dispatching: Dispatching) -> None:
    places: list[int] = []
    for _ in range(5):
        places += dispatching.put("x" * 3900)
        dispatching.step()
    assert dispatching.queues.places == places == [0, 4096, 8192, 12288, 16384]


def test_a_blank_alone_moves_the_mark(dispatching: Dispatching) -> None:
    dispatching.put("x" * 3900)
    dispatching.put("x" * 3900)
    dispatching.forget()
    dispatching.dispatcher.step(4096, 0)
    assert dispatching.dispatcher.step(4096, 5) == 0
    assert dispatching.log.marks.dispatched.value == 4096
    assert dispatching.queues.places == [0]


def test_damage_below_what_is_visible_is_an_error(dispatching: Dispatching) -> None:
    _, place, _ = (dispatching.put(body)[0] for body in "abc")
    dispatching.forget()
    file = dispatching.log.log.files.files[0]
    dispatching.log.disk.write_at(file.descriptor, place, b"\xff" * 8)
    with pytest.raises(Corruption) as caught:
        dispatching.step()
    assert (caught.value.path, caught.value.physical_offset) == (str(file.path), place)


# -- a disk without room ---------------------------------------------------------------------------


def test_a_full_disk_is_tried_again_every_second(dispatching: Dispatching) -> None:
    places = dispatching.put("a")
    dispatching.queues.full = True
    assert dispatching.step(now_ms=1_000) == 1_000 + RETRY_INTERVAL_MS
    places += dispatching.put("b")
    dispatching.queues.full = False
    assert dispatching.step(now_ms=1_999) == 2_000
    assert dispatching.queues.places == []
    assert dispatching.heard == []
    assert dispatching.step(now_ms=2_000) == 0
    dispatching.step(now_ms=2_000)
    assert dispatching.queues.places == dispatching.index.places == places


@pytest.mark.parametrize(("name", "tries"), [("queues", 30), ("index", 3)])
def test_tries_of_a_view_that_are_used_up_are_a_failure_that_heals(
    dispatching: Dispatching, name: str, tries: int
) -> None:
    assert (QUEUE_TRIES_MAX, INDEX_TRIES_MAX) == (30, 3)
    places, view = dispatching.put("a"), {"queues": dispatching.queues, "index": dispatching.index}
    view[name].full = True
    for tried in range(tries):
        assert not dispatching.has_failed()
        dispatching.step(now_ms=tried * RETRY_INTERVAL_MS)
    failure = dispatching.dispatcher.failure
    assert failure is not None
    assert (failure.path, failure.tries) == (name, tries)
    assert dispatching.queues.places == (places if name == "index" else [])
    view[name].full = False
    assert dispatching.step(now_ms=99_000) == 0
    assert not dispatching.has_failed()
    assert dispatching.queues.places == dispatching.index.places == places


def test_tries_are_counted_anew_after_a_success(dispatching: Dispatching) -> None:
    now_ms = 0
    for _ in range(3):
        dispatching.put("a")
        dispatching.index.full = True
        for _ in range(INDEX_TRIES_MAX - 1):
            now_ms = dispatching.step(now_ms)
        dispatching.index.full = False
        assert dispatching.step(now_ms) == 0
        assert not dispatching.has_failed()


def test_any_other_error_of_a_view_is_the_stores(dispatching: Dispatching) -> None:
    dispatching.put("a")
    dispatching.queues.broken = True
    with pytest.raises(AllocationFailed):
        dispatching.step()


# -- remembered, read, or both: the views are the same ---------------------------------------------


class RealViews:
    """Consume queues and index below a directory, fed by a dispatcher of their own."""

    def __init__(self, directory: Path, log: WritingLog) -> None:
        self.directory = directory
        queues = ConsumeQueueTable(log.disk, directory / "consumequeue", 200)
        self.index = HashIndex(
            log.disk, directory / "index", IndexGeometry(8, 16), style=STYLE_5_5, zone=UTC
        )
        self.views: tuple[View, ...] = (queues, self.index)
        self.marks = Marks(0, 0, 0, is_sync=False)
        self.dispatcher = Dispatcher(log.log, self.marks, self.views, LEVELS, lambda _: None)

    def step(self, visible: int) -> None:
        self.marks.append(visible, 0)
        self.marks.commit(visible, 0)
        while self.dispatcher.step(visible, 1):
            pass

    def files(self) -> dict[str, bytes]:
        for view in self.views:
            view.close()
        return view_files(self.directory)


PUTS = st.lists(
    st.tuples(
        st.sampled_from(["T", "U"]),
        st.integers(0, 2),
        st.lists(st.sampled_from([1, 90, 700]), min_size=1, max_size=4),
        st.sampled_from([TRANSACTION_NONE] * 3 + [TRANSACTION_PREPARED, TRANSACTION_COMMIT]),
        st.sampled_from(["", "k", "k l", "Aa", "BB"]),
        st.sampled_from(["", "TagA"]),
        st.booleans(),
        st.integers(0, 3),
    ),
    max_size=30,
)


@settings(max_examples=20)
@given(puts=PUTS)
def test_views_are_those_of_a_plain_rebuild(puts: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        memory: list[Sequence[Written]] = []
        log = WritingLog(root / "log", memory.append)
        remembers, reads, forgets = (RealViews(root / name, log) for name in ("m", "r", "f"))
        for topic, queue_id, sizes, flag, key, tag, is_forgotten, step in puts:
            bodies = [b"x" * size for size in sizes]  # type: ignore[attr-defined]
            words = {"key": key, "tag": tag, "unique_key": f"id{len(memory)}"}
            log.put(topic, *bodies, queue_id=queue_id, system_flag=flag, **words)  # type: ignore[arg-type]
            log.clock.advance(700)
            remembers.dispatcher.remembered.add(memory[-1])
            if is_forgotten:  # As when too much waits: all that was remembered so far is lost.
                forgets.dispatcher.remembered.count = REMEMBERED_MAX
            forgets.dispatcher.remembered.add(memory[-1])
            for number, views in enumerate((remembers, reads, forgets)):
                if step == number:
                    views.step(log.log.appended)
        for views in (remembers, reads, forgets):
            views.step(log.log.appended)
        plain = plain_rebuild(root / "plain", log)
        assert remembers.files() == plain
        assert reads.files() == plain
        assert forgets.files() == plain
        log.close()


def plain_rebuild(directory: Path, log: WritingLog) -> dict[str, bytes]:
    """The views as they are when each record of the log is given to them on its own."""
    views = RealViews(directory, log)
    for _, file, position, _ in log.log.scan(0):
        for view in views.views:
            view.apply([written_at(file.view, position, LEVELS)])
    return views.files()


def test_records_dispatched_again_change_nothing(tmp_path: Path) -> None:
    memory: list[Sequence[Written]] = []
    log = WritingLog(tmp_path / "log", memory.append)
    views = RealViews(tmp_path / "views", log)
    for number in range(60):
        log.put("T", f"{number}" * 20, queue_id=number % 3, key="k", unique_key=f"id{number}")
        log.put("T", "gone", system_flag=TRANSACTION_ROLLBACK, key="k")
    views.step(log.log.appended)
    count = views.index.entries_put.value
    views.marks.dispatched.value = log.log.files.files[-2].base
    views.marks.last_dispatched = 0
    views.step(log.log.appended)
    # Of the last indexed record the keys are put again, as a real broker does.
    assert views.index.entries_put.value == count + 2
    plain = plain_rebuild(tmp_path / "plain", log)
    files = views.files()
    assert {n: c for n, c in files.items() if n.startswith("consumequeue")} == {
        n: c for n, c in plain.items() if n.startswith("consumequeue")
    }
    log.close()
