"""The ids of a store in replication: made once, kept, and taken over."""

from pathlib import Path

import pytest

from pocketmq.format.names import IDENTITY_FILE
from pocketmq.model.errors import DiskFull, TableUnreadable
from pocketmq.store.tables.identity import StoreIdentity
from tests.sim.quick_disk import QuickDisk, full_disk


def read(directory: Path) -> tuple[str, str]:
    found = StoreIdentity(QuickDisk(), directory)
    found.load()
    return found.follower, found.store


def test_a_leader_makes_both_ids_once(tmp_path: Path) -> None:
    identity = StoreIdentity(QuickDisk(), tmp_path)
    identity.load()
    assert (identity.follower, identity.store) == ("", "")
    identity.lead()
    made = identity.follower, identity.store
    assert len(set(made)) == len(made)
    assert all(len(one) == 32 for one in made)
    identity.lead()
    assert read(tmp_path) == made


def test_a_follower_takes_over_the_store_and_keeps_its_own_id(tmp_path: Path) -> None:
    identity = StoreIdentity(QuickDisk(), tmp_path)
    identity.begin_to_follow()
    own = identity.follower
    assert read(tmp_path) == (own, "")
    identity.follow("s1")
    assert read(tmp_path) == (own, "s1")
    identity.lead()
    assert read(tmp_path) == (own, "s1"), "a promoted follower has the log of its leader"
    identity.renew()
    assert read(tmp_path)[0] not in {"", own}


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    disk = QuickDisk()
    identity = StoreIdentity(disk, tmp_path)
    disk.fail("rename", full_disk())
    with pytest.raises(DiskFull):
        identity.lead()
    assert identity.follower == ""


@pytest.mark.parametrize("content", [b"", b"[]", b'{"follower": 1, "store": ""}', b"{}"])
def test_an_unreadable_file_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "pocketmq" / IDENTITY_FILE
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(TableUnreadable):
        StoreIdentity(QuickDisk(), tmp_path).load()
