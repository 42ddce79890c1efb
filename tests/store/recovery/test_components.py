"""Structures of a store: opened together, or refused together with nothing changed."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from pocketmq.format.checkpoint_layout import decode_checkpoint, encode_checkpoint
from pocketmq.format.names import zone_from_name
from pocketmq.log.consume_queue_table import FILES_APART_MAX
from pocketmq.log.store_directory import FORMAT_VERSION
from pocketmq.model.errors import (
    Corruption,
    IllegalConfig,
    NotAStore,
    StorageError,
    StoreGap,
    StoreLocked,
    StoreTooNew,
    WrongFileSize,
)
from pocketmq.store.recovery.components import StoreComponents
from pocketmq.store.recovery.progress import Starting
from pocketmq.store.recovery.recovery_plan import StoreRecovery
from pocketmq.store.recovery.start import StoreStart, start_at_once
from tests.kit.golden_log import files_below
from tests.kit.store_golden import recovered
from tests.kit.store_language import small_settings, store_at, view_files
from tests.sim.clock import FakeClock
from tests.sim.quick_disk import QuickDisk, open_files

# -- time zones ------------------------------------------------------------------------------------


def test_zones_have_the_names_of_the_tz_database() -> None:
    moment = datetime(2026, 11, 21, tzinfo=UTC)
    assert zone_from_name("Asia/Shanghai").utcoffset(moment) == timedelta(hours=8)
    assert zone_from_name("").utcoffset(moment) == moment.astimezone().utcoffset()


@pytest.mark.parametrize("name", ["Mars/Olympus", "../etc/passwd"])
def test_another_name_is_a_wrong_setting(name: str) -> None:
    with pytest.raises(IllegalConfig, match="not a time zone"):
        zone_from_name(name)


# -- opening ---------------------------------------------------------------------------------------


def test_a_new_store_gets_its_directories_lock_and_manifest(tmp_path: Path) -> None:
    with recovered(tmp_path / "s", index_slot_count=77, time_zone="UTC") as parts:
        assert not parts.was_aborted
        assert parts.own_directory == tmp_path / "s" / "pocketmq"
    names = {str(path.relative_to(tmp_path / "s")) for path in (tmp_path / "s").rglob("*")}
    assert names == {"commitlog", "checkpoint", "lock", "pocketmq"} | {
        f"pocketmq/{name}" for name in ("store.json", "watermark")
    }
    manifest = json.loads((tmp_path / "s/pocketmq/store.json").read_bytes())
    assert manifest["index_slot_count"] == 77
    assert manifest["format_version"] == FORMAT_VERSION
    assert manifest["closed"] is None


async def test_sizes_stay_what_they_were_when_the_store_was_made(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s", index_slot_count=5) as store:
        await store.send("T", "a", key="k")
    async with store_at(tmp_path / "s", index_slot_count=6, consume_queue_file_size_bytes=100) as s:
        assert s.store.settings.index_slot_count == 5
        assert s.store.settings.consume_queue_file_size_bytes == 200
        assert await s.found("T", "k") == ["a"]


async def test_what_is_held_at_the_end_is_listed(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        for number in range(20):
            await store.send("T", "a", key=f"k{number}", queue_id=number % 2)
        await store.send("U", "b")
        end = store.store.appended
    closed = json.loads((tmp_path / "s/pocketmq/store.json").read_bytes())["closed"]
    assert closed["queues"] == {"T": {"0": [0, 10], "1": [0, 10]}, "U": {"0": [0, 1]}}
    assert closed["index_files"] == sorted(p.name for p in (tmp_path / "s/index").iterdir())
    assert closed["log_end"] == end
    assert closed["checkpoint"] == (tmp_path / "s/checkpoint").read_bytes()[:48].hex()
    async with store_at(tmp_path / "s"):
        running = json.loads((tmp_path / "s/pocketmq/store.json").read_bytes())
    assert running["closed"] is None


async def test_recovery_writes_down_how_far_it_came(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await store.send("T", "a", key="k")
        place = (await store.send("T", "b", key="k")).physical_offsets[0]
        time_ms, end = store.clock.wall, store.store.appended
        image = store.killed(tmp_path / "image")
    with recovered(image) as parts:
        assert parts.was_aborted
        values = parts.checkpoint.values
        assert (values.logics_physical_offset, values.confirm_physical_offset) == (place, place)
        assert values.physic_msg_timestamp == values.logics_msg_timestamp == time_ms
        assert parts.mark.valid_upto(encode_checkpoint(values)) == end


async def test_a_mark_is_void_when_another_broker_wrote_since(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await store.send("T", "a" * 300)
        second = (await store.send("T", "b" * 300)).physical_offsets[0]
    checkpoint = bytearray((tmp_path / "s/checkpoint").read_bytes())
    checkpoint[7] ^= 1
    (tmp_path / "s/checkpoint").write_bytes(checkpoint)
    log = tmp_path / "s/commitlog" / f"{0:020d}"
    log.write_bytes(log.read_bytes()[:second].ljust(4096, b"\0"))
    async with store_at(tmp_path / "s") as store:
        assert store.store._start.recovery.plan.label == "@foreign_lost_tail"
    async with store_at(tmp_path / "s", accept_damage=True) as store:
        assert await store.pulled("T") == ["a" * 300]


async def test_delay_levels_are_those_of_the_settings(tmp_path: Path) -> None:
    with recovered(tmp_path / "a") as parts:
        assert len(parts.levels.delays_ms) == 18
    with recovered(tmp_path / "b", delay_levels="1s 2s") as parts:
        assert len(parts.levels.delays_ms) == 2


# -- refusing --------------------------------------------------------------------------------------


async def own_store(directory: Path) -> Path:
    """A store of some files that was closed in order."""
    async with store_at(directory) as store:
        for number in range(60):
            await store.send("T", "x" * 300, key=f"k{number}")
    return directory


def refusal(directory: Path) -> StorageError:
    """Opens a store that must refuse; returns why, after comparing that nothing changed."""
    before = files_below(directory), sorted(directory.rglob("*"))
    with pytest.raises(StorageError) as caught, recovered_small(directory):
        pass
    assert (files_below(directory), sorted(directory.rglob("*"))) == before
    assert open_files(directory) == []
    return caught.value


def recovered_small(directory: Path) -> AbstractContextManager[StoreComponents]:
    """Opens a store of small files and recover it."""
    return recovered(**vars(small_settings(directory)))


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_another_process(path: Path) -> Iterator[None]:
    """Locks a file from another process."""
    command = [sys.executable, "-c", HOLD, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        yield
        other.communicate()


async def test_a_store_in_use_by_another_process_is_refused(tmp_path: Path) -> None:
    directory = await own_store(tmp_path / "s")
    with held_by_another_process(directory / "lock"):
        error = refusal(directory)
    assert isinstance(error, StoreLocked)
    assert error.path == str(directory)
    with recovered_small(directory):
        pass


def test_a_directory_of_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"meow")
    error = refusal(tmp_path / "photos")
    assert isinstance(error, NotAStore)
    assert "cat.jpg" in error.why


async def test_a_foreign_file_in_the_log_is_refused(tmp_path: Path) -> None:
    directory = await own_store(tmp_path / "s")
    (directory / "commitlog" / "notes.txt").write_text("mine")
    assert isinstance(refusal(directory), NotAStore)


async def test_a_store_of_a_later_version_is_refused(tmp_path: Path) -> None:
    directory = await own_store(tmp_path / "s")
    path = directory / "pocketmq" / "store.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "format_version": 2}))
    error = refusal(directory)
    assert isinstance(error, StoreTooNew)
    assert (error.found, error.known, error.path) == (2, FORMAT_VERSION, str(path))


async def test_a_log_with_a_gap_is_refused_until_it_is_mended(tmp_path: Path) -> None:
    directory = await own_store(tmp_path / "s")
    gone = sorted((directory / "commitlog").iterdir())[2]
    shutil.move(gone, tmp_path / "kept")
    error = refusal(directory)
    assert isinstance(error, StoreGap)
    assert (error.expected, error.found) == (8192, 12288)
    shutil.move(tmp_path / "kept", gone)
    with recovered_small(directory) as parts:
        assert parts.queues.queues["T", 0].max_offset == 60


def second_file(directory: Path, row: str) -> Path:
    """The second of the files in a directory of a store."""
    return sorted((directory / row).iterdir())[1]


@pytest.mark.parametrize("row", ["consumequeue/T/0", "index"])
async def test_a_view_that_was_cut_short_is_made_anew(tmp_path: Path, row: str) -> None:
    """The manifest knows how long the files of views are: another length is damage."""
    directory = await own_store(tmp_path / "s")
    path = second_file(directory, row)
    was = view_files(directory)
    path.write_bytes(path.read_bytes()[:-1])
    with recovered_small(directory):
        pass
    assert view_files(directory) == was


@pytest.mark.parametrize(
    ("row", "keys", "has_manifest"),
    [
        ("commitlog", "mappedFileSizeCommitLog", True),
        ("consumequeue/T/0", "mappedFileSizeConsumeQueue", False),
        ("index", "maxHashSlotNum and maxIndexNum", False),
    ],
)
async def test_a_file_of_another_size_is_refused_and_of_a_view_where_no_manifest_knows_it(
    tmp_path: Path, row: str, keys: str, has_manifest: bool
) -> None:
    directory = await own_store(tmp_path / "s")
    for path in (directory / "pocketmq").glob("store.json*") if not has_manifest else ():
        path.unlink()
    path = second_file(directory, row)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-1])
    error = refusal(directory)
    assert isinstance(error, WrongFileSize)
    assert (error.path, error.key_names) == (str(path), keys)
    assert (error.expected_bytes, error.found_bytes) == (size, size - 1)


# -- many queues after a crash ---------------------------------------------------------------------


async def crashed_with(count: int, tmp_path: Path) -> tuple[Path, bytes]:
    """A store that was killed with a message in each of so many queues, and its checkpoint."""
    async with store_at(tmp_path / "s") as store:
        await store.send("T", "first")
        await store.settled()
    async with store_at(tmp_path / "s") as store:
        for queue_id in range(count):
            await store.send("T", "a", queue_id=queue_id)
        await store.settled()
        image = store.killed(tmp_path / "image")
    return image, (image / "checkpoint").read_bytes()


@pytest.mark.parametrize("count", [FILES_APART_MAX, FILES_APART_MAX + 1])
async def test_a_start_does_not_wait_for_many_queues_to_be_synced(
    tmp_path: Path, count: int
) -> None:
    image, before = await crashed_with(count, tmp_path)
    disk = QuickDisk()
    parts = StoreComponents(small_settings(image), disk)
    start_at_once(parts, FakeClock())
    may_wait = count > FILES_APART_MAX
    assert [queue.max_offset for queue in parts.queues.queues.values()].count(1) == count - 1
    assert ((image / "checkpoint").read_bytes() == before) is may_wait
    assert bool(parts.queues.dirty) is may_wait
    assert parts.mark.valid_upto((image / "checkpoint").read_bytes()[:48]) == parts.log.appended
    assert disk.calls["sync_all"] == []
    parts.close()


async def test_many_queues_are_synced_at_once_by_the_running_store(tmp_path: Path) -> None:
    image, before = await crashed_with(FILES_APART_MAX + 1, tmp_path)
    async with store_at(image) as store:
        await store.send("T", "b")
    assert (image / "checkpoint").read_bytes() != before
    async with store_at(image) as store:
        assert await store.pulled("T") == ["first", "a", "b"]


# -- ends of queues from their table ---------------------------------------------------------------

MANY = FILES_APART_MAX + 5


async def killed_late(tmp_path: Path, count: int = MANY) -> Path:
    """A store that was killed with so many queues behind its checkpoint, and two before it."""
    async with store_at(tmp_path / "s") as store:
        for queue_id in range(count):
            await store.send("T", "a", queue_id=queue_id)
    async with store_at(tmp_path / "s") as store:
        for queue_id in (0, count):
            await store.send("T", "b", queue_id=queue_id)
        await store.settled()
        return store.killed(tmp_path / "image")


def opened_queues(parts: StoreComponents) -> list[int]:
    """Queue ids of the queues whose files were opened."""
    queues = parts.queues.queues.values()
    return sorted(q.queue_id for q in queues if any(file.is_open for file in q.files.files))


async def test_after_a_crash_queues_without_new_records_are_not_opened(tmp_path: Path) -> None:
    image = await killed_late(tmp_path)
    with recovered_small(image) as parts:
        assert opened_queues(parts) == [0, MANY - 1, MANY]
        found = {key[1]: queue.max_offset for key, queue in parts.queues.queues.items()}
    assert found == {queue_id: 1 + (queue_id == 0) for queue_id in range(MANY + 1)}


@pytest.mark.parametrize("name", ["checkpoint", "pocketmq/watermark", "pocketmq/queue_ends.json"])
async def test_where_no_table_fits_they_are(tmp_path: Path, name: str) -> None:
    image = await killed_late(tmp_path)
    for path in image.glob(f"{name}*"):
        path.unlink()
    with recovered_small(image) as parts:
        assert opened_queues(parts) == [*range(MANY + 1)]


async def test_with_the_table_a_start_ends_as_without(tmp_path: Path) -> None:
    image = await killed_late(tmp_path)
    plain = Path(shutil.copytree(image, tmp_path / "plain"))
    for path in (plain / "pocketmq").glob("queue_ends.json*"):
        path.unlink()
    for directory in (image, plain):
        async with store_at(directory) as store:
            await store.send("T", "c", queue_id=1)
    assert view_files(image) == view_files(plain)


async def test_a_queue_that_is_gone_is_built_again(tmp_path: Path) -> None:
    image = await killed_late(tmp_path)
    whole = view_files(image)
    shutil.rmtree(image / "consumequeue" / "T" / "7")
    async with store_at(image) as store:
        assert await store.pulled("T", 7) == ["a"]
    assert view_files(image) == whole


async def test_a_queue_with_another_last_unit_is_told_then_read(tmp_path: Path) -> None:
    image = await killed_late(tmp_path, 3)
    path = image / "consumequeue" / "T" / "1" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    content[7] ^= 1
    path.write_bytes(content)
    with pytest.raises(Corruption, match="/T/1/"), recovered_small(image):
        pass
    with recovered_small(image) as parts:
        assert parts.queues.queues["T", 1].max_offset == 1


async def test_units_below_the_checkpoint_are_cut_after_it_was_taken_back(tmp_path: Path) -> None:
    # A crash while they are built again must not find them believed.
    image = await killed_late(tmp_path, 3)
    log = min((image / "commitlog").iterdir())
    content = bytearray(log.read_bytes())
    content[content.index(b"a", 100)] ^= 1
    log.write_bytes(content)
    before = (image / "checkpoint").read_bytes()
    parts = StoreComponents(small_settings(image, accept_damage=True), QuickDisk())
    seen: list[int] = []
    start = StoreStart(parts, Starting(FakeClock()))
    cut = start.recovery._cut_views

    def cut_views(physical_offset: int) -> None:
        values = decode_checkpoint((image / "checkpoint").read_bytes())
        seen.append(values.logics_physical_offset)
        cut(physical_offset)

    with patch.object(StoreRecovery, "_cut_views", side_effect=cut_views):
        for _ in start.steps(0):
            pass
    parts.close()
    assert seen[0] == seen[1] < decode_checkpoint(before).logics_physical_offset
