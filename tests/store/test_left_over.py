"""Topics that a real broker deleted or made again stay so; queues never forget where they go on."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pocketmq.backfill.checks import check_files, queues_of
from pocketmq.backfill.job import find_reuse, new_job, run
from pocketmq.files.disk import Disk
from pocketmq.format.consume_unit import UNIT
from pocketmq.format.deleted_topics import LeftOver
from pocketmq.log.deleted_topics import left_over_now
from pocketmq.log.queue_places import expired_queues
from pocketmq.model.message import OFFSET_MAX
from pocketmq.rebuild.log_files import KnownShape, find_log_files
from pocketmq.rebuild.parallel import RebuildJob, rebuild_parallel
from pocketmq.rebuild.plan import map_here
from pocketmq.rebuild.sequential import rebuild
from pocketmq.tools.backup import backup
from pocketmq.tools.install import StagedViews, stage_and_install
from pocketmq.tools.rebuild import plan_rebuild, rebuild_beside, rebuild_in_place
from pocketmq.tools.repair.repair import repair_store
from pocketmq.tools.restore import restore
from pocketmq.tools.verify.verification import verify
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import files_below
from tests.kit.log_bytes import SMALL, LogBytes
from tests.kit.store_golden import golden_sizes
from tests.kit.store_language import small_settings, store_at
from tests.kit.tool_sizes import golden_tool_sizes, known_shape, shape_of

NOW_MS = 1_800_000_000_000
ENDS: dict[str, dict[tuple[str, int], tuple[int, int]]] = {
    "recreate": {("Del", 0): (0, 20), ("Del", 1): (0, 21), ("Del", 2): (0, 22)},
    "deleted": {("Del", 0): (0, 0), ("Del", 1): (0, 0), ("Del", 2): (0, 0)},
}
"""What a real broker serves."""


def known(golden: GoldenStores, name: str, directory: Path) -> KnownShape:
    """Returns the settings of a store that offline tools find."""
    sizes = golden_tool_sizes(golden, name)
    found = left_over_now(Disk(), directory, sizes.commit_log_file_size_bytes)
    return replace(sizes, left_over=found.text)


async def ends(golden: GoldenStores, name: str, directory: Path) -> Any:
    """First and next offset of the queues, after a start."""
    async with store_at(directory, **golden_sizes(golden, name)) as store:
        await store.settled()
        return {key: store.store.reading.queue_range(*key) for key in ENDS[name]}


@pytest.mark.parametrize("name", ENDS)
async def test_a_start_leaves_it_so(golden: GoldenStores, tmp_path: Path, name: str) -> None:
    directory = golden.copy(name, tmp_path / "s")
    for _ in range(2):
        assert await ends(golden, name, directory) == ENDS[name]
    queues = files_below(golden.store(name) / "consumequeue")
    assert files_below(directory / "consumequeue") == queues
    sizes = known(golden, name, directory)
    assert verify(Disk(), directory, sizes).counts == {}


async def test_directories_without_a_file_tell_of_no_topic(
    golden: GoldenStores, tmp_path: Path
) -> None:
    directory = golden.copy("deleted", tmp_path / "s")
    (directory / "consumequeue/Del/0").mkdir(parents=True)
    sizes = known(golden, "deleted", directory)
    assert verify(Disk(), directory, sizes).counts == {}
    assert await ends(golden, "deleted", directory) == ENDS["deleted"]
    rebuild_in_place(Disk(), plan_rebuild(Disk(), directory, sizes), sizes, accept_holes=False)
    queues = files_below(golden.store("deleted") / "consumequeue")
    assert files_below(directory / "consumequeue") == queues


@pytest.mark.parametrize("is_known", [True, False], ids=["with a list", "walked"])
async def test_a_lost_queue_of_a_topic_with_a_row_is_built_again_and_no_other(
    golden: GoldenStores, tmp_path: Path, is_known: bool
) -> None:
    directory = golden.copy("deleted", tmp_path / "s")
    if is_known:
        await ends(golden, "deleted", directory)
    shutil.rmtree(directory / "consumequeue/Keep/0")
    assert await ends(golden, "deleted", directory) == ENDS["deleted"]
    queues = files_below(golden.store("deleted") / "consumequeue")
    assert files_below(directory / "consumequeue") == queues


@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "crashed"])
async def test_a_topic_made_again_is_built_as_its_queues_or_the_last_checkpoint_say(
    golden: GoldenStores, tmp_path: Path, is_lost: bool
) -> None:
    directory = golden.copy("recreate", tmp_path / "s")
    if is_lost:
        await ends(golden, "recreate", directory)
        shutil.rmtree(directory / "consumequeue/Del")
    else:
        (directory / "abort").touch()
        (directory / "checkpoint").write_bytes(bytes(4096))
    assert await ends(golden, "recreate", directory) == ENDS["recreate"]
    queues = files_below(golden.store("recreate") / "consumequeue")
    assert files_below(directory / "consumequeue") == queues


@pytest.mark.parametrize("name", ENDS)
async def test_a_rebuild_and_a_repair_leave_it_so(
    golden: GoldenStores, tmp_path: Path, name: str
) -> None:
    queues = files_below(golden.store(name) / "consumequeue")
    directory = golden.copy(name, tmp_path / "s")
    sizes = known(golden, name, directory)
    rebuild_in_place(Disk(), plan_rebuild(Disk(), directory, sizes), sizes, accept_holes=False)
    assert files_below(directory / "consumequeue") == queues
    damaged = golden.copy(name, tmp_path / "damaged")
    path = damaged / "consumequeue/Keep/1" / ("0" * 20)
    path.write_bytes(bytes(20) + path.read_bytes()[20:])
    report = repair_store(Disk(), damaged, known(golden, name, damaged), now_ms=NOW_MS)
    assert report["is_sound"]
    assert files_below(damaged / "consumequeue") == queues
    assert await ends(golden, name, damaged) == ENDS[name]


@pytest.mark.parametrize("name", ENDS)
async def test_a_copy_without_queues_knows_it(
    golden: GoldenStores, tmp_path: Path, name: str
) -> None:
    directory, sizes = golden.store(name), golden_tool_sizes(golden, name)
    for number in range(2):
        backup(Disk(), directory, tmp_path / f"b{number}", sizes, now_ms=NOW_MS)
        directory = tmp_path / f"again{number}"
        restore(Disk(), tmp_path / f"b{number}", directory)
    assert not (directory / "consumequeue").exists()
    assert await ends(golden, name, directory) == ENDS[name]
    assert verify(Disk(), directory, known(golden, name, directory)).counts == {}


# -- queues of a topic made again that have no message since ---------------------------------------
SHAPE = known_shape(4096, SMALL.consume_queue_file_size_bytes, SMALL.geometry, "5.5", "UTC")


def made_again(directory: Path, *, late: bool = False) -> Path:
    """A store whose topic T had messages in queues 0 to 2 and was recreated in queue 0.

    late   and in queue 2, behind those of queue 0
    """
    log = LogBytes(directory)
    for number in range(12):
        log.add("T", number % 3, queue_offset=number // 3, keys=f"old{number}")
    floor = log.add("T", 0, queue_offset=0, keys="new")
    for number in range(1, 30):
        log.add("T", 0, queue_offset=number, keys=f"new{number}")
        log.add("T", 2, queue_offset=number - 1) if late else None
    places = {("T", 0): floor, ("T", 1): log.end, ("T", 2): floor if late else log.end}
    shape = replace(SHAPE, left_over=LeftOver(places=places).text)
    rebuild(log.close().found(), shape, directory, upto=OFFSET_MAX)
    topic = {"topicName": "T", "readQueueNums": 3, "writeQueueNums": 3, "perm": 6}
    (directory / "config").mkdir()
    rows = json.dumps({"topicConfigTable": {"T": topic}})
    (directory / "config/topics.json").write_text(rows)
    return directory


def shape_with(directory: Path) -> KnownShape:
    """Returns the settings of such a store that offline tools find."""
    return replace(SHAPE, left_over=left_over_now(Disk(), directory, 4096).text)


def rebuilt(directory: Path, out: Path, way: str) -> Path:
    """Where its views were built anew."""
    sizes, files = shape_with(directory), find_log_files(directory)
    if way == "parallel":
        rebuild_parallel(RebuildJob(files, sizes, out, OFFSET_MAX), map_here)
    elif way == "rebuild":
        rebuild_in_place(Disk(), plan_rebuild(Disk(), directory, sizes), sizes, accept_holes=False)
        return directory
    else:
        backup(Disk(), directory, out / "b", sizes, now_ms=NOW_MS)
        restore(Disk(), out / "b", out / "again")
        return out / "again"
    return out


async def started(directory: Path) -> None:
    """Starts it, and stops it again."""
    geometry = SMALL.geometry._asdict()
    sizes: dict[str, Any] = {f"index_{name}": value for name, value in geometry.items()}
    sizes["consume_queue_file_size_bytes"] = SMALL.consume_queue_file_size_bytes
    async with store_at(directory, **sizes) as store:
        await store.settled()


@pytest.mark.parametrize("late", [False, True], ids=["empty", "late"])
@pytest.mark.parametrize("way", ["rebuild", "parallel", "restore"])
async def test_a_queue_without_a_message_since_stays_so(
    tmp_path: Path, way: str, late: bool
) -> None:
    directory = made_again(tmp_path / "s", late=late)
    queues = files_below(directory / "consumequeue")
    names = {"T/0", "T/2"} if late else {"T/0"}
    assert {name.rpartition("/")[0] for name in queues} == names
    assert verify(Disk(), directory, shape_with(directory)).counts == {}
    found = rebuilt(directory, tmp_path / "out", way)
    if way == "restore":
        await started(found)
    assert files_below(found / "consumequeue") == queues
    if way != "parallel":
        await started(found)
        assert files_below(found / "consumequeue") == queues


async def test_a_lost_queue_of_a_topic_that_was_never_made_again_is_built_again(
    tmp_path: Path,
) -> None:
    log = LogBytes(tmp_path / "s")
    for number in range(30):
        log.add("T", number % 3, queue_offset=number // 3)
    rebuild(log.close().found(), SHAPE, log.store, upto=OFFSET_MAX)
    queues = files_below(log.store / "consumequeue")
    shutil.rmtree(log.store / "consumequeue/T/0")
    assert verify(Disk(), log.store, shape_with(log.store)).counts == {"absent": 10}
    await started(log.store)
    assert files_below(log.store / "consumequeue") == queues


# -- queues whose messages have all expired --------------------------------------------------------


@pytest.fixture
async def expired(tmp_path: Path) -> Path:
    """Queues 0 of T had five messages that have left the log, queue 1 has others."""
    directory = tmp_path / "s"
    async with store_at(directory) as store:
        for number in range(5):
            await store.send("T", f"old {number}")
        for number in range(99):
            await store.stocked()
            await store.send("T", f"{number} {'x' * 100}", queue_id=1)
        await store.settled()
    first = sorted((directory / "commitlog").iterdir())[0]
    first.unlink()
    return directory


def mended(way: str, directory: Path, scratch: Path, sizes: KnownShape, queue: str = "T/1") -> Path:
    """The store, or its copy, after its queues were built anew."""
    if way == "rebuild":
        rebuild_in_place(Disk(), plan_rebuild(Disk(), directory, sizes), sizes, accept_holes=False)
    elif way == "backfill":
        built = run(job_of(directory, scratch / "out", sizes), map_here)
        assert not check_files(scratch / "out", map_here)
        staged = StagedViews(scratch / "out", queues_of(built), built["index_names"], built["end"])
        stage_and_install(Disk(), directory, sizes, lambda _: staged)
    elif way == "repair":
        path = sorted((directory / "consumequeue" / queue).iterdir())[-1]
        path.write_bytes(bytes(20) + path.read_bytes()[20:])
        assert repair_store(Disk(), directory, sizes, now_ms=NOW_MS)["is_sound"]
    else:
        backup(Disk(), directory, scratch / "b", sizes, now_ms=NOW_MS)
        restore(Disk(), scratch / "b", scratch / "again")
        return scratch / "again"
    return directory


def job_of(directory: Path, out: Path, sizes: KnownShape) -> RebuildJob:
    """A backfill of a store, as the command makes it."""
    known_expired = tuple(expired_queues(Disk(), directory))
    log_bytes = sizes.commit_log_file_size_bytes
    return new_job(directory, out, sizes, log_file_bytes=log_bytes, expired=known_expired)


@pytest.mark.parametrize("way", ["rebuild", "backfill"])
def test_views_built_beside_the_store_hold_expired_queues(
    expired: Path, tmp_path: Path, way: str
) -> None:
    sizes, out = shape_of(small_settings(expired)), tmp_path / "out"
    if way == "rebuild":
        plan = plan_rebuild(Disk(), expired, sizes, out=out)
        rebuild_beside(Disk(), plan, accept_holes=False)
    else:
        built = run(job_of(expired, out, sizes), map_here)
        assert run(job_of(expired, out, sizes), map_here) == built
        other = find_reuse(replace(job_of(expired, out, sizes), expired=()), [])
        assert not other.is_complete
    last = max(expired.glob("consumequeue/T/0/*"))
    assert (out / last.relative_to(expired)).read_bytes() == last.read_bytes()


@pytest.mark.parametrize("way", ["rebuild", "backfill", "repair", "restore"])
async def test_a_queue_whose_messages_have_expired_goes_on_where_it_was(
    expired: Path, tmp_path: Path, way: str
) -> None:
    async with store_at(expired) as store:
        assert store.store.reading.queue_range("T", 0) == (5, 5)
        sizes = shape_of(store.store.settings)
    directory = mended(way, expired, tmp_path, sizes)
    async with store_at(directory) as store:
        assert store.store.reading.queue_range("T", 0) == (5, 5)
        await store.send("T", "new")
        await store.settled()
        assert store.store.reading.queue_range("T", 0) == (5, 6)
    assert verify(Disk(), directory, sizes).counts == {}


# -- offsets above their units, the head of the log expired ----------------------------------------


def aged(golden: GoldenStores, to: Path, files: int) -> Path:
    """The store of RocketMQ 5.0.0 after it has deleted so many files of the log.

    It removes queue and index files that tell of nothing else, and changes none that stay.
    """
    directory = golden.copy("v500", to)
    log = sorted((directory / "commitlog").iterdir())
    for path in log[:files]:
        path.unlink()
    log_begin = int(log[files].name)
    for path in sorted(directory.glob("consumequeue/*/*/*")):
        units = [*UNIT.iter_unpack(path.read_bytes())]
        if all(size > 0 and place < log_begin for place, size, _ in units):
            path.unlink()
    for path in sorted((directory / "index").iterdir()):
        if int.from_bytes(path.read_bytes()[24:32]) < log_begin:
            path.unlink()
    return directory


def found_of(golden: GoldenStores, directory: Path) -> tuple[dict[str, int], list[str]]:
    """Returns the findings of verify, and its notes."""
    found = verify(Disk(), directory, known(golden, "v500", directory))
    return found.counts, found.notes


@pytest.mark.parametrize(("files", "above"), [(1, 527), (2, 526), (6, 500), (9, 441), (12, 0)])
async def test_how_far_the_first_offset_is_above_its_unit_is_told_by_the_queue(
    golden: GoldenStores, tmp_path: Path, files: int, above: int
) -> None:
    directory = aged(golden, tmp_path / "s", files)
    queues = served_units(directory)
    counts, notes = found_of(golden, directory)
    assert counts == {}
    *shifts, begins = notes
    assert [note.split(" ", 3)[1:3] for note in shifts] == [[str(above), "records"]][: above > 0]
    assert begins.startswith("the log begins at ")
    sizes = known(golden, "v500", directory)
    rebuild_in_place(Disk(), plan_rebuild(Disk(), directory, sizes), sizes, accept_holes=False)
    assert served_units(directory) == queues
    again, notes = found_of(golden, directory)
    assert (again, notes[: len(shifts)]) == (counts, shifts)
    async with store_at(directory, **golden_sizes(golden, "v500")) as store:
        await store.settled()
    assert served_units(directory) == queues


@pytest.mark.parametrize("way", ["repair", "restore", "restore and rebuild"])
async def test_a_queue_built_again_stands_where_it_stood(
    golden: GoldenStores, tmp_path: Path, way: str
) -> None:
    directory = aged(golden, tmp_path / "s", 6)
    queues = served_units(directory)
    again = mended(way, directory, tmp_path, known(golden, "v500", directory), "Old500/0")
    if way == "restore":
        async with store_at(again, **golden_sizes(golden, "v500")) as store:
            await store.settled()
    elif way == "restore and rebuild":
        sizes = known(golden, "v500", again)
        rebuild_in_place(Disk(), plan_rebuild(Disk(), again, sizes), sizes, accept_holes=False)
    assert served_units(again) == queues


@pytest.mark.parametrize("way", ["start", "rebuild"])
async def test_a_lost_queue_stands_where_the_last_checkpoint_says(
    golden: GoldenStores, tmp_path: Path, way: str
) -> None:
    directory = aged(golden, tmp_path / "s", 6)
    queues = served_units(directory)
    sizes = golden_sizes(golden, "v500")
    async with store_at(directory, **sizes) as store:
        assert store.store.reading.queue_range("Old500", 0)[0] > 0
        await store.settled()
    shutil.rmtree(directory / "consumequeue/Old500/0")
    if way == "rebuild":
        shape = known(golden, "v500", directory)
        rebuild_in_place(Disk(), plan_rebuild(Disk(), directory, shape), shape, accept_holes=False)
        assert served_units(directory) == queues
    async with store_at(directory, **sizes) as store:
        await store.settled()
    assert served_units(directory) == queues


def test_a_unit_that_stands_twice_is_no_offset_above_its_unit(
    golden: GoldenStores, tmp_path: Path
) -> None:
    directory = aged(golden, tmp_path / "s", 12)
    path = sorted(directory.glob("consumequeue/Old500/0/*"))[0]
    units = [*UNIT.iter_unpack(path.read_bytes())]
    log_begin = min(int(path.name) for path in (directory / "commitlog").iterdir())
    first = next(number for number, unit in enumerate(units) if unit[0] >= log_begin)
    units[first - 2] = units[first]
    path.write_bytes(b"".join(UNIT.pack(*unit) for unit in units))
    assert known(golden, "v500", directory).left_over.endswith('"starts": []}')
    assert [*found_of(golden, directory)[0]] == ["unit"]


def served_units(directory: Path) -> dict[str, list[tuple[int, ...]]]:
    """Units that lead into the log, with their numbers, by queue."""
    log_begin = min(int(path.name) for path in (directory / "commitlog").iterdir())
    found: dict[str, list[tuple[int, ...]]] = {}
    for path in sorted(directory.glob("consumequeue/*/*/*")):
        units = enumerate(UNIT.iter_unpack(path.read_bytes()), int(path.name) // 20)
        rows = found.setdefault("/".join(path.parts[-3:-1]), [])
        rows += [(number, *unit) for number, unit in units if unit[0] >= log_begin > 0]
    return {name: rows for name, rows in found.items() if rows}
