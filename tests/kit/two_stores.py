"""A store that leads and one that copies its log, in one process.

async with two_stores(tmp_path) as pair:
    await pair.leader.send("orders", "a")
    await pair.copy(pieces=7)                  in pieces of 7 bytes
    assert pair.copied == pair.led             the bytes of both logs
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pocketmq.store.message_store import MessageStore
from pocketmq.store.write.log_copy import LogCopy
from tests.kit.store_language import TalkingStore, store_at, until

LEADER = "10.0.0.1:8081"


class TwoStores:
    """A leader and its follower."""

    def __init__(self, leader: TalkingStore, follower: TalkingStore) -> None:
        self.leader, self.follower = leader, follower

    @property
    def log_copy(self) -> LogCopy:
        """The follower's copy of the log."""
        copy = self.follower.store.copy
        assert copy is not None
        return copy

    async def copy(self, *, pieces: int = 1 << 20, upto: int | None = None) -> None:
        """Copies the leader's log up to an offset, by default all of it."""
        log, end = self.leader.store.log, self.leader.store.appended if upto is None else upto
        while (at := self.log_copy.end) < end:
            size = min(pieces, end - at, log.file_size_bytes - at % log.file_size_bytes)
            await self.log_copy.append(at, log.read(at, size))

    async def show(self) -> None:
        """Makes the follower's whole log visible, as marks of the leader would."""
        store = self.follower.store
        store.marks.replicate(self.leader.store.appended, self.leader.store.marks.appended.time_ms)
        await store.writing.durability.drain()
        await until(lambda: store.dispatched >= store.appended)

    @property
    def led(self) -> bytes:
        """The leader's log."""
        return log_bytes(self.leader.store)

    @property
    def copied(self) -> bytes:
        """The follower's log."""
        return log_bytes(self.follower.store)


def log_bytes(store: MessageStore) -> bytes:
    """Returns the bytes of a store's log, from its first file to its end."""
    log, end, size = store.log, store.appended, store.log.file_size_bytes
    bases = range(log.min_offset, end, size)
    return b"".join(log.read(base, min(size, end - base)) for base in bases)


@asynccontextmanager
async def two_stores(directory: Path, **settings: Any) -> AsyncIterator[TwoStores]:
    """Opens both stores below a directory, with small files, and closes them in the end."""
    async with (
        store_at(directory / "leader", **settings) as leader,
        store_at(directory / "follower", leader=LEADER, **settings) as follower,
    ):
        yield TwoStores(leader, follower)
