"""A rebuild beside a store or in its place; killed, it leaves the store as it was."""

from pathlib import Path
from typing import Any

import pytest

from broker.files.disk import Disk
from broker.model.errors import Corruption, DiskFull, NotAStore
from broker.rebuild import resume
from broker.tools.rebuild import plan_rebuild, rebuild_beside, rebuild_in_place
from broker.tools.store_access import Sizes
from tests.fakes.golden_log import files_below
from tests.fakes.log_bytes import views
from tests.fakes.store_language import store_at
from tests.fakes.tool_sizes import golden_tool_sizes
from tests.golden_stores import GoldenStores

OPTIONS: Any = {"accept_holes": False}


def sizes(golden: GoldenStores, name: str = "rebuild-base") -> Sizes:
    return golden_tool_sizes(golden, name)


def test_beside_the_store(golden: GoldenStores, tmp_path: Path) -> None:
    before = golden.store("rebuild-all-full.before")
    plan = plan_rebuild(Disk(), before, sizes(golden), out=tmp_path / "out")
    rebuild_beside(Disk(), plan, **OPTIONS)
    assert views(tmp_path / "out") == views(golden.store("rebuild-all-full.after"))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["consumequeue", "index"]


def test_in_its_place(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("rebuild-all.before", tmp_path / "s")
    plan = plan_rebuild(Disk(), store, sizes(golden))
    rebuild_in_place(Disk(), plan, sizes(golden), **OPTIONS)
    assert views(store) == views(golden.store("rebuild-base"))
    assert not plan.staging.exists()


class Killed(Exception):
    """The process ended here."""


def test_a_killed_one_is_gone_on_with(
    golden: GoldenStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resume, "SAVED_EVERY_BYTES", 1)
    store = golden.copy("rebuild-cq.after", tmp_path / "s")
    before, told = files_below(store / "consumequeue"), []

    def tell(byte_count: int) -> None:
        told.append(byte_count)
        if len(told) == 5:
            raise Killed

    plan = plan_rebuild(Disk(), store, sizes(golden))
    assert not plan.is_resumed
    with pytest.raises(Killed):
        rebuild_in_place(Disk(), plan, sizes(golden), **OPTIONS, tell=tell)
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
    rebuilt = rebuild_in_place(Disk(), plan, own, accept_holes=True)
    assert len(rebuilt.holes) == 1


async def test_a_store_in_use_keeps_its_views(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await store.send("T", "a")
        await store.settled()
        settings = store.store.settings
        own = Sizes(
            settings.commit_log_file_size_bytes, settings.consume_queue_file_size_bytes,
            store.store.structures.index.geometry,
        )  # fmt: skip
        assert plan_rebuild(Disk(), store.directory, own).out is None
        beside = plan_rebuild(Disk(), store.directory, own, out=tmp_path / "out")
        assert rebuild_beside(Disk(), beside, **OPTIONS).record_count == 1


def test_an_output_that_holds_other_things_and_a_full_disk(
    golden: GoldenStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = golden.store("rebuild-base")
    (tmp_path / "precious").touch()
    with pytest.raises(NotAStore, match="other things"):
        plan_rebuild(Disk(), store, sizes(golden), out=tmp_path)
    monkeypatch.setattr(Disk, "free_bytes", lambda disk, path: 1_000)
    with pytest.raises(DiskFull):
        plan_rebuild(Disk(), store, sizes(golden), out=tmp_path / "out")


def test_an_extension_is_told_of_and_put_away(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("cqext", tmp_path / "s")
    own = golden_tool_sizes(golden, "cqext")
    plan = plan_rebuild(Disk(), store, own)
    assert plan.has_extension
    rebuild_in_place(Disk(), plan, own, **OPTIONS, keep_as="old")
    assert not (store / "consumequeue_ext").exists()
    assert (store / "pocketmq/replaced/old/consumequeue_ext").is_dir()
