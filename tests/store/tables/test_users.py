"""Users are durable when `save` returns, and other accounts cannot read their file."""

import stat
from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.model.access import User
from pocketmq.model.errors import TableUnreadable
from pocketmq.store.tables.users import UserTable
from tests.kit.users import grant_of
from tests.sim.disk import SimDisk

APP = User("app", "secret")
PLACE = Path("/store")
FILE = PLACE / "pocketmq" / "access.json"
BEFORE = FILE.with_name("access.json.bak")


def loaded(disk: SimDisk) -> UserTable:
    table = UserTable(disk, PLACE)
    table.load()
    return table


async def test_what_was_saved_is_there_after_a_crash() -> None:
    disk = SimDisk()
    table = loaded(disk)
    table.roster.add(APP)
    await table.save()
    table.roster.grant(grant_of("app", "pub", "topic:t"))
    await table.save()
    table.close()
    found = loaded(SimDisk(disk.image)).roster
    assert (found.users, found.grants) == ({"app": APP}, [grant_of("app", "pub", "topic:t")])


async def test_a_file_that_cannot_be_read_is_told_and_no_empty_one() -> None:
    disk = SimDisk()
    disk.make_directory(PLACE / "pocketmq")
    disk.write_file(PLACE / "pocketmq" / "access.json", b"{")
    with pytest.raises(TableUnreadable, match=r"access\.json"):
        loaded(disk)


async def test_nobody_else_may_read_the_file(tmp_path: Path) -> None:
    table = UserTable(Disk(), tmp_path)
    table.load()
    for key in ("a", "b"):
        table.roster.add(User(key, "secret"))
        await table.save()
    table.close()
    (file,) = (tmp_path / "pocketmq").iterdir()
    assert file.name == "access.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_what_was_taken_away_stands_nowhere_and_does_not_come_back() -> None:
    disk = SimDisk()
    table = loaded(disk)
    table.roster.add(APP)
    await table.save()
    before = disk.read_file(FILE)
    disk.write_file(BEFORE, before)  # As a broker left it that kept the version before.
    table.roster.change(APP.access_key, secret="another")
    await table.save()
    table.close()
    after = SimDisk(disk.image)
    assert after.names(FILE.parent) == [FILE.name]
    assert loaded(after).roster.users == {"app": APP._replace(secret="another")}


async def test_a_file_that_was_damaged_does_not_give_way_to_the_one_before() -> None:
    disk = SimDisk()
    table = loaded(disk)
    table.roster.add(APP)
    await table.save()
    table.close()
    disk.rename(FILE, BEFORE)
    assert loaded(disk).roster.users == {"app": APP}, "a crash of an older broker left it alone"
    disk.write_file(FILE, b"{")
    with pytest.raises(TableUnreadable, match=r"access\.json"):
        loaded(disk)
