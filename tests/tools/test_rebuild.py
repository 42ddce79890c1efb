"""A rebuild beside a store or in its place; killed, it leaves the store as it was."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pocketmq.files.disk import Disk
from pocketmq.log.index_style import written_styles
from pocketmq.log.store_directory import ManifestFile
from pocketmq.model.errors import Corruption, DiskFull, NotAStore
from pocketmq.rebuild import sequential
from pocketmq.rebuild.log_files import KnownShape
from pocketmq.tools.rebuild import plan_rebuild, rebuild_beside, rebuild_in_place
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import files_below
from tests.kit.log_bytes import views
from tests.kit.store_golden import golden_sizes
from tests.kit.store_language import store_at
from tests.kit.tool_sizes import golden_tool_sizes, shape_of

OPTIONS: Any = {"accept_holes": False}


def sizes(golden: GoldenStores, name: str = "rebuild-base") -> KnownShape:
    return golden_tool_sizes(golden, name)


def test_beside_the_store(golden: GoldenStores, tmp_path: Path) -> None:
    before = golden.store("rebuild-all-full.before")
    plan = plan_rebuild(Disk(), before, sizes(golden), out=tmp_path / "out")
    rebuild_beside(Disk(), plan, **OPTIONS)
    assert views(tmp_path / "out") == views(golden.store("rebuild-all-full.after"))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["consumequeue", "index"]


@pytest.mark.parametrize("removed", ["all", "cq", "index", "one-queue", "all-abort"])
def test_in_its_place(golden: GoldenStores, tmp_path: Path, removed: str) -> None:
    store = golden.copy(f"rebuild-{removed}.before", tmp_path / "s")
    plan = plan_rebuild(Disk(), store, sizes(golden))
    rebuild_in_place(Disk(), plan, sizes(golden), **OPTIONS)
    assert views(store) == views(golden.store("rebuild-base"))
    assert not plan.staging.exists()


class Killed(Exception):
    """The process ended here."""


def kill_at(monkeypatch: pytest.MonkeyPatch, chunk: int) -> Any:
    """Returns what ends a rebuild after so many chunks; its state is saved after every file."""
    monkeypatch.setattr(sequential, "SAVED_EVERY_BYTES", 1)
    told: list[int] = []

    def advance(byte_count: int) -> None:
        told.append(byte_count)
        if len(told) == chunk:
            raise Killed

    return advance


def test_a_killed_one_is_gone_on_with(
    golden: GoldenStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = golden.copy("rebuild-cq.after", tmp_path / "s")
    before, advance = files_below(store / "consumequeue"), kill_at(monkeypatch, 5)
    plan = plan_rebuild(Disk(), store, sizes(golden))
    assert not plan.is_resumed
    with pytest.raises(Killed):
        rebuild_in_place(Disk(), plan, sizes(golden), **OPTIONS, advance=advance)
    assert files_below(store / "consumequeue") == before
    again = plan_rebuild(Disk(), store, sizes(golden))
    assert again.is_resumed
    rebuild_in_place(Disk(), again, sizes(golden), **OPTIONS)
    assert views(store) == views(golden.store("rebuild-base"))


def test_damage_is_refused_and_nothing_changed(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("crash-flip.before", tmp_path / "s")
    own = golden_tool_sizes(golden, "crash-flip.before")
    before = views(store)
    plan = plan_rebuild(Disk(), store, own, check_crc=True)
    with pytest.raises(Corruption, match="the CRC of its body is wrong"):
        rebuild_in_place(Disk(), plan, own, **OPTIONS)
    assert views(store) == before
    rebuilt, _ = rebuild_in_place(Disk(), plan, own, accept_holes=True)
    assert len(rebuilt.holes) == 1


async def test_a_store_in_use_keeps_its_views(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await store.send("T", "a")
        await store.settled()
        settings = store.store.settings
        own = shape_of(settings)
        assert plan_rebuild(Disk(), store.directory, own).out is None
        beside = plan_rebuild(Disk(), store.directory, own, out=tmp_path / "out")
        assert rebuild_beside(Disk(), beside, **OPTIONS).record_count == 1


def test_an_output_that_holds_other_things_and_a_full_disk(
    golden: GoldenStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = golden.store("rebuild-base")
    (tmp_path / "precious").touch()
    with pytest.raises(NotAStore, match="no rebuild wrote"):
        plan_rebuild(Disk(), store, sizes(golden), out=tmp_path)
    monkeypatch.setattr(Disk, "space", lambda disk, path: (0, 1_000))
    with pytest.raises(DiskFull):
        plan_rebuild(Disk(), store, sizes(golden), out=tmp_path / "out")


def test_an_extension_is_told_of_and_put_away(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("cqext", tmp_path / "s")
    own = golden_tool_sizes(golden, "cqext")
    plan = plan_rebuild(Disk(), store, own)
    assert plan.has_extension
    before = files_below(store / "consumequeue_ext")
    _, kept = rebuild_in_place(Disk(), plan, own, **OPTIONS)
    assert not (store / "consumequeue_ext").exists()
    assert kept == store / "pocketmq/replaced/extension"
    assert files_below(kept / "consumequeue_ext") == before
    assert not (kept / "consumequeue").exists()


def built_with_extension(golden: GoldenStores) -> KnownShape:
    filters = (golden.store("cqext") / "config/consumerFilter.json").read_text()
    own = golden_tool_sizes(golden, "cqext")
    size = golden.manifest("cqext")["params"]["mappedFileSizeConsumeQueueExt"]
    return replace(
        own, consume_queue_extension=True, consume_queue_extension_file_size_bytes=size,
        filters=filters,
    )  # fmt: skip


def test_an_extension_takes_the_place_of_the_old_one(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("cqext", tmp_path / "s")
    own = built_with_extension(golden)
    wanted = files_below(golden.store("cqext") / "consumequeue_ext")
    (store / "consumequeue_ext/SqlTopic/0/00000000000000000000").unlink()
    plan = plan_rebuild(Disk(), store, own)
    assert not plan.leaves_extension
    _, kept = rebuild_in_place(Disk(), plan, own, **OPTIONS)
    assert kept is None
    assert files_below(store / "consumequeue_ext") == wanted
    queues = files_below(golden.store("cqext") / "consumequeue")
    assert files_below(store / "consumequeue") == queues
    plan = plan_rebuild(Disk(), store, own)
    _, kept = rebuild_in_place(Disk(), plan, own, keep_as="k", **OPTIONS)
    assert kept is not None
    assert files_below(kept / "consumequeue_ext") == wanted


def test_with_other_settings_it_begins_anew(
    golden: GoldenStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, out, advance = golden.store("v533"), tmp_path / "out", kill_at(monkeypatch, 8)
    own = golden_tool_sizes(golden, "v533")
    other = replace(own, index_style="5.5", consume_queue_file_size_bytes=40)
    plan = plan_rebuild(Disk(), store, other, out=out)
    with pytest.raises(Killed):
        rebuild_beside(Disk(), plan, **OPTIONS, advance=advance)
    assert plan_rebuild(Disk(), store, other, out=out).is_resumed
    plan = plan_rebuild(Disk(), store, own, out=out)
    assert not plan.is_resumed
    rebuild_beside(Disk(), plan, **OPTIONS)
    assert views(out) == views(store)


class ExchangeOnce(Disk):
    """A disk that ends the process before the second exchange."""

    __slots__ = ("count",)

    def exchange(self, one: Path, other: Path) -> None:
        self.count = getattr(self, "count", 0) + 1
        if self.count == 2:
            raise Killed
        super().exchange(one, other)


def test_killed_while_views_change_places_nothing_old_is_gone_on_with(
    golden: GoldenStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequential, "SAVED_EVERY_BYTES", 1)
    store = golden.copy("rebuild-base", tmp_path / "s")
    for path in (store / "consumequeue").rglob("0*"):
        if path.is_file():
            path.write_bytes(b"\xff" * path.stat().st_size)
    plan = plan_rebuild(Disk(), store, sizes(golden))
    with pytest.raises(Killed):
        rebuild_in_place(ExchangeOnce(), plan, sizes(golden), **OPTIONS)
    again = plan_rebuild(Disk(), store, sizes(golden))
    assert not again.is_resumed
    rebuild_in_place(Disk(), again, sizes(golden), **OPTIONS)
    assert views(store) == views(golden.store("rebuild-base"))


def test_the_plan_tells_what_is_replaced_and_needed(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.store("rebuild-base")
    plan = plan_rebuild(Disk(), store, sizes(golden))
    found = [p for name in ("consumequeue", "index") for p in (store / name).rglob("*")]
    assert plan.replaced[0] == sum(path.is_file() for path in found)
    assert plan.replaced[1] > 0
    assert 0 < plan.estimate.view_bytes < plan.free_bytes
    assert plan_rebuild(Disk(), store, sizes(golden), out=tmp_path / "out").replaced == (0, 0)


def test_an_index_of_two_styles_keeps_both(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("upgrade", tmp_path / "s")
    own = golden_tool_sizes(golden, "upgrade")
    styles = written_styles(
        Disk(), store, log_file_bytes=own.commit_log_file_size_bytes, geometry=own.geometry
    )
    own = own.with_styles(*styles)
    assert own.style_spans == ((74_340, "5.3"),)
    plan = plan_rebuild(Disk(), store, own)
    rebuild_in_place(Disk(), plan, own, **OPTIONS)
    assert views(store) == views(golden.store("upgrade"))
    manifest = ManifestFile(Disk(), store / "pocketmq").read()
    assert manifest is not None
    assert manifest.index_style == "5.5"


async def test_a_store_of_two_styles_goes_on_in_the_newer_one(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store = golden.copy("upgrade", tmp_path / "s")
    before = views(store)
    async with store_at(store, **golden_sizes(golden, "upgrade", "index_style")) as opened:
        assert opened.store.views.index.style == "5.5"
    assert views(store) == before
