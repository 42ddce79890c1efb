"""States that a crash within a call leaves, at each line of the broker and each disk call.

    points = CrashPoints(disk, clock, Random(7), cuts=2)
    with points.taken():
        await call()
    points.found        each differs from all before

    kill -9       every state of the files as programs see them, after each line
    power cut     `cuts` of the subsets that each call of the disk may leave
    log behind    only with `is_log_behind`: at each call of the disk the power cut that leaves of
                  the log its durable bytes, and of all other files their live bytes

For compiled modules the lines are those of their callers. Nothing runs in other threads.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, Final, NamedTuple

from pocketmq.model.step import Clock, Now
from tests.sim.disk import SimDisk
from tests.sim.disk_image import File, Image

BROKER: Final = f"{Path(__file__).resolve().parents[2] / 'broker' / 'pocketmq'}/"

LOG_FOLDER: Final = "commitlog"


class Point(NamedTuple):
    """A crash state; `where` names the file and line, or the call of the disk."""

    image: Image
    now: Now
    where: str
    is_kill: bool


class CrashPoints:
    """The crashes within a call."""

    def __init__(
        self, disk: SimDisk, clock: Clock, random: Random, *, cuts: int, is_log_behind: bool = False
    ) -> None:
        self.found: list[Point] = []
        self._disk = disk
        self._clock = clock
        self._random = random
        self._cuts = cuts
        self._is_log_behind = is_log_behind
        self._keys: set[int] = set()
        self._known: dict[int, bytes] = {}
        self._before: Any = None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Records crash states while the block runs."""
        assert self._disk.hook is None, "nobody else looks"
        self._before = before = sys.gettrace()
        self._disk.hook = self._called
        if not self._is_log_behind:
            sys.settrace(self._entered)
        try:
            yield
        finally:
            sys.settrace(before)
            self._disk.hook = None
        self.take("the end")

    def take(self, where: str) -> None:
        """Records the states that a kill and power cuts leave now."""
        if self._is_log_behind:
            self._add(self._disk.image.copy(behind=LOG_FOLDER), where, is_kill=False)
            return
        self._add(self._disk.image.copy(), where, is_kill=True)
        for _ in range(self._cuts):
            cut = self._disk.image.cut(Random(self._random.getrandbits(32)))
            self._add(cut, where, is_kill=False)

    def _add(self, image: Image, where: str, *, is_kill: bool) -> None:
        key = image.key()
        if key not in self._keys:
            self._keys.add(key)
            now = Now(self._clock.monotonic_ms(), self._clock.wall_ms())
            self.found.append(Point(image, now, where, is_kill))

    def _called(self, call: str, path: Path) -> None:
        self.take(f"{call} {path}")

    def _entered(self, frame: FrameType, event: str, given: Any) -> Any:
        """Traces the lines of the broker, along with the tracer that was set before."""
        passed = self._passed if frame.f_code.co_filename.startswith(BROKER) else None
        other = None if self._before is None else self._before(frame, event, given)
        if passed is None or other is None:
            return passed or other

        def both(frame: FrameType, event: str, given: Any) -> Any:
            passed(frame, event, given)
            other(frame, event, given)
            return both

        return both

    def _passed(self, frame: FrameType, event: str, _: Any) -> Any:
        changed = [file for file in self._disk.image.open_files.values() if self._is_other(file)]
        if changed:
            name = frame.f_code.co_filename.removeprefix(BROKER)
            self._add(self._disk.image.copy(), f"{name}:{frame.f_lineno}", is_kill=True)
        return self._passed

    def _is_other(self, file: File) -> bool:
        """Returns whether a mapped file changed since the last look."""
        if file.content == self._known.get(id(file)):
            return False
        self._known[id(file)] = file.content
        return True
