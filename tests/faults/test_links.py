"""Links, FIFOs, sockets and directories in the places of a store's files: nothing outside changes.

Every file, draft and directory of a store is a link to a victim beside it, one after the other. A
start opens or refuses, a tool refuses, a copy holds no victim.
"""

import os
import shutil
import socket
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.model.errors import BrokerError, NotAPlainFile, NotAStore
from pocketmq.model.roster import Roster
from pocketmq.store.tables.users import UserTable
from pocketmq.tools.store_access import check_access
from pocketmq.tools.users import changed_roster
from tests.kit.backed_up import backed_up, restored, stocked
from tests.kit.golden_log import files_below
from tests.kit.store_language import store_at

SECRET = b"what lies beside the store"
FILES = (
    *("checkpoint", "abort", "lock", "pocketmq/watermark", "pocketmq/store.json"),
    *("pocketmq/queue_ends.json", "pocketmq/reserve", "pocketmq/order.journal"),
    *("pocketmq/access.json", "pocketmq/removed.json", "config/topics.json"),
    "pocketmq/floors.json",
    *("config/consumerOffset.json", "config/timercheck", "config/topics.json.bak"),
    *("commitlog/00000000000000000000", "consumequeue/T/0/00000000000000000000"),
)
DRAFTS = (
    *("abort.draft", "pocketmq/store.json.draft", "pocketmq/watermark.draft"),
    *("config/topics.json.draft", "config/consumerOffset.json.draft", "pocketmq/commitlog.draft"),
    *("pocketmq/queue_ends.json.draft", "pocketmq/order.journal.draft"),
)
DIRECTORIES = ("config", "pocketmq", "consumequeue", "consumequeue/T", "consumequeue/T/0", "index")


@pytest.fixture
async def store(tmp_path: Path) -> Path:
    """A store that was stopped in order, with topics, groups and offsets."""
    directory = await stocked(tmp_path / "s", 0, 30)
    await _used(directory)
    return directory


async def _used(directory: Path) -> None:
    """Opens a store, writes to everything there is, and closes it."""
    async with store_at(directory, disk=Disk()) as store:
        tables = store.store.tables
        await tables.topics.ensure("T", 1)
        before = tables.offsets.find("g", "T", 0) or 0
        await tables.commit("g", "T", 0, before + 1)
        await store.send("T", "one more")
        await store.settled()


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file beside the store."""
    path = tmp_path / "victim"
    path.write_bytes(SECRET)
    path.chmod(0o604)
    return path


def check_untouched(victim: Path) -> None:
    assert victim.read_bytes() == SECRET
    assert stat.S_IMODE(victim.stat().st_mode) == 0o604


def in_place(path: Path) -> Path:
    """Makes room for something else at a place."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    return path


async def opened_or_refused(directory: Path) -> BrokerError | None:
    try:
        await _used(directory)
    except BrokerError as error:
        return error
    return None


# -- a running broker ------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [*FILES, *DRAFTS])
async def test_a_link_in_the_place_of_a_file_never_reaches_its_target(
    store: Path, victim: Path, name: str
) -> None:
    in_place(store / name).symlink_to(victim)
    await opened_or_refused(store)
    check_untouched(victim)


@pytest.mark.parametrize("name", ["checkpoint", "pocketmq/watermark", "config/topics.json"])
async def test_a_link_in_the_place_of_a_file_is_refused(
    store: Path, victim: Path, name: str
) -> None:
    in_place(store / name).symlink_to(victim)
    with pytest.raises(NotAPlainFile, match=f"{name} is not opened: it is a symbolic link"):
        await _used(store)


@pytest.mark.parametrize("name", DIRECTORIES)
async def test_a_link_in_the_place_of_a_directory_leads_nowhere(
    store: Path, tmp_path: Path, name: str
) -> None:
    outside = tmp_path / "outside"
    shutil.move(store / name, outside)
    before = files_below(outside)
    (store / name).symlink_to(outside)
    assert isinstance(await opened_or_refused(store), NotAPlainFile | NotAStore)
    assert files_below(outside) == before


@pytest.mark.parametrize("name", DIRECTORIES)
def test_a_link_made_after_the_start_in_the_place_of_a_directory_is_not_entered(
    store: Path, tmp_path: Path, name: str
) -> None:
    disk = Disk()
    disk.enclosure.add(store)
    shutil.move(store / name, tmp_path / "outside")
    (store / name).symlink_to(tmp_path / "outside")
    with pytest.raises(NotAPlainFile, match=f"{name} is not opened: it is a symbolic link"):
        disk.exists(store / name / "any")


@pytest.mark.parametrize("name", [*FILES, *DRAFTS])
@pytest.mark.parametrize("kind", ["fifo", "socket", "directory"])
async def test_what_is_no_file_is_refused_and_not_waited_for(
    store: Path, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = in_place(store / name)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        monkeypatch.chdir(path.parent)  # Addresses of sockets are short.
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    await opened_or_refused(store)


async def test_the_store_and_its_log_may_be_links(store: Path, tmp_path: Path) -> None:
    """As an operator makes them, for another disk; the owner of the link is the broker's user."""
    shutil.move(store / "commitlog", tmp_path / "other disk")
    (store / "commitlog").symlink_to(tmp_path / "other disk")
    (tmp_path / "link").symlink_to(store)
    async with store_at(tmp_path / "link", disk=Disk()) as opened:
        assert await opened.pulled("T") == [*(f"body {n}" for n in range(30)), "one more"]


async def test_a_link_of_another_user_in_the_place_of_the_log_is_refused(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.move(store / "commitlog", tmp_path / "other disk")
    (store / "commitlog").symlink_to(tmp_path / "other disk")
    mine = os.geteuid() or 4711
    os.lchown(store / "commitlog", mine, -1)
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert isinstance(await opened_or_refused(store), NotAPlainFile | NotAStore)


def test_secrets_are_never_written_through_a_link(tmp_path: Path, victim: Path) -> None:
    store = tmp_path / "s"
    (store / "pocketmq").mkdir(parents=True)
    (store / "pocketmq/access.json.draft").symlink_to(victim)
    with changed_roster(store) as roster:
        roster.grants.clear()
    table = UserTable(Disk(), store)
    table.roster = Roster()
    table._file.write(b"secrets")
    table.close()
    assert victim.read_bytes() == SECRET
    assert stat.S_IMODE((store / "pocketmq/access.json").stat().st_mode) == 0o600


async def test_what_is_made_is_the_brokers_and_its_groups(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = await stocked(tmp_path / "s", 0, 30)
        await _used(store)
    finally:
        os.umask(before)
    modes = {
        (path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in [store, *store.rglob("*")]
    }
    assert modes == {(True, 0o750), (False, 0o640)}


# -- tools -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [*FILES, *DRAFTS[1:], "index/x", "consumequeue/T/7/1"])
def test_a_tool_refuses_a_store_with_links(store: Path, victim: Path, name: str) -> None:
    in_place(store / name).symlink_to(victim)
    with pytest.raises((NotAPlainFile, NotAStore), match="symbolic link"):
        check_access(Disk(), store, read_only=True)


def test_a_link_elsewhere_in_the_directory_is_nobodys_trouble(store: Path, victim: Path) -> None:
    (store / "notes").symlink_to(victim)
    check_access(Disk(), store, read_only=True)


def test_a_copy_holds_nothing_a_link_leads_to(store: Path, victim: Path) -> None:
    (store / "config/old.json").symlink_to(victim)
    with pytest.raises(NotAPlainFile, match=r"old\.json"):
        backed_up(store, store.with_name("b"), disk=Disk())
    assert not store.with_name("b").exists()


@pytest.mark.parametrize("name", ["backup.draft", "backup.json.before", "abort", "config"])
def test_a_copy_is_not_written_through_links(
    store: Path, tmp_path: Path, victim: Path, name: str
) -> None:
    copy, outside = tmp_path / "b", tmp_path / "outside"
    backed_up(store, copy, disk=Disk())
    outside.mkdir()
    in_place(copy / name).symlink_to(outside if name == "config" else victim)
    with suppress(NotAPlainFile):
        backed_up(store, copy, disk=Disk())
    check_untouched(victim)
    assert files_below(outside) == {}


def test_nothing_is_restored_from_a_link(store: Path, tmp_path: Path, victim: Path) -> None:
    copy = tmp_path / "b"
    backed_up(store, copy, disk=Disk())
    path = copy / "config/topics.json"
    victim.write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(victim)
    with pytest.raises(NotAPlainFile, match="symbolic link"):
        restored(copy, tmp_path / "again")
    assert not (tmp_path / "again").exists()
