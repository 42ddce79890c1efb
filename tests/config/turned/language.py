"""How a test turns a setting: a store as an operator would start it.

    async with store_with(tmp_path, "store.flush=async") as store:
        await store.send("T", "a")

Files are small, so that everything rolls. In a store time stands still; `passed` lets some pass and
returns when the store has looked at the clock since, so that what has not happened then will not.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from pocketmq.config.load import load
from pocketmq.store.message_store import open_store
from tests.kit.store_language import TalkingStore, until
from tests.running_broker import SMALL
from tests.sim.clock import FakeClock
from tests.sim.quick_disk import QuickDisk

OFTEN: Final = (
    "store.flush=async",
    "store.flush_interval_ms=1ms",
    "store.view_flush_interval_ms=1ms",
)
"""Timers that let the store look at the clock all the time."""
LOOKS: Final = 8
"""More than one round of all timers takes."""


class WatchedClock(FakeClock):
    """Time that stands still, and counts who looks at it."""

    looks = 0

    def monotonic_ms(self) -> int:
        """Returns the time that never goes back."""
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
        """Advances the clock and runs the steps of the store that are due."""
        self.clock.advance(by_ms)
        enough = self.clock.looks + LOOKS
        await until(lambda: self.clock.looks >= enough)

    async def happens_after(
        self, by_ms: int, has_happened: Callable[[], bool], *, within_ms: int = 1
    ) -> None:
        """Checks that an effect is absent after `by_ms`, and present `within_ms` later."""
        await self.passed(by_ms)
        assert not has_happened()
        await self.passed(within_ms)
        await until(has_happened)

    def files(self, below: str) -> dict[str, int]:
        """Lengths of the files of a part of the store, by name."""
        found = sorted((self.directory / below).rglob("*"))
        return {path.name: path.stat().st_size for path in found if path.is_file()}

    def is_synced(self, below: str) -> bool:
        """Whether a file there was synced since the disk was last told to forget."""
        return any(self.directory / below in path.parents for path in self.disk.synced)


@asynccontextmanager
async def store_with(directory: Path, *assignments: str) -> AsyncIterator[TurnedStore]:
    """Opens a store as the settings say, its next log file made, and closes it in the end."""
    config = load(assignments=[*SMALL, f"store.directory={directory}", *assignments])
    clock, disk = WatchedClock(), QuickDisk()
    store = await open_store(config.store_settings(), clock, disk)
    turned = TurnedStore(store, clock, disk)
    try:
        await turned.stocked()
        yield turned
    finally:
        await store.close()
