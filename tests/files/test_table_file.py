"""Small tables: after a crash at any step the new or the previous version can be read."""

from pathlib import Path

import pytest

from pocketmq.files.table_file import TableFile
from pocketmq.model.errors import DiskFull, FsyncFailed
from tests.sim.disk import SimDisk
from tests.sim.quick_disk import PowerCut, QuickDisk, full_disk


def parse(content: bytes) -> str:
    """A version is sound when it ends with a full stop."""
    if not content.endswith(b"."):
        raise ValueError(f"torn: {content!r}")
    return content.decode()


class Table:
    """A table, and what a start would read of it.

    table.write("one."); table.tear(); assert table.reopen() == "one."
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / "config" / "topics.json"
        self.disk = QuickDisk()

    def write(self, text: str) -> None:
        TableFile(self.disk, self.path).write(text.encode())

    def reopen(self) -> str | None:
        return TableFile(QuickDisk(), self.path).read(parse)

    def tear(self, suffix: str = "") -> None:
        path = self.path.with_name(self.path.name + suffix)
        path.write_bytes(path.read_bytes()[:-1])

    @property
    def versions(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.path.parent.iterdir()}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_a_table_keeps_the_version_before(table: Table) -> None:
    for text in ("one.", "two.", "three."):
        table.write(text)
    assert table.reopen() == "three."
    assert table.versions == {"topics.json": b"three.", "topics.json.bak": b"two."}


def test_a_torn_or_empty_version_gives_way_to_the_one_before(table: Table) -> None:
    assert table.reopen() is None
    table.write("one.")
    table.write("two.")
    table.tear()
    assert table.reopen() == "one."
    table.path.write_bytes(b"")
    assert table.reopen() == "one."


def test_two_torn_versions_are_an_error_that_tells_of_the_newer(table: Table) -> None:
    table.write("one.")
    table.write("two.")
    table.tear()
    table.tear(".bak")
    with pytest.raises(ValueError, match="torn: b'two'"):
        table.reopen()


STEPS = [("write_file", 0), ("sync", 0), ("rename", 0), ("rename", 1), ("sync_directory", 0)]
"""What a write does, in order; the second rename is there from the second version on."""


@pytest.mark.parametrize(("step", "skip"), STEPS)
def test_a_crash_at_any_step_leaves_a_version(table: Table, step: str, skip: int) -> None:
    table.write("one.")
    table.write("two.")
    table.disk.fail(step, PowerCut(), skip=skip)
    with pytest.raises(PowerCut):
        table.write("three.")
    assert table.reopen() == ("three." if step == "sync_directory" else "two.")
    table.write("four.")
    assert table.reopen() == "four."


@pytest.mark.parametrize(
    ("step", "found"),
    [("write_file", None), ("sync", None), ("rename", None), ("sync_directory", "one.")],
)
def test_a_crash_during_the_first_write_leaves_it_or_nothing(
    table: Table, step: str, found: str | None
) -> None:
    table.path.parent.mkdir()
    table.disk.fail(step, PowerCut())
    with pytest.raises(PowerCut):
        table.write("one.")
    assert table.reopen() == found


def test_half_a_draft_is_never_read(table: Table) -> None:
    table.write("one.")
    table.path.with_name("topics.json.draft").write_bytes(b"tw")
    assert table.reopen() == "one."
    table.write("two.")
    assert table.versions.keys() == {"topics.json", "topics.json.bak"}


@pytest.mark.parametrize(("step", "skip"), [("write_file", 0), ("rename", 0), ("rename", 1)])
def test_a_full_disk_leaves_the_table_as_it_was(table: Table, step: str, skip: int) -> None:
    table.write("one.")
    table.disk.fail(step, full_disk(), skip=skip)
    with pytest.raises(DiskFull):
        table.write("two.")
    assert table.reopen() == "one."


def filled(path: Path) -> tuple[SimDisk, TableFile]:
    """A table with two versions on a disk that has no byte left for a third."""
    disk = SimDisk()
    table = TableFile(disk, path)
    for text in (b"one.", b"two."):
        table.write(text)
    disk.capacity_bytes = disk.space(path.parent)[0]
    assert disk.space(path.parent)[1] == 0
    return disk, table


def test_on_a_full_disk_the_version_before_gives_its_room(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    disk, table = filled(path)
    for number in range(5):
        table.write(b"version %d." % number)
        assert TableFile(disk, path).read(parse) == f"version {number}."
    assert disk.names(tmp_path) == ["table.json", "table.json.bak"]
    with pytest.raises(DiskFull):
        table.write(b"x" * 5_000 + b".")
    assert TableFile(disk, path).read(parse) == "version 4."
    assert disk.names(tmp_path) == ["table.json"]


@pytest.mark.parametrize("is_read", [True, False])
def test_it_does_not_where_nothing_else_is_known_to_be_sound(tmp_path: Path, is_read: bool) -> None:
    path = tmp_path / "table.json"
    disk, _ = filled(path)
    table = TableFile(disk, path)
    if is_read:
        disk.write_file(path, b"torn")
        assert table.read(parse) == "one."
    with pytest.raises(DiskFull):
        table.write(b"three.")
    assert disk.read_file(path.with_name("table.json.bak")) == b"one."


def test_a_new_version_takes_its_name_when_its_bytes_are_durable(table: Table) -> None:
    table.write("one.")
    table.disk.fail("sync", FsyncFailed(why="Input/output error"))
    with pytest.raises(FsyncFailed):
        table.write("two.")
    assert table.versions["topics.json"] == b"one."
    table.write("two.")
    assert table.disk.calls["sync_directory"][-1] == (table.path.parent,)


def test_a_write_that_ends_after_the_store_is_told_by_the_watch_of_its_begin(
    tmp_path: Path,
) -> None:
    disk, ends = QuickDisk(), list[BaseException | None]()
    file, late = TableFile(disk, tmp_path / "topics.json"), ValueError("no follower")
    disk.tables.begin(lambda path, changed: None, lambda path, then: then(late))
    file.write(b"{}")
    disk.tables.end()
    file.when_copied(ends.append)
    assert ends == [late]
    file.write(b"{}")
    file.when_copied(ends.append)
    assert ends == [late, None]
