"""A stop that ends between its list of the views and its abort mark was a stop in order."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from broker.format.names import ABORT_FILE
from broker.store.starting.start import Start
from tests.fakes.crash_recovery import Started, Tally, recover
from tests.fakes.crash_workload import STORE, Cut, Life
from tests.fakes.disk_image import File, Folder, Image
from tests.fakes.store_language import store_at, view_files

SEEDS = range(6)


class Stopping(Life):
    """A life of which cuts are taken at each call from the list of the views on."""

    def is_listing(self) -> bool:
        """Return whether the list is written, or was."""
        manifest = self.store._structures.manifest if self.store is not None else None
        return manifest is not None and manifest.closed is not None

    def _on_call(self, call: str, path: Path) -> None:
        self.calls[call] = self.calls.get(call, 0) + 1
        if self.is_listing() and len(self.cuts) < 50:
            promise = self.promise(call)
            for image in (self.disk.image.cut(Random(len(self.cuts))), self.disk.image.copy()):
                self.cuts.append(Cut(image, promise, self.rng.getrandbits(32)))


def has_both(image: Image) -> bool:
    """Return whether a crash state has the abort mark and the list."""
    store = image.find(STORE)
    assert isinstance(store, Folder)
    manifest = image.find(STORE / "pocketmq/store.json")
    if not isinstance(manifest, File):  # It is being replaced.
        return False
    return ABORT_FILE in store.live and json.loads(manifest.content)["closed"] is not None


def begun(image: Image, geometry: dict[str, int]) -> tuple[Started, Start]:
    """Start the store of a crash state; returns it, and the start."""
    starts: list[Start] = []
    steps = Start.steps

    def noting(start: Start, now_ms: int) -> Iterator[float]:
        starts.append(start)
        return steps(start, now_ms)

    with patch.object(Start, "steps", noting):
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
    """One of before the last flush does not: somebody put it there."""
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
