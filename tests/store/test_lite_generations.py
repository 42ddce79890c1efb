"""A lite topic that expired and came again: its queue holds what was sent since, however built."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pocketmq.backfill.checks import check_files
from pocketmq.backfill.job import new_job, run
from pocketmq.files.disk import Disk
from pocketmq.format.consume_unit import UNIT
from pocketmq.log.deleted_topics import left_over_now
from pocketmq.model.message import OFFSET_MAX
from pocketmq.rebuild.log_files import KnownShape, find_log_files
from pocketmq.rebuild.parallel import RebuildJob, rebuild_parallel
from pocketmq.rebuild.plan import map_here
from pocketmq.rebuild.sequential import rebuild
from pocketmq.tools.backup import backup
from pocketmq.tools.rebuild import plan_rebuild, rebuild_in_place
from pocketmq.tools.restore import restore
from pocketmq.tools.verify.verification import verify
from tests.kit.golden_log import files_below
from tests.kit.lite_store import AGAIN, SIZES, lite_sizes, lite_store_with_generations
from tests.kit.log_bytes import SMALL, LogBytes
from tests.kit.store_language import store_at
from tests.kit.tool_sizes import known_shape

PLACES = [1_140, 1_808, 2_162]
"""Where the messages of the second generation lie; that of the first lies at 777."""
NOW_MS = 1_800_000_000_000
SHAPE = known_shape(4096, SMALL.consume_queue_file_size_bytes, SMALL.geometry, "5.5", "UTC")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return lite_store_with_generations(tmp_path)


def known(store: Path) -> KnownShape:
    """Returns the settings of the store that offline tools find."""
    sizes: KnownShape = lite_sizes(store)
    found = left_over_now(Disk(), store, sizes.commit_log_file_size_bytes)
    return replace(sizes, left_over=found.text)


def queues(store: Path) -> dict[str, bytes]:
    """The files of its queues."""
    return files_below(store / "consumequeue")


def built(way: str, store: Path, out: Path) -> Path:
    """Where the views were built anew."""
    sizes = known(store)
    if way == "sequential":
        rebuild(find_log_files(store), sizes, out, upto=OFFSET_MAX)
    elif way == "parallel":
        files = find_log_files(store)
        job = RebuildJob(files, sizes, out, OFFSET_MAX, workers=7, piece_size=500, group_units=33)
        rebuild_parallel(job, map_here)
    elif way == "backfill":
        log_bytes = sizes.commit_log_file_size_bytes
        run(new_job(store, out, sizes, log_file_bytes=log_bytes), map_here)
        assert not check_files(out, map_here)
    elif way == "in place":
        rebuild_in_place(Disk(), plan_rebuild(Disk(), store, sizes), sizes, accept_holes=False)
        return store
    return out


@pytest.mark.parametrize("way", ["sequential", "parallel", "backfill", "in place"])
def test_a_rebuild_begins_the_queue_where_it_began(store: Path, tmp_path: Path, way: str) -> None:
    wanted = queues(store)
    path = "/".join(map(str, AGAIN)) + "/" + "0" * 20
    assert [place for place, _, _ in UNIT.iter_unpack(wanted[path][:60])] == PLACES
    assert queues(built(way, store, tmp_path / "out")) == wanted


def test_it_is_verified_without_a_finding_of_units(store: Path) -> None:
    counts = verify(Disk(), store, known(store)).counts
    assert not [kind for kind in counts if "unit" in kind or "file" in kind]


@pytest.mark.parametrize("way", ["crash", "lost", "restore"])
async def test_a_start_leaves_it_so(store: Path, tmp_path: Path, way: str) -> None:
    wanted = queues(store)
    if way == "crash":
        (store / "abort").touch()
        (store / "checkpoint").write_bytes(bytes(4096))
    elif way == "restore":
        backup(Disk(), store, tmp_path / "b", known(store), now_ms=NOW_MS)
        restore(Disk(), tmp_path / "b", tmp_path / "again")
        store = tmp_path / "again"
        assert not (store / "consumequeue").exists()
    else:
        async with store_at(store, **SIZES) as opened:
            await opened.settled()
        shutil.rmtree(store / "consumequeue" / AGAIN[0])
    async with store_at(store, **SIZES) as opened:
        await opened.settled()
        assert opened.store.reading.queue_range(*AGAIN) == (0, 3)
    assert queues(store) == wanted


# -- the dead letter of a lite topic's first message, the head of the log expired ------------------
LITE = ("%LMQ%$P$a", 0)
DEAD_LETTERS = "%DLQ%g"


@pytest.fixture
def headless(tmp_path: Path) -> Path:
    """A store whose log begins with two dead letters, units 3 and 4 of a lite topic's queue."""
    log = LogBytes(tmp_path / "s")

    def send(topic: str, queue_offset: int, lite_offset: int) -> None:
        names = (
            f"INNER_MULTI_DISPATCH\x01{LITE[0]}\x02INNER_MULTI_QUEUE_OFFSET\x01{lite_offset}\x02"
        )
        log.add(topic, queue_offset=queue_offset, block=names.encode())

    for number in range(3):
        send("P", number, number)
    log.roll()
    for number in range(2):
        send(DEAD_LETTERS, number, 0)
    for number in range(5, 8):
        send("P", number - 2, number)
    rebuild(log.close().found(), SHAPE, log.store, upto=OFFSET_MAX)
    assert [number for number, _ in lite_units(log.store)] == [3, 4, 5, 6, 7]
    (log.store / "commitlog" / ("0" * 20)).unlink()
    return log.store


def lite_units(store: Path) -> list[tuple[int, int]]:
    """Number and position of the lite topic's units that lead into the log's second file."""
    found = []
    for path in sorted((store / "consumequeue" / LITE[0] / "0").iterdir()):
        places = [place for place, _, _ in UNIT.iter_unpack(path.read_bytes())]
        found += [*enumerate(places, int(path.name) // UNIT.size)]
    return [(number, place) for number, place in found if place >= SHAPE.commit_log_file_size_bytes]


@pytest.mark.parametrize("pieces", [0, 200])
def test_a_dead_letter_that_begins_the_log_is_the_unit_it_was(
    headless: Path, tmp_path: Path, pieces: int
) -> None:
    wanted, files = lite_units(headless), find_log_files(headless)
    found = left_over_now(Disk(), headless, SHAPE.commit_log_file_size_bytes)
    sizes = replace(SHAPE, left_over=found.text)
    if pieces:
        job = RebuildJob(files, sizes, tmp_path / "out", OFFSET_MAX, workers=3, piece_size=pieces)
        rebuild_parallel(job, map_here)
    else:
        rebuild(files, sizes, tmp_path / "out", upto=OFFSET_MAX)
    assert lite_units(tmp_path / "out") == wanted
