"""A store without a file of its log goes on once the loss is accepted."""

import os
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import pytest

from pocketmq.backfill.job import new_job, run
from pocketmq.files.disk import Disk
from pocketmq.format.record import check_record, decode_record
from pocketmq.model.errors import StoreGap, WrongFileSize
from pocketmq.model.finding import Loss
from pocketmq.model.message import has_queue_offset
from pocketmq.model.reading import ReadRange
from pocketmq.model.topic import QUARANTINE_TOPIC
from pocketmq.rebuild.plan import map_here
from pocketmq.store.message_store import open_store
from pocketmq.store.settings import StoreSettings
from pocketmq.tools.repair.planning import plan_repair
from pocketmq.tools.repair.repair import NOTHING_TO_DO
from pocketmq.tools.verify.verification import VerifyOptions, verify
from tests.golden_stores import GoldenStores
from tests.kit.damaged_store import NOW_MS, DamagedStore
from tests.kit.golden_log import files_below
from tests.kit.log_bytes import golden_settings, views
from tests.kit.store_golden import golden_sizes
from tests.kit.store_language import at_once, until
from tests.sim.clock import FakeClock
from tests.sim.quick_disk import QuickDisk

NAME: Final = "rebuild-base"


@pytest.fixture
def store(golden: GoldenStores, tmp_path: Path) -> DamagedStore:
    return DamagedStore.of_golden(golden, NAME, tmp_path / "s")


def missing(store: DamagedStore) -> None:
    store.remove(store.file(2))


def two_missing(store: DamagedStore) -> None:
    store.remove(store.file(4))
    store.remove(store.file(3))


def cut_in_a_record(store: DamagedStore) -> None:
    store.cut(store.file(2), store.file_size // 2)


def cut_behind_a_record(store: DamagedStore) -> None:
    file = store.file(2)
    begin = int(file.name)
    inside = [place for place in store.places if begin < place < begin + store.file_size]
    store.cut(file, inside[len(inside) // 2] - begin)


def emptied(store: DamagedStore) -> None:
    store.cut(store.file(2), 0)


def last_one_cut(store: DamagedStore) -> None:
    file = store.path(store.end)
    store.cut(file, (store.end - int(file.name)) // 2)


def missing_and_flipped(store: DamagedStore) -> None:
    store.flip(store.places[3] + 90)
    missing(store)


WAYS: Final = (
    missing, two_missing, cut_in_a_record, cut_behind_a_record, emptied, last_one_cut,
    missing_and_flipped,
)  # fmt: skip
by_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
Way = Callable[[DamagedStore], None]


@by_way
def test_all_but_the_lost_messages_are_where_they_were(
    store: DamagedStore, tmp_path: Path, way: Way
) -> None:
    way(store)
    with pytest.raises((StoreGap, WrongFileSize)):
        store.repair()
    report = store.repair(accept_loss=True)
    assert report["is_sound"]
    assert store.kinds() == {}
    assert store.lost() == store.hit()
    assert store.views() == store.dispatched(tmp_path / "views")
    assert store.repair()["state"] == NOTHING_TO_DO


@by_way
def test_the_plan_lists_the_loss_first_and_changes_nothing(store: DamagedStore, way: Way) -> None:
    way(store)
    before = files_below(store.directory)
    plan = plan_repair(QuickDisk(), store.directory, store.sizes, now_ms=NOW_MS, accept_loss=True)
    assert [*plan.document][:2] == ["messages_lost", "lost"]
    assert offsets_of(plan.losses) == messages_of(store, store.hit())
    assert plan.lost_count == len(offsets_of(plan.losses))
    assert files_below(store.directory) == before


@by_way
def test_verify_puts_lost_messages_first_and_counts_them_after_the_repair(
    store: DamagedStore, way: Way
) -> None:
    way(store)
    found = verify(Disk(), store.directory, store.sizes, VerifyOptions(now_ms=NOW_MS))
    assert found.findings[0].lost
    losses = [loss for finding in found.findings for loss in finding.lost]
    assert offsets_of(losses) == messages_of(store, store.hit())
    store.repair(accept_loss=True)
    found = verify(Disk(), store.directory, store.sizes, VerifyOptions(now_ms=NOW_MS))
    assert found.is_sound
    # Those at the end of a queue leave no gap in it: the report of the repair has them.
    assert offsets_of(found.lost_earlier) == messages_of(store, store.hit())


@by_way
def test_rocketmq_reads_the_log_to_its_end(store: DamagedStore, way: Way) -> None:
    way(store)
    hit = set(store.hit())
    store.repair(accept_loss=True)
    assert rocketmq_reads(store) == [place for place in store.places if place not in hit]


@by_way
async def test_a_broker_serves_what_is_left(
    golden: GoldenStores, store: DamagedStore, way: Way
) -> None:
    way(store)
    left = [place for place in store.places if place not in set(store.hit())]
    store.repair(accept_loss=True)
    before = store.views()
    sizes = golden_sizes(golden, NAME)
    opened = await open_store(
        StoreSettings(directory=store.directory, **sizes), FakeClock(), QuickDisk()
    )
    await until(lambda: opened.dispatched >= opened.flushed)
    found = set()
    for (topic, queue_id), queue in opened.views.queues.queues.items():
        position = queue.min_offset
        while position < queue.max_offset:
            result = at_once(opened.reading.pull(ReadRange(topic, queue_id, position, 7, 1 << 20)))
            found |= {
                (topic, queue_id, decode_record(record).queue_offset) for record in result.records
            }
            assert result.next_begin_offset > position
            position = result.next_begin_offset
    assert found == messages_of(store, left)
    await opened.close()
    assert store.views() == before


@by_way
def test_a_backfill_builds_the_same_bytes(
    golden: GoldenStores, store: DamagedStore, tmp_path: Path, way: Way
) -> None:
    way(store)
    store.repair(accept_loss=True)
    settings = golden_settings(golden, NAME, check_crc=True)
    job = new_job(
        store.directory, tmp_path / "out", settings, log_file_bytes=store.file_size, workers=3
    )
    run(job, map_here)
    assert views(job.out) == views(store.directory)


def test_what_was_left_of_a_cut_file_is_in_the_quarantine(store: DamagedStore) -> None:
    path, size = store.file(2), store.file_size // 2
    torn = [p for p in store.places if p < int(path.name) + size][-1]
    kept = store.read(torn, int(path.name) + size - torn)
    store.cut(path, size)
    store.repair(accept_loss=True)
    assert store.quarantined() == {f"{path.name}@{torn}": kept}


def test_a_file_cut_behind_its_last_record_loses_nothing(store: DamagedStore) -> None:
    path = store.file(2)
    last = [p for p in store.places if p < int(path.name) + store.file_size][-1]
    blank = last + len(store.records[last]) - int(path.name)
    before = path.read_bytes()
    os.truncate(path, blank + 8)
    report = store.repair(accept_loss=True)
    assert (report["messages_lost"], report["log"][0]["replaced_by"]) == (0, "a BLANK")
    assert path.read_bytes() == before


def test_fillers_of_a_missing_file_take_no_room(store: DamagedStore) -> None:
    path = store.file(2)
    path.unlink()
    store.repair(accept_loss=True)
    assert path.stat().st_size == store.file_size
    assert path.stat().st_blocks * 512 < store.file_size // 2


def test_files_that_do_not_fit_each_other_are_left_alone(store: DamagedStore) -> None:
    path = store.file(2)
    path.write_bytes(b"\x01" * 100 + path.read_bytes()[100:])  # Its first record names no place.
    path.rename(path.with_name(f"{int(path.name) + 8:020d}"))
    with pytest.raises(StoreGap):
        store.repair(accept_loss=True)


def test_without_queues_the_offsets_beside_a_gap_show_the_loss(store: DamagedStore) -> None:
    missing(store)
    for path in sorted((store.directory / "consumequeue").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    plan = plan_repair(QuickDisk(), store.directory, store.sizes, now_ms=NOW_MS, accept_loss=True)
    hit = messages_of(store, store.hit())
    assert offsets_of(plan.losses) == followed(store, hit)


# -- the language of these tests -------------------------------------------------------------------
Offsets = set[tuple[str, int, int]]


def offsets_of(losses: Iterable[Loss]) -> Offsets:
    """Each lost message: topic, queue, offset."""
    return {
        (loss.topic, loss.queue_id, loss.first + number)
        for loss in losses
        for number in range(loss.messages)
    }


def messages_of(store: DamagedStore, places: Iterable[int]) -> Offsets:
    """The records that have a unit, by topic, queue and offset."""
    found = [decode_record(store.records[place]) for place in places]
    return {
        (one.topic, one.queue_id, one.queue_offset)
        for one in found
        if has_queue_offset(one.system_flag)
    }


def followed(store: DamagedStore, lost: Offsets) -> Offsets:
    """Those of them with a message left before and after them in their queue."""
    left = messages_of(store, store.places) - lost

    def has(topic: str, queue_id: int, numbers: Iterable[int]) -> bool:
        return any((topic, queue_id, number) in left for number in numbers)

    return {
        (topic, queue_id, at)
        for topic, queue_id, at in lost
        if has(topic, queue_id, range(at)) and has(topic, queue_id, range(at + 1, at + 10_000))
    }


def rocketmq_reads(store: DamagedStore) -> list[int]:
    """Records that RocketMQ would dispatch, by its own rule of one file after the other.

    Source: CommitLog.checkMessageAndReturnSize, ReputMessageService.doReput.
    """
    found = []
    for path in sorted((store.directory / "commitlog").iterdir()):
        content, position = path.read_bytes(), 0
        assert len(content) == store.file_size
        while position + 8 <= len(content):
            size, magic = struct.unpack_from(">iI", content, position)
            if magic == 0xCBD43194 or not size:
                break
            assert magic in (0xDAA320A7, 0xDAA320AB), (path.name, position)
            record = content[position : position + size]
            assert check_record(record, 0, int(path.name) + position) == size
            if decode_record(record).topic != QUARANTINE_TOPIC:
                found.append(int(path.name) + position)
            position += size
    return found
