"""Backups: of running stores too, full files once, consistent while messages arrive."""

import asyncio
import json
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from pocketmq.files.directory_lock import DirectoryLock
from pocketmq.files.disk import Disk
from pocketmq.format.order_row import QueueOrder
from pocketmq.model.errors import NotAStore, PlaceUnusable, StoreLocked
from pocketmq.rebuild.log_files import find_log_files
from pocketmq.tools import backup as module
from pocketmq.tools.backup import first_damage, is_running
from pocketmq.tools.copies import (
    RUNNING,
    STOPPED,
    WITH_VIEWS,
    Backup,
    CopiedFile,
    Turn,
    read_backup,
    shown_left_out,
    turn_of,
    walk,
)
from pocketmq.tools.verify.verification import VerifyOptions, verify
from tests.golden_stores import GoldenStores
from tests.kit.backed_up import backed_up, fill, restored, stocked
from tests.kit.golden_log import files_below
from tests.kit.log_bytes import LogBytes
from tests.kit.store_language import store_at
from tests.kit.tool_sizes import golden_tool_sizes
from tests.sim.quick_disk import PowerCut, QuickDisk

FILE = "commitlog/00000000000000000000"
FILE_SIZE = 4096


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store is taken for one that another process runs."""
    monkeypatch.setattr(module, "is_live", lambda directory: True)


def paths(found: Backup) -> list[str]:
    return [file.path for file in found.files]


def log_files(found: Backup) -> list[CopiedFile]:
    return [file for file in found.files if file.path.startswith("commitlog/")]


def record_size(store: Path) -> int:
    return int.from_bytes((store / FILE).read_bytes()[:4])


async def restored_count(tmp_path: Path) -> int:
    """How many messages a store of the copy holds."""
    async with store_at(restored(tmp_path / "b", tmp_path / "again")) as again:
        return len(await again.pulled("T"))


# -- which files, when -----------------------------------------------------------------------------
FIRST, EARLY, LOG, LATE, OUT, NEVER = (
    Turn.FIRST, Turn.EARLY, Turn.LOG, Turn.LATE, Turn.OUT, Turn.NEVER
)  # fmt: skip
TURNS: dict[str, tuple[Turn, Turn, Turn]] = {
    "lock": (NEVER, NEVER, NEVER),
    "abort": (NEVER, NEVER, NEVER),
    "backup.json": (NEVER, NEVER, NEVER),
    "pocketmq/commitlog.draft": (NEVER, NEVER, NEVER),
    "config/topics.json.draft": (NEVER, NEVER, NEVER),
    "commitlog/00000000000000000000": (LOG, LOG, LOG),
    "checkpoint": (EARLY, EARLY, EARLY),
    "pocketmq/order.journal": (FIRST, FIRST, FIRST),
    "config/consumerOrderInfo.json": (EARLY, EARLY, EARLY),
    "config/consumerOffset.json": (EARLY, EARLY, EARLY),
    "config/consumerOffset.json.bak": (EARLY, EARLY, EARLY),
    "config/topics.json": (LATE, LATE, LATE),
    "config/topics.json.bak": (LATE, LATE, LATE),
    "config/subscriptionGroup.json": (LATE, LATE, LATE),
    "config/timercheck": (EARLY, EARLY, EARLY),
    "pocketmq/store.json": (LATE, LATE, LATE),
    "pocketmq/removed.json": (LATE, LATE, LATE),
    "pocketmq/floors.json.bak": (LATE, LATE, LATE),
    "pocketmq/left_over.json": (NEVER, NEVER, LATE),
    "pocketmq/archived.json.bak": (NEVER, NEVER, NEVER),
    "pocketmq/clock.json": (NEVER, NEVER, NEVER),
    "pocketmq/watermark": (NEVER, LATE, LATE),
    "pocketmq/queue_ends.json": (NEVER, NEVER, LATE),
    "pocketmq/queue_ends.json.bak": (NEVER, NEVER, LATE),
    "pocketmq/replaced/20261121/index/x": (OUT, OUT, OUT),
    "consumequeue/T/0/0": (OUT, OUT, LATE),
    "index/20261121023000000": (OUT, OUT, LATE),
    "timerwheel": (OUT, LATE, LATE),
    "timerlog/00000000000000000000": (EARLY, LATE, LATE),
    "consumequeue_ext/T/0/0": (OUT, LATE, LATE),
    "abort.bak": (OUT, LATE, LATE),
}
"""Of a running store, of a stopped one, and of a stopped one with its views."""


@pytest.mark.parametrize(("relative", "turns"), TURNS.items())
def test_when_a_file_is_copied(relative: str, turns: tuple[Turn, Turn, Turn]) -> None:
    assert tuple(turn_of(relative, column) for column in (RUNNING, STOPPED, WITH_VIEWS)) == turns


@pytest.mark.parametrize("column", [RUNNING, STOPPED, WITH_VIEWS])
def test_secrets_are_left_out_of_every_copy(column: int) -> None:
    for name in ("access.json", "access.json.bak", "tls/key.pem", "tls/certificate.pem"):
        assert turn_of(f"pocketmq/{name}", column) is Turn.OUT


def test_what_is_left_out_is_told_by_directory() -> None:
    found = map(shown_left_out, ("index/1", "config/timercheck", "pocketmq/replaced/a/b", "abort"))
    assert list(found) == ["index", "config/timercheck", "pocketmq/replaced", "abort"]


def test_a_log_on_another_disk_is_found(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far/0").touch()
    (tmp_path / "s/config").mkdir(parents=True)
    (tmp_path / "s/config/topics.json").touch()
    (tmp_path / "s/commitlog").symlink_to(tmp_path / "far")
    assert list(walk(tmp_path / "s")) == ["commitlog/0", "config/topics.json"]


# -- running stores --------------------------------------------------------------------------------
@pytest.mark.usefixtures("live")
async def test_a_running_store_opens_again_with_all_that_was_flushed(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 60)
        found = backed_up(store.directory, tmp_path / "b")
        assert found.upto == found.flushed == store.store.flushed
        await fill(store, 60, 70)
    assert found.is_live
    assert not found.is_whole
    assert found.left_out == ["consumequeue", "index"]
    assert not any(path.startswith(("consumequeue", "index")) for path in paths(found))
    restored(tmp_path / "b", tmp_path / "again")
    assert (tmp_path / "again/abort").exists()
    async with store_at(tmp_path / "again") as again:
        assert await again.pulled("T") == [f"body {number}" for number in range(60)]
        assert await again.found("T", "k59") == ["body 59"]
        await fill(again, 60, 61)
        assert len(await again.pulled("T")) == 61


@pytest.mark.usefixtures("live")
async def test_a_running_store_is_copied_with_what_was_settled_in_order(tmp_path: Path) -> None:
    """The table is some seconds old: the journal goes on from it, and is copied before it."""
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 4)
        orders = store.store.tables.orders
        for settled in range(1, 4):
            orders.change("g", "T", 0, partial(QueueOrder, settled))
            await orders.saved()
        found = paths(backed_up(store.directory, tmp_path / "b"))
    assert found.index("pocketmq/order.journal") < found.index("config/consumerOrderInfo.json")
    restored(tmp_path / "b", tmp_path / "again")
    async with store_at(tmp_path / "again") as again:
        assert again.store.tables.orders.find("g", "T", 0, 0).next_offset == 3


@pytest.mark.usefixtures("live")
async def test_a_store_that_is_being_written(tmp_path: Path) -> None:
    counts = []
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 20)
        for number in range(3):
            sending = asyncio.create_task(fill(store, 20 + 40 * number, 60 + 40 * number))
            found = await asyncio.to_thread(backed_up, store.directory, tmp_path / "b")
            await sending
            assert not found.damaged
            directory = restored(tmp_path / "b", tmp_path / f"again{number}")
            async with store_at(directory) as again:
                bodies = await again.pulled("T")
                assert bodies == [f"body {number}" for number in range(len(bodies))]
                assert again.store.appended == found.upto
                counts.append(len(bodies))
    assert counts[0] >= 20
    assert counts == sorted(counts)


@pytest.mark.usefixtures("live")
async def test_the_copy_itself_opens_as_a_store(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 60)
        backed_up(store.directory, tmp_path / "b")
        await fill(store, 60, 70)
        async with store_at(tmp_path / "b") as copy:
            assert await copy.pulled("T") == [f"body {number}" for number in range(60)]
            await fill(copy, 60, 65)
        backed_up(store.directory, tmp_path / "b")
    async with store_at(restored(tmp_path / "b", tmp_path / "again")) as again:
        assert await again.pulled("T") == [f"body {number}" for number in range(70)]


@pytest.mark.usefixtures("live")
async def test_what_is_behind_the_mark_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stocked(tmp_path / "s", 0, 30)
    size = record_size(tmp_path / "s")
    monkeypatch.setattr(module, "flushed_upto", lambda disk, directory: 3 * size)
    found = backed_up(tmp_path / "s", tmp_path / "b")
    assert (found.begin, found.upto) == (0, 3 * size)
    assert [(file.path, file.is_complete) for file in log_files(found)] == [(FILE, False)]
    assert not (tmp_path / "b" / FILE).read_bytes()[3 * size :].strip(b"\0")
    assert await restored_count(tmp_path) == 3


@pytest.mark.usefixtures("live")
async def test_a_running_store_that_tells_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stocked(tmp_path / "s", 0, 30)
    monkeypatch.setattr(module, "flushed_upto", lambda disk, directory: None)
    backed_up(tmp_path / "s", tmp_path / "b")
    assert await restored_count(tmp_path) == 30


@pytest.mark.usefixtures("live")
async def test_positions_are_read_before_the_log_and_names_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stocked(tmp_path / "s", 0, 2)
    config = tmp_path / "s/config"
    config.mkdir()
    (config / "consumerOffset.json").write_text('{"offsetTable":{"T@G":{0:2}}}')
    (config / "topics.json").write_text('{"topicConfigTable":{}}')

    def while_the_log_is_looked_at(disk: Disk, directory: Path) -> None:
        (config / "consumerOffset.json").write_text('{"offsetTable":{"T@G":{0:99}}}')
        (config / "topics.json").write_text('{"topicConfigTable":{"New":{}}}')

    monkeypatch.setattr(module, "flushed_upto", while_the_log_is_looked_at)
    backed_up(tmp_path / "s", tmp_path / "b")
    again = restored(tmp_path / "b", tmp_path / "again") / "config"
    assert "0:2" in (again / "consumerOffset.json").read_text()
    assert "New" in (again / "topics.json").read_text()


@pytest.mark.usefixtures("live")
async def test_a_table_that_is_torn_or_gone_for_a_moment(tmp_path: Path) -> None:
    await stocked(tmp_path / "s", 0, 2)
    config = tmp_path / "s/config"
    config.mkdir()
    (config / "topics.json.bak").write_text("{}")
    (config / "topics.json").unlink(missing_ok=True)
    (config / "delayOffset.json").write_text('{"offs')
    (config / "empty.json").touch()
    backed_up(tmp_path / "s", tmp_path / "b")
    again = restored(tmp_path / "b", tmp_path / "again") / "config"
    assert (again / "topics.json.bak").read_text() == "{}"
    assert (again / "delayOffset.json").read_text() == '{"offs'
    assert (again / "empty.json").read_bytes() == b""


@pytest.mark.usefixtures("live")
async def test_files_that_retention_takes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stocked(tmp_path / "s", 0, 90)
    files = find_log_files(tmp_path / "s", FILE_SIZE)

    def while_the_first_is_copied(file: object, upto: int) -> str:
        Path(files[1].path).unlink(missing_ok=True)
        return ""

    monkeypatch.setattr(module, "first_damage", while_the_first_is_copied)
    found = backed_up(tmp_path / "s", tmp_path / "b")
    assert found.begin == files[2].base
    assert log_files(found)[0].path == f"commitlog/{files[2].base:020d}"


# -- stopped stores --------------------------------------------------------------------------------
async def test_a_stopped_store_without_its_views_builds_them_again(tmp_path: Path) -> None:
    await stocked(tmp_path / "s", 0, 30)
    found = backed_up(tmp_path / "s", tmp_path / "b")
    assert (found.is_live, found.is_whole, found.left_out) == (
        False, False, ["consumequeue", "index"],
    )  # fmt: skip
    async with store_at(restored(tmp_path / "b", tmp_path / "again")) as again:
        assert len(await again.pulled("T")) == 30
        assert await again.found("T", "k3") == ["body 3"]


async def test_a_store_that_was_killed_keeps_its_torn_tail(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 30)
        image = store.killed(tmp_path / "image")
    last = sorted((image / "commitlog").iterdir())[-1]
    content = bytearray(last.read_bytes())
    end = len(content.rstrip(b"\0")) + 8
    content[end : end + 8] = b"torn off"
    last.write_bytes(content)
    found = backed_up(image, tmp_path / "b", with_views=True)
    assert not found.is_whole
    assert found.damaged == []
    again = restored(tmp_path / "b", tmp_path / "again")
    assert (again / "commitlog" / last.name).read_bytes() == content
    assert (again / "abort").exists()
    async with store_at(again) as reopened:
        assert len(await reopened.pulled("T")) == 30


async def test_a_store_that_is_started_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await stocked(tmp_path / "s", 0, 3)
    answers = iter([False, True])
    monkeypatch.setattr(module, "is_live", lambda directory: next(answers))
    with pytest.raises(StoreLocked):
        backed_up(store, tmp_path / "b", with_views=True)
    assert read_backup(QuickDisk(), tmp_path / "b") is None


def test_an_empty_store(tmp_path: Path) -> None:
    (tmp_path / "s/commitlog").mkdir(parents=True)
    found = backed_up(tmp_path / "s", tmp_path / "b")
    assert (found.begin, found.upto, log_files(found)) == (0, 0, [])
    assert restored(tmp_path / "b", tmp_path / "again").is_dir()


def test_whether_a_store_runs_where_its_lock_may_not_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = QuickDisk()
    assert not is_running(disk, tmp_path)
    (tmp_path / "lock").touch()
    assert not is_running(disk, tmp_path)
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert not is_running(disk, tmp_path)
    (tmp_path / "abort").touch()
    assert is_running(disk, tmp_path)


# -- once more -------------------------------------------------------------------------------------
async def test_full_files_of_the_log_are_copied_once(tmp_path: Path) -> None:
    await stocked(tmp_path / "s", 0, 80)
    first = backed_up(tmp_path / "s", tmp_path / "b")
    inodes = {path.name: path.stat().st_ino for path in (tmp_path / "b/commitlog").iterdir()}
    await stocked(tmp_path / "s", 80, 85)
    second = backed_up(tmp_path / "s", tmp_path / "b")
    full = [f"{base:020d}" for base in range(0, first.upto - FILE_SIZE, FILE_SIZE)]
    assert second.files_known >= len(full) > 1
    assert second.bytes_copied <= first.bytes_copied - len(full) * FILE_SIZE + 1000
    for name in full:
        assert (tmp_path / "b/commitlog" / name).stat().st_ino == inodes[name]
    assert await restored_count(tmp_path) == 85


@pytest.mark.parametrize("which", ["store", "copy", "gone"])
async def test_a_full_file_that_was_touched_is_copied_again(tmp_path: Path, which: str) -> None:
    store = await stocked(tmp_path / "s", 0, 80)
    backed_up(store, tmp_path / "b")
    known = backed_up(store, tmp_path / "b").files_known
    copied = tmp_path / "b" / FILE
    content = copied.read_bytes()
    if which == "store":
        (store / FILE).touch()
    elif which == "copy":
        copied.write_bytes(b"?")
    else:
        copied.unlink()
    assert backed_up(store, tmp_path / "b").files_known == known - 1
    assert copied.read_bytes() == content
    restored(tmp_path / "b", tmp_path / "again")


async def test_what_the_store_no_longer_holds_is_no_part_of_the_copy(tmp_path: Path) -> None:
    store = await stocked(tmp_path / "s", 0, 80)
    backed_up(store, tmp_path / "b", with_views=True)
    assert (tmp_path / "b/consumequeue/T/0").is_dir()
    (store / FILE).unlink()
    found = backed_up(store, tmp_path / "b")
    assert not (tmp_path / "b" / FILE).exists()
    assert not (tmp_path / "b/consumequeue").exists()
    assert found.begin == FILE_SIZE


# -- damage, accidents -----------------------------------------------------------------------------
async def test_a_damaged_store_is_copied_as_it_is_and_said_to_be(tmp_path: Path) -> None:
    store = await stocked(tmp_path / "s", 0, 60)
    content = bytearray((store / FILE).read_bytes())
    content[90] ^= 0xFF
    (store / FILE).write_bytes(content)
    found = backed_up(store, tmp_path / "b")
    assert [file.path for file in found.damaged] == [FILE]
    assert found.damaged[0].damage.startswith("at ")
    assert backed_up(store, tmp_path / "b").damaged == found.damaged
    restored(tmp_path / "b", tmp_path / "again")
    assert (tmp_path / "again" / FILE).read_bytes() == content


@pytest.mark.usefixtures("live")
async def test_records_that_are_missing_below_the_mark(tmp_path: Path) -> None:
    store = await stocked(tmp_path / "s", 0, 30)
    files = sorted((store / "commitlog").iterdir())
    last = [path for path in files if path.read_bytes().strip(b"\0")][-1]
    content = last.read_bytes().rstrip(b"\0")
    last.write_bytes(content[:-30].ljust(FILE_SIZE, b"\0"))
    found = backed_up(store, tmp_path / "b")
    assert found.flushed is not None
    assert found.upto < found.flushed
    assert [file.path for file in found.damaged] == [f"commitlog/{last.name}"]


def test_where_the_first_damage_is(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s")
    places = [log.add("T", queue_offset=number) for number in range(5)]
    log.damage(places[3] + 90, b"??")
    (file,) = log.close().found()
    assert first_damage(file, places[3]) == ""
    assert first_damage(file, log.end).startswith(f"at {places[3]}: ")
    assert first_damage(file, file.end).startswith(f"at {places[3]}: ")


@pytest.mark.parametrize("call", ["sync", "rename", "sync_directory", "write_file"])
async def test_a_backup_that_is_killed_is_noticed_and_gone_on_with(
    tmp_path: Path, call: str
) -> None:
    store = await stocked(tmp_path / "s", 0, 40)
    backed_up(store, tmp_path / "b")
    await stocked(tmp_path / "s", 40, 70)
    disk, skip, unfinished = QuickDisk(), 0, 0
    while True:
        disk.fail(call, PowerCut(), skip=skip)
        try:
            backed_up(store, tmp_path / "b", disk=disk)
        except PowerCut:
            skip += 1
        else:
            break
        if read_backup(disk, tmp_path / "b") is not None:
            restored(tmp_path / "b", tmp_path / f"{skip}")
            continue
        unfinished += 1
        with pytest.raises(NotAStore, match="no backup was finished"):
            restored(tmp_path / "b", tmp_path / "none")
    assert unfinished > 0
    assert sorted(path.name for path in (tmp_path / "b").glob("backup*")) == ["backup.json"]
    assert await restored_count(tmp_path) == 70


async def test_a_first_backup_that_is_killed_is_gone_on_with(tmp_path: Path) -> None:
    store = await stocked(tmp_path / "s", 0, 40)
    (tmp_path / "b/commitlog").mkdir(parents=True)  # What one leaves that is killed at once.
    for name in ("lock", "backup.draft"):
        (tmp_path / "b" / name).touch()
    disk = QuickDisk()
    disk.fail("rename", PowerCut(), skip=3)
    with pytest.raises(PowerCut):
        backed_up(store, tmp_path / "b", disk=disk)
    backed_up(store, tmp_path / "b")
    assert await restored_count(tmp_path) == 40


# -- the place -------------------------------------------------------------------------------------
async def test_a_copy_is_of_one_store(tmp_path: Path) -> None:
    store, other = await stocked(tmp_path / "s", 0, 4), await stocked(tmp_path / "t", 0, 2)
    backed_up(store, tmp_path / "b")
    with pytest.raises(NotAStore, match="it is a copy of"):
        backed_up(other, tmp_path / "b")
    assert read_backup(QuickDisk(), tmp_path / "b") is not None


async def test_a_copy_in_the_store_around_it_or_among_other_things(tmp_path: Path) -> None:
    store = await stocked(tmp_path / "s", 0, 2)
    for copy in (store, store / "backups", tmp_path):
        with pytest.raises(PlaceUnusable, match="it contains the store, or is inside of it; name"):
            backed_up(store, copy)
    assert not (store / "backups").exists()
    (tmp_path / "b").mkdir()
    (tmp_path / "b/letters").touch()
    with pytest.raises(NotAStore, match="letters"):
        backed_up(store, tmp_path / "b")


async def test_a_copy_that_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await stocked(tmp_path / "s", 0, 2)
    backed_up(store, tmp_path / "b")

    def is_taken(lock: DirectoryLock) -> None:
        raise StoreLocked(path=str(lock.path.parent))

    monkeypatch.setattr(DirectoryLock, "acquire", is_taken)
    with pytest.raises(StoreLocked):
        backed_up(store, tmp_path / "b")
    assert read_backup(QuickDisk(), tmp_path / "b") is not None


FOREIGN = ("{", "[]", "7", '{"files": []}', '{"format": "another", "store": "x"}', "[" * 100_000)


@pytest.mark.parametrize("content", FOREIGN)
@pytest.mark.parametrize("name", ["backup.json", "backup.json.before"])
async def test_what_says_of_other_things_that_they_are_a_copy_proves_nothing(
    tmp_path: Path, name: str, content: str
) -> None:
    store = await stocked(tmp_path / "s", 0, 2)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / name).write_text(content)
    (tmp_path / "b/letters").touch()
    with pytest.raises(NotAStore, match="no backup wrote its"):
        backed_up(store, tmp_path / "b")
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == [name, "letters"]
    assert (tmp_path / "b" / name).read_text() == content


async def test_other_files_among_a_copy_stay(tmp_path: Path) -> None:
    store = await stocked(tmp_path / "s", 0, 80)
    (store / "timerwheel").touch()
    copy = tmp_path / "b"
    backed_up(store, copy, with_views=True)
    (copy / "lost+found").mkdir()
    (copy / "thesis.draft").touch()
    (copy / "letters/old").mkdir(parents=True)
    (copy / "letters/a").touch()
    (store / "timerwheel").unlink()
    backed_up(store, copy)
    assert (copy / "thesis.draft").exists()
    assert (copy / "letters/a").exists()
    assert (copy / "letters/old").is_dir()
    assert (copy / "lost+found").is_dir()
    assert not (copy / "timerwheel").exists()
    assert not (copy / "consumequeue").exists()


async def test_nothing_is_taken_away_behind_a_link(tmp_path: Path) -> None:
    store = await stocked(tmp_path / "s", 0, 80)
    copy, far = tmp_path / "b", tmp_path / "far"
    backed_up(store, copy, with_views=True)
    (copy / "consumequeue").rename(far)
    (copy / "consumequeue").symlink_to(far)
    (copy / "config").mkdir(exist_ok=True)
    (copy / "config/old").symlink_to(far)
    before = list(walk(far))
    backed_up(store, copy)
    assert list(walk(far)) == before != []


async def test_the_sums_are_those_any_tool_computes(tmp_path: Path) -> None:
    backed_up(await stocked(tmp_path / "s", 0, 30), tmp_path / "b")
    document = json.loads((tmp_path / "b/backup.json").read_bytes())
    for file in document["files"]:
        content = (tmp_path / "b" / file["path"]).read_bytes()
        assert (len(content), sha256(content).hexdigest()) == (file["size"], file["sha256"])
    listed = {file["path"] for file in document["files"]} | {"backup.json", "lock"}
    assert set(walk(tmp_path / "b")) == listed


@pytest.mark.usefixtures("live")
def test_a_running_store_is_copied_with_what_its_timer_has(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store, copy = golden.copy("semantics", tmp_path / "s"), tmp_path / "copy"
    sizes = golden_tool_sizes(golden, "semantics")
    made = backed_up(store, copy, sizes=sizes)
    paths = [file.path for file in made.files]
    log = next(at for at, path in enumerate(paths) if path.startswith("commitlog/"))
    assert paths.index("config/timercheck") < paths.index("timerlog/00000000000000005200") < log
    assert "timerwheel" in made.left_out
    again = restored(copy, tmp_path / "again")
    assert (again / "config" / "timercheck").read_bytes() == (
        (store / "config" / "timercheck").read_bytes()
    )
    found = verify(Disk(), again, sizes, VerifyOptions(log_only=True))
    assert found.counts == {}


def test_a_stopped_store_is_copied_with_its_timer(golden: GoldenStores, tmp_path: Path) -> None:
    store, copy = golden.copy("semantics", tmp_path / "s"), tmp_path / "copy"
    sizes = golden_tool_sizes(golden, "semantics")
    backed_up(store, copy, sizes=sizes, with_views=True)
    again = restored(copy, tmp_path / "again")
    assert files_below(again / "timerlog") == files_below(store / "timerlog")
    assert (again / "timerwheel").read_bytes() == (store / "timerwheel").read_bytes()
    found = verify(Disk(), again, sizes)
    assert (found.counts, found.notes) == ({}, [])
