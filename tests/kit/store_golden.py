"""Golden stores, opened with the sizes of their writer or without.

with golden_parts(golden, "basic", tmp_path) as parts: …    opened, recovered, to be read
config_of(golden, "semantics", tmp_path / "s")              its small tables alone
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pocketmq.store.recovery.components import StoreComponents
from pocketmq.store.recovery.start import start_at_once
from pocketmq.store.settings import StoreSettings
from tests.golden_stores import GoldenStores
from tests.sim.clock import FakeClock
from tests.sim.quick_disk import QuickDisk

READ_WHOLE = ("basic", "semantics", "propcrc", "cqext", "rebuild-base", "v533")
"""The stores whose every message and answer the manifest lists."""
_NOT_OURS = ("timerwheel", "timerlog", "compaction", "consumequeue_ext")


def golden_copy(golden: GoldenStores, name: str, to: Path) -> Path:
    """Copies the files of a store that PocketMQ reads; returns the copy."""
    shutil.copytree(
        golden.store(name),
        to,
        ignore=shutil.ignore_patterns(*_NOT_OURS),
        copy_function=shutil.copyfile,
    )
    for path in [to, *to.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
    return to


def config_of(golden: GoldenStores, name: str, to: Path) -> Path:
    """Copies the tables under config/; returns the store directory around them."""
    (to / "config").mkdir(parents=True)
    for path in (golden.store(name) / "config").iterdir():
        (to / "config" / path.name).write_bytes(path.read_bytes())
    return to


def golden_sizes(golden: GoldenStores, name: str, *unset: str) -> dict[str, Any]:
    """The sizes of a store's writer as settings; some may be left unset."""
    sizes = {field: value for field, value in golden.shape(name).items() if field not in unset}
    return {**sizes, "explicit": frozenset(sizes)}


@contextmanager
def golden_parts(
    golden: GoldenStores, name: str, scratch: Path, **settings: Any
) -> Iterator[StoreComponents]:
    """Opens and recovers a copy of a store; sizes that are not given are read off its files."""
    with recovered(golden_copy(golden, name, scratch / name), **settings) as parts:
        yield parts


@contextmanager
def recovered(directory: Path, **settings: Any) -> Iterator[StoreComponents]:
    """Opens and recovers a store; what recovery wrote stays on the disk."""
    parts = StoreComponents(StoreSettings(directory=directory, **settings), QuickDisk())
    try:
        start_at_once(parts, FakeClock())
        yield parts
    finally:
        parts.close()
