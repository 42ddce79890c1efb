"""Users and their grants: `pocketmq/access.json`, readable only by the broker's system user.

Signatures cannot be checked without the secrets, so the file contains them in clear text. There is
no `.bak` file, as removed users and old secrets could be restored from it.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pocketmq.files.disk import Disk
from pocketmq.files.table_file import TableFile
from pocketmq.format.names import ACCESS_FILE, OWN_DIRECTORY
from pocketmq.format.roster_json import decode_roster, encode_roster
from pocketmq.model.roster import Roster
from pocketmq.store.tables.durable_table import DurableTable, Encode, Revert


class UserTable:
    """The users of one store; a caller changes `roster`, then awaits `save`.

    A refused write replaces `roster` by the users of the file.
    """

    __slots__ = ("_durable", "_file", "_pool", "_revert", "roster")

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._file = TableFile(disk, directory / OWN_DIRECTORY / ACCESS_FILE, is_private=True)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="users")
        self._durable = DurableTable(self._file, self._pool, self._snapshot)
        self.roster = Roster()
        self._revert = self._durable.revert = Revert(self._copy, self._restore)

    def load(self) -> None:
        """Reads the table, if it exists.

        Errors   TableUnreadable: the file cannot be parsed; ReadFailed
        """
        self.roster = self._file.read(decode_roster) or Roster()
        self._revert.loaded()

    def _copy(self) -> Roster:
        roster = Roster(self.roster.users.values(), self.roster.grants)
        assert roster.users == self.roster.users, "the copy differs"
        return roster

    def _restore(self, roster: Roster) -> None:
        self.roster = roster

    def _snapshot(self) -> Encode:
        roster = self._copy()
        return lambda: encode_roster(roster)

    async def save(self) -> None:
        """Waits until every change of the roster so far is durable.

        Errors   DiskFull: they are undone; NotReplicated, StoreFailed
        """
        self._durable.touch()
        await self._durable.saved()

    def close(self) -> None:
        """Ends the thread after the write in progress."""
        self._pool.shutdown()
