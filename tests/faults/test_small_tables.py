"""D7: power cuts inside the saving of small files, and damaged small files.

Newest or previous complete version, never none; a damaged file gives way to its `.bak`; two damaged
ones are an error that names the file. Each save is cut before every call of the disk, with so many
draws that every subset of the few pending names and sectors is met.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from broker.files.table_file import TableFile
from broker.format.checkpoint_layout import CheckpointValues
from broker.log.checkpoint import Checkpoint
from broker.log.flushed_mark import FlushedMark
from broker.model.errors import StorageError
from tests.fakes.disk import SimDisk
from tests.fakes.disk_image import Image
from tests.fakes.quick_disk import PowerCut, QuickDisk

DRAWS = 64
HOME = Path("/store/config")
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


@pytest.mark.parametrize("call", ["write_file", "rename", "sync_directory"])
@pytest.mark.parametrize("skip", [0, 1])
def test_a_real_directory_keeps_a_version_too(tmp_path: Path, call: str, skip: int) -> None:
    disk = QuickDisk()
    table = TableFile(disk, tmp_path / "topics.json")
    table.write(shown(1))
    table.write(shown(2))
    disk.fail(call, PowerCut(), skip=skip)
    for number in (3, 4):
        try:
            table.write(shown(number))
        except PowerCut:
            break
    assert TableFile(QuickDisk(), table.path).read(parse) in (number - 1, number)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_table_gives_way_to_the_one_before(tmp_path: Path, damage: str) -> None:
    table = TableFile(QuickDisk(), tmp_path / "topics.json")
    table.write(shown(1))
    table.write(shown(2))
    table.path.write_bytes(DAMAGE[damage](shown(2)))
    assert table.read(parse) == 1


@pytest.mark.parametrize("damage", DAMAGE)
def test_two_damaged_versions_are_an_error_that_names_the_file(tmp_path: Path, damage: str) -> None:
    table = TableFile(QuickDisk(), tmp_path / "topics.json")
    table.write(shown(1))
    table.write(shown(2))
    for path in (table.path, table.path.with_name("topics.json.bak")):
        path.write_bytes(DAMAGE[damage](shown(2)))
    with pytest.raises(StorageError, match=r"topics\.json"):
        table.read(parse)


def values(number: int) -> CheckpointValues:
    """A checkpoint that describes a log of so many bytes."""
    return CheckpointValues(logics_physical_offset=number)


def test_a_checkpoint_is_the_old_or_the_new_one() -> None:
    disk = SimDisk()
    disk.make_directory(HOME)
    checkpoint = Checkpoint(disk, HOME / "checkpoint")
    checkpoint.save(values(1))
    found = set()
    for image in states(lambda on: checkpoint.save(values(2)), disk):
        again = Checkpoint(SimDisk(image), HOME / "checkpoint")
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
