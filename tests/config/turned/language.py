"""How a test turns a setting: a store or a whole broker as an operator would start it.

    async with store_with(tmp_path, "store.flush=async") as store:
        await store.send("T", "a")
    async with broker_with(tmp_path, "broker.name=b7") as broker:
        await broker.client.admin.store_status()

Files are small, so that everything rolls. In a store time stands still; `passed` lets some pass and
returns when the store has looked at the clock since, so that what has not happened then will not.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from broker import app
from broker.client.broker import BrokerClient
from broker.config.load import load
from broker.store.message_store import open_store
from tests.fakes.clock import FakeClock
from tests.fakes.quick_disk import QuickDisk
from tests.fakes.store_language import TalkingStore, until

SMALL: Final = (
    "store.commit_log_file_size_bytes=64KiB",
    "store.consume_queue_file_size_bytes=2000",
    "store.index_slot_count=8",
    "store.index_entry_count_max=16",
    "store.time_zone=UTC",
    "limits.max_message_size_bytes=16KiB",
)
OFTEN: Final = ("store.flush=async", "store.flush_interval_ms=1", "store.view_flush_interval_ms=1")
"""Timers that let the store look at the clock all the time."""
LOOKS: Final = 8
"""More than one round of all timers takes."""


class WatchedClock(FakeClock):
    """Time that stands still, and counts who looks at it."""

    looks = 0

    def monotonic_ms(self) -> int:
        """Return the time that never goes back."""
        self.looks += 1
        return self.monotonic


class TurnedStore(TalkingStore):
    """A store opened with some settings."""

    clock: WatchedClock
    disk: QuickDisk

    @property
    def directory(self) -> Path:
        """Where it lies."""
        return self.store.settings.directory

    async def passed(self, by_ms: int) -> None:
        """Let time pass, and the store do what is due since."""
        self.clock.advance(by_ms)
        enough = self.clock.looks + LOOKS
        await until(lambda: self.clock.looks >= enough)

    def files(self, below: str) -> dict[str, int]:
        """Lengths of the files of a part of the store, by name."""
        found = sorted((self.directory / below).rglob("*"))
        return {path.name: path.stat().st_size for path in found if path.is_file()}

    def is_synced(self, below: str) -> bool:
        """Whether a file there was synced since the disk was last told to forget."""
        return any(self.directory / below in path.parents for path in self.disk.synced)


@asynccontextmanager
async def store_with(directory: Path, *assignments: str) -> AsyncIterator[TurnedStore]:
    """Open a store as the settings say, its next log file made, and close it in the end."""
    config = load(assignments=[*SMALL, f"store.directory={directory}", *assignments])
    clock, disk = WatchedClock(), QuickDisk()
    store = await open_store(config.store_settings(), clock, disk)
    turned = TurnedStore(store, clock, disk)
    try:
        await turned.stocked()
        yield turned
    finally:
        await store.close()


class TurnedBroker(NamedTuple):
    """A broker that serves: the addresses it bound, a client, how to stop it, and its end."""

    addresses: Mapping[str, Any]
    client: BrokerClient
    stop: asyncio.Future[str]
    serving: asyncio.Task[int]


@asynccontextmanager
async def broker_with(directory: Path, *assignments: str) -> AsyncIterator[TurnedBroker]:
    """Start a broker in this process as the settings say, and stop it in the end."""
    ports = ("rpc.listen=127.0.0.1:0", "http.listen=127.0.0.1:0")
    config = load(assignments=[*SMALL, *ports, f"store.directory={directory}", *assignments])
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[Mapping[str, Any]] = loop.create_future()
    stop: asyncio.Future[str] = loop.create_future()
    serving = asyncio.create_task(app.serve(config, ready.set_result, stop))
    await asyncio.wait((serving, ready), return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        serving.result()
    async with BrokerClient(ready.result()["grpc"]) as client:
        try:
            yield TurnedBroker(ready.result(), client, stop, serving)
        finally:
            if not stop.done():
                stop.set_result("test")
            await serving
