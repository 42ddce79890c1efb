"""Restoring proves every byte; what cannot be proved leaves nothing behind."""

from pathlib import Path

import pytest

from broker.files.disk import Disk
from broker.model.errors import Corruption, NotAStore
from broker.tools.backup import backup, generations, object_path
from broker.tools.restore import restore
from tests.fakes.tool_sizes import golden_tool_sizes
from tests.golden_stores import GoldenStores


@pytest.fixture
def target(golden: GoldenStores, tmp_path: Path) -> Path:
    sizes = golden_tool_sizes(golden, "rebuild-base")
    place = tmp_path / "b"
    backup(Disk(), golden.store("rebuild-base"), place, sizes, name="g", with_views=True)
    return place


def test_a_real_brokers_store_comes_back_byte_for_byte(
    golden: GoldenStores, target: Path, tmp_path: Path
) -> None:
    restore(Disk(), target, generations(target)[0], tmp_path / "again")
    base = golden.store("rebuild-base")
    for path in base.rglob("*"):
        name = path.relative_to(base)
        if path.is_file() and str(name) not in ("lock", "abort"):
            assert (tmp_path / "again" / name).read_bytes() == path.read_bytes(), name


def test_any_damaged_object_is_named_and_nothing_stays(target: Path, tmp_path: Path) -> None:
    (generation,) = generations(target)
    for file in [file for file in generation.files if file.object][::7]:
        path = object_path(target, file.object)
        content = path.read_bytes()
        for position in (0, len(content) // 2, len(content) - 1):
            changed = bytearray(content)
            changed[position] ^= 0x55
            path.write_bytes(changed)
            with pytest.raises(Corruption, match="it holds "):
                restore(Disk(), target, generation, tmp_path / "again")
        path.unlink()
        with pytest.raises(Corruption, match="it holds "):
            restore(Disk(), target, generation, tmp_path / "again")
        path.write_bytes(content)
    assert not list(tmp_path.glob("again*"))


def test_only_into_an_empty_place(target: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").touch()
    with pytest.raises(NotAStore, match="not empty"):
        restore(Disk(), target, generations(target)[0], tmp_path / "full")
    (tmp_path / "empty").mkdir()
    restore(Disk(), target, generations(target)[0], tmp_path / "empty")
