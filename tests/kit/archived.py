"""Archives of small stores.

archive = Archive(tmp_path)
archive.ship()                      a round of the store in tmp_path / "s"
await archive.bodies()              what the store of the last moment has in T
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pocketmq.rebuild.log_files import KnownShape
from pocketmq.tools.archive.moments import last_time, read_moment
from pocketmq.tools.archive.objects import Objects, open_objects
from pocketmq.tools.archive.restoring import restore_moment
from pocketmq.tools.archive.shipping import Shipped, Shipper
from tests.kit.backed_up import NOW_MS, SIZES
from tests.kit.store_language import store_at
from tests.sim.quick_disk import QuickDisk


class Stopped(Exception):
    """The shipper was killed."""


class FailingObjects(Objects):
    """Objects that fail before the write number `fails_at`, counted from 0."""

    def __init__(self, objects: Objects, fails_at: int) -> None:
        super().__init__(objects.target, objects.directory)
        self._objects = objects
        self._left = fails_at

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        """Writes an object, or fails as the test planned."""
        self._count()
        self._objects.put(name, pieces)

    def take(self, name: str, path: Path) -> None:
        """Moves an object, or fails as the test planned."""
        self._count()
        self._objects.take(name, path)

    def get(self, name: str) -> Iterator[bytes]:
        """Returns an object's bytes."""
        return self._objects.get(name)

    def opened(self, name: str) -> Any:
        """Opens an object for reading."""
        return self._objects.opened(name)

    def names(self, prefix: str) -> list[str]:
        """Returns the names of objects."""
        return self._objects.names(prefix)

    def delete(self, name: str) -> None:
        """Removes an object, or fails as the test planned."""
        self._count()
        self._objects.delete(name)

    def mend(self) -> None:
        """Ends the failures."""
        self._left = sys.maxsize

    def _count(self) -> None:
        if not self._left:
            raise Stopped
        self._left -= 1
        assert self._left >= 0


class BusyObjects(FailingObjects):
    """Objects that call a function before the next write after `call` was set."""

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects, -1)
        self.call: Callable[[], object] | None = None

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        """Writes an object, after the call."""
        call, self.call = self.call, None
        if call is not None:
            call()
        super().put(name, pieces)

    def _count(self) -> None:
        pass


class Archive:
    """A store's archive, and the clock of its shipper."""

    def __init__(
        self, place: Path, target: str = "", *,
        store: Path | None = None, sizes: KnownShape = SIZES,
    ) -> None:  # fmt: skip
        self._place = place
        self._store = store or place / "s"
        self._sizes = sizes
        self.now_ms = NOW_MS
        self.objects = open_objects(QuickDisk(), target or str(place / "a"))
        self._shipper: Shipper | None = None
        self._restored = 0
        assert self.now_ms > 0

    def begin(self, objects: Objects | None = None) -> None:
        """Starts another shipper for the same archive."""
        self._shipper = Shipper(
            QuickDisk(), self._store, objects or self.objects, self._sizes,
            now_ms=lambda: self.now_ms,
        )  # fmt: skip

    def follow(self, store: Path) -> None:
        """Ships another store from now on."""
        self._store, self._shipper = store, None

    def ship(self) -> Shipped:
        """Runs a round, a second later than the last one."""
        if self._shipper is None:
            self.begin()
        assert self._shipper is not None
        self.now_ms += 1_000
        return self._shipper.round()

    def ship_alone(self) -> Shipped:
        """Runs a round without upkeep, a second later than the last one."""
        assert self._shipper is not None
        self.now_ms += 1_000
        return self._shipper.ship()

    def upkeep(self) -> str:
        """Runs the upkeep."""
        assert self._shipper is not None
        return self._shipper.upkeep()

    def prune(self, keep_ms: int) -> None:
        """Removes old moments."""
        assert self._shipper is not None
        self._shipper.prune(keep_ms)

    def restored(self, at_ms: int | None = None) -> Path:
        """Makes a store of the last moment before a time."""
        found = last_time(self.objects, at_ms)
        assert found is not None
        self._restored += 1
        directory = self._place / f"{Path(self.objects.target).name}-again{self._restored}"
        restore_moment(QuickDisk(), self.objects, read_moment(self.objects, found), directory)
        return directory

    async def bodies(self, at_ms: int | None = None) -> list[str]:
        """Returns the messages in T of the restored store."""
        async with store_at(self.restored(at_ms)) as store:
            return await store.pulled("T")
