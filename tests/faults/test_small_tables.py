"""D7: power cuts inside the saving of small files and the making of log files; damaged small files.

Newest or previous complete version, never none; a damaged file gives way to its `.bak`; two damaged
ones are an error that names the file. Each save is cut before every call of the disk, with so many
draws that every subset of the few pending names and sectors is met.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from pocketmq.files.table_file import TableFile
from pocketmq.format.checkpoint_layout import CheckpointValues
from pocketmq.format.names import offset_file_name
from pocketmq.log.checkpoint import FlushedMark, StoreCheckpoint
from pocketmq.log.commit_log import CommitLog
from pocketmq.model.errors import StorageError
from pocketmq.store.tables.removed_queues import RemovedQueues
from tests.kit.records import record
from tests.sim.disk import SimDisk
from tests.sim.disk_image import Image
from tests.sim.quick_disk import QuickDisk

DRAWS = 64
HOME = Path("/store/config")
LOG = Path("/store/commitlog")
LOG_FILE_SIZE = 4_096
TABLES = ("topics.json", "consumerOffset.json", "subscriptionGroup.json", "store.json")
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "torn": lambda content: content[: len(content) // 2],
    "zeros": lambda content: bytes(len(content)),
    "garbage": lambda content: b"\xff\xfe" * len(content),
    "a flipped bit": lambda content: bytes([content[0] ^ 1]) + content[1:],
}


def parse(content: bytes) -> int:
    """A table of one number between brackets, so that half of it is none."""
    text = content.decode()
    if not (text.startswith("[") and text.endswith("]")):
        raise ValueError("no table")
    return int(text.strip("[]"))


def shown(number: int) -> bytes:
    """A version of the table, longer than a sector."""
    return f"[{number:01500}]".encode()


def states(work: Callable[[SimDisk], object], disk: SimDisk) -> list[Image]:
    """Crash states before each call of some work on a disk, and after it."""
    found: list[Image] = []

    def cut(call: str, path: Path) -> None:
        del call, path
        found.extend(disk.image.cut(Random(seed)) for seed in range(DRAWS))

    disk.hook = cut
    work(disk)
    disk.hook = None
    cut("end", HOME)
    return found


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("versions", [1, 2, 3])
def test_the_newest_or_the_previous_version_is_there(name: str, versions: int) -> None:
    disk = SimDisk()
    for number in range(versions):
        TableFile(disk, HOME / name).write(shown(number))
    met = set()
    images = states(lambda on: TableFile(on, HOME / name).write(shown(versions)), disk)
    assert len(images) >= 8 * DRAWS
    for image in images:
        met.add(TableFile(SimDisk(image), HOME / name).read(parse))
    assert met == {versions - 1, versions}
    for image in images[-DRAWS:]:
        assert TableFile(SimDisk(image), HOME / name).read(parse) == versions


def test_the_first_version_is_there_or_not_yet() -> None:
    disk = SimDisk()
    images = states(lambda on: TableFile(on, HOME / "topics.json").write(shown(1)), disk)
    found = {TableFile(SimDisk(image), HOME / "topics.json").read(parse) for image in images}
    assert found == {None, 1}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_table_gives_way_and_two_are_an_error(tmp_path: Path, damage: str) -> None:
    table = TableFile(QuickDisk(), tmp_path / "topics.json")
    table.write(shown(1))
    table.write(shown(2))
    table.path.write_bytes(DAMAGE[damage](shown(2)))
    assert table.read(parse) == 1
    table.path.with_name("topics.json.bak").write_bytes(DAMAGE[damage](shown(1)))
    with pytest.raises(StorageError, match=r"topics\.json"):
        table.read(parse)


def values(number: int) -> CheckpointValues:
    """A checkpoint that describes a log of so many bytes."""
    return CheckpointValues(logics_physical_offset=number)


def test_a_checkpoint_is_the_old_or_the_new_one() -> None:
    disk = SimDisk()
    disk.make_directory(HOME)
    checkpoint = StoreCheckpoint(disk, HOME / "checkpoint")
    checkpoint.save(values(1))
    found = set()
    for image in states(lambda on: checkpoint.save(values(2)), disk):
        again = StoreCheckpoint(SimDisk(image), HOME / "checkpoint")
        again.load()
        found.add(again.values.logics_physical_offset)
    assert found == {1, 2}


def test_there_is_always_a_mark_for_the_checkpoint_on_disk() -> None:
    disk = SimDisk()
    disk.make_directory(HOME)
    mark = FlushedMark(disk, HOME)
    mark.open()
    old, new = b"o" * 48, b"n" * 48
    mark.write(100, old)
    mark.sync()

    def announce(on: SimDisk) -> None:
        del on
        mark.write(150, old)
        mark.announce(new)
        mark.sync()

    for image in states(announce, disk):
        again = FlushedMark(SimDisk(image), HOME)
        again.open()
        assert again.valid_upto(old) in (100, 150)
    for image in states(lambda on: mark.settle(), disk):
        again = FlushedMark(SimDisk(image), HOME)
        again.open()
        assert again.valid_upto(new) == 150


def test_removed_queues_are_known_as_before_or_as_now() -> None:
    disk = SimDisk()
    with ThreadPoolExecutor(1) as pool:
        removed = RemovedQueues(disk, HOME, pool)
        asyncio.run(removed.add("orders", {0: 7, 1: 3}))
        images = states(lambda on: asyncio.run(removed.add("events", {0: 9})), disk)
        met = []
        for image in images:
            again = RemovedQueues(SimDisk(image), HOME, pool)
            again.load()
            met.append(again.next_offsets)
    before = {("orders", 0): 7, ("orders", 1): 3}
    after = {**before, ("events", 0): 9}
    assert [found for found in met if found not in (before, after)] == []
    assert before in met
    assert met[-DRAWS:] == [after] * DRAWS


def log_on(disk: SimDisk) -> CommitLog:
    """The log of a disk, as it lies there."""
    log = CommitLog(disk, LOG, LOG_FILE_SIZE)
    log.load()
    return log


def test_the_next_log_file_is_there_whole_or_not_at_all() -> None:
    disk = SimDisk()
    disk.make_directory(HOME)
    log = log_on(disk)
    first, second = record(0, size=3_000), record(LOG_FILE_SIZE, size=2_000)

    def append(content: bytes) -> None:
        if not log.has_room(len(content)):
            base = log.spare_base
            assert base is not None
            log.offer_spare(log.make_spare(HOME, base))
        log.write(log.place(len(content)), content)

    append(first)
    log.files.files[0].sync()
    images = states(lambda on: append(second), disk)
    assert len(images) >= 8 * DRAWS
    met = set()
    for image in images:
        again = log_on(SimDisk(image))
        names = [file.path.name for file in again.files.files]
        assert names in ([offset_file_name(0)], [offset_file_name(0), offset_file_name(4_096)])
        assert again.read(0, len(first)) == first
        places = [place for place, _, _, _ in again.scan(0)]
        assert places in ([0], [0, LOG_FILE_SIZE])
        met.add((len(names), len(places)))
        again.close()
    assert met >= {(1, 1), (2, 1), (2, 2)}
    log.close()
