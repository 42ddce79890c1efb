"""The ids of a store in replication: `pocketmq/identity.json`.

    {"follower": "5f0c…", "store": "9a41…"}

`follower` names this directory: a leader counts one follower once, whatever its address. `store`
names the log: a follower takes over the id of its leader, so that it follows no other log. The
file is made when a broker first leads or follows.
Source: none; RocketMQ's slaves have no identity.
"""

import json
from pathlib import Path
from secrets import token_hex
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.files.table_file import TableFile
from pocketmq.format.json_text import read_object
from pocketmq.format.names import IDENTITY_FILE, OWN_DIRECTORY

ID_BYTES: Final = 16
MEMBERS: Final = ("follower", "store")


class StoreIdentity:
    """The ids of one store, "" for a missing one. Writes are durable, and block.

    A write that raises DiskFull or StoreFailed changes no attribute; after FsyncFailed, the file
    may have the new content.
    """

    __slots__ = ("_file", "follower", "store")

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._file = TableFile(disk, directory / OWN_DIRECTORY / IDENTITY_FILE)
        self.follower = ""
        self.store = ""

    def load(self) -> None:
        """Reads the file; a missing one counts as empty.

        Errors   TableUnreadable, ReadFailed
        """
        found = self._file.read(_decode)
        if found is not None:
            self.follower, self.store = found

    def lead(self) -> None:
        """Makes the ids that are missing.

        Errors   DiskFull, StoreFailed
        """
        self._write(self.follower or _new_id(), self.store or _new_id())

    def begin_to_follow(self) -> None:
        """Makes the follower's id if it is missing.

        Errors   DiskFull, StoreFailed
        """
        self._write(self.follower or _new_id(), self.store)

    def renew(self) -> None:
        """Makes another follower's id, as this directory is a copy of another one.

        Errors   DiskFull, StoreFailed
        """
        self._write(_new_id(), self.store)

    def follow(self, store: str) -> None:
        """Takes over the id of the leader's store, before any byte of its log is stored.

        Errors   DiskFull, StoreFailed
        """
        self._write(self.follower or _new_id(), store)

    def _write(self, follower: str, store: str) -> None:
        if (follower, store) == (self.follower, self.store):
            return
        self._file.write(json.dumps({"follower": follower, "store": store}).encode())
        self.follower, self.store = follower, store
        assert self.follower


def _new_id() -> str:
    return token_hex(ID_BYTES)


def _decode(content: bytes) -> tuple[str, str]:
    found = read_object(content)
    follower, store = (found.get(name) for name in MEMBERS)
    if not isinstance(follower, str) or not isinstance(store, str):
        raise ValueError("an id is no text")
    return follower, store
