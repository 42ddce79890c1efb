"""A stop that wrote its list of the views and ended before its abort mark was clean."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.names import ABORT_FILE
from pocketmq.store.recovery.start import StoreStart
from pocketmq.tools.inspect import describe
from pocketmq.tools.verify.verification import verify
from tests.kit.store_language import store_at, view_files
from tests.kit.tool_sizes import shape_of
from tests.sim.crash_recovery import Started, Tally, recover
from tests.sim.crash_workload import STORE, Cut, Life
from tests.sim.disk_image import File, Folder, Image

SEEDS = range(6)


class Stopping(Life):
    """A life of which cuts are taken at each call from the list of the views on."""

    def is_listing(self) -> bool:
        """Returns whether the list is written, or was."""
        manifest = self.store._structures.manifest if self.store is not None else None
        return manifest is not None and manifest.closed is not None

    def _on_call(self, call: str, path: Path) -> None:
        self.calls[call] = self.calls.get(call, 0) + 1
        if self.is_listing() and len(self.cuts) < 50:
            promise = self.promise(call)
            for image in (self.disk.image.cut(Random(len(self.cuts))), self.disk.image.copy()):
                self.cuts.append(Cut(image, promise, self.rng.getrandbits(32)))


def has_both(image: Image) -> bool:
    """Returns whether a crash state has the abort mark and the list."""
    store = image.find(STORE)
    assert isinstance(store, Folder)
    manifest = image.find(STORE / "pocketmq/store.json")
    if not isinstance(manifest, File):  # It is being replaced.
        return False
    return ABORT_FILE in store.live and json.loads(manifest.content)["closed"] is not None


def begun(image: Image, geometry: dict[str, int]) -> tuple[Started, StoreStart]:
    """Starts the store of a crash state; returns it, and the start."""
    starts: list[StoreStart] = []
    steps = StoreStart.steps

    def noting(start: StoreStart, now_ms: int) -> Iterator[float]:
        starts.append(start)
        return steps(start, now_ms)

    with patch.object(StoreStart, "steps", noting):
        started = Started(image, geometry)
    return started, starts[-1]


def test_no_queue_is_doubted_wherever_the_stop_ended(caplog: pytest.LogCaptureFixture) -> None:
    tally, met = Tally(), 0
    for seed in SEEDS:
        life = Stopping(seed)
        for cut in life.run(40):
            caplog.clear()
            is_met = has_both(cut.image)
            started, start = begun(cut.image.copy(), cut.promise.geometry)
            started.check(cut.promise)
            if is_met:
                met += 1
                assert start.views is not None
                assert start.views.label == "@stopped"
                assert not [one for one in caplog.records if "incomplete" in one.message]
            recover(cut, tally, nested=True)
    assert not tally.violations, "\n".join(tally.violations[:5])
    assert met >= 20
    assert tally.nested


async def test_only_a_list_of_all_there_is_tells_so(tmp_path: Path) -> None:
    """A list from before the last flush does not count."""
    directory = tmp_path / "s"
    async with store_at(directory) as store:
        await store.send("T", "a", key="k")
    (directory / ABORT_FILE).write_text("1")
    before = view_files(directory)
    path = directory / "pocketmq/store.json"
    for shift, label in ((0, "@stopped"), (-1, "@killed")):
        manifest = json.loads(path.read_bytes())
        manifest["closed"]["log_end"] += shift
        path.write_text(json.dumps(manifest))
        async with store_at(directory) as store:
            views = store.store._start.views
            assert views is not None
            assert views.label == label
            assert await store.pulled("T") == ["a"]
        assert view_files(directory) == before
        (directory / ABORT_FILE).write_text("1")


async def test_what_another_broker_put_behind_the_list_was_not_left_in_order(
    tmp_path: Path,
) -> None:
    """It knows nothing of the list, and was killed before it wrote a checkpoint."""
    directory, small = tmp_path / "s", ("checkpoint", "pocketmq/store.json", "pocketmq/watermark")
    async with store_at(directory) as store:
        await store.send("T", "a", key="k")
    listed = {name: (directory / name).read_bytes() for name in small}
    async with store_at(directory) as store:
        await store.send("T", "b", key="k")
        await store.send("U", "torn")
        await store.settled()
        torn = store.store.log.read(0, store.store.appended).rindex(b"torn")
        left = store.killed(tmp_path / "left")
    for name, content in listed.items():
        (left / name).write_bytes(content)
    with (left / "commitlog" / "0".zfill(20)).open("r+b") as log:
        log.seek(torn)
        log.write(b"TORN")
    async with store_at(left) as store:
        views = store.store._start.views
        assert views is not None
        assert views.label == "@killed"
        assert await store.pulled("T") == ["a", "b"]
        assert await store.pulled("U") == []


async def test_tools_see_a_stop_as_a_start_does(tmp_path: Path) -> None:
    directory, disk = tmp_path / "s", Disk()
    async with store_at(directory) as store:
        await store.send("T", "a", key="k")
        shape, mark = shape_of(store.store.settings), store.store.appended

    def is_in_order() -> bool:
        told = any("did not stop in order" in note for note in verify(disk, directory, shape).notes)
        described = describe(disk, directory, shape)["left_in_order"]
        assert described is not told
        return not told

    assert is_in_order()
    (directory / ABORT_FILE).write_text("1")
    assert is_in_order()
    with (directory / "commitlog" / "0".zfill(20)).open("r+b", buffering=0) as log:
        log.seek(mark)
        log.write(b"\0\0\0\x01")
        assert not is_in_order()
        log.seek(mark)
        log.write(bytes(4))
    assert is_in_order()
    manifest = json.loads((directory / "pocketmq/store.json").read_bytes())
    (directory / "pocketmq/store.json").write_text(json.dumps({**manifest, "closed": None}))
    assert not is_in_order()


async def test_a_listed_queue_that_is_gone_is_built_anew_all_the_same(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    async with store_at(directory) as store:
        for number in range(9):
            await store.send("T", f"{number}", queue_id=number % 3)
    before = view_files(directory)
    (directory / ABORT_FILE).write_text("1")
    (directory / "consumequeue/T/1/00000000000000000000").unlink()
    async with store_at(directory) as store:
        assert await store.pulled("T", 1) == ["1", "4", "7"]
    assert view_files(directory) == before
