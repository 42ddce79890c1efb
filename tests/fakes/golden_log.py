"""What the views of a golden store are made of: its log as dispatch entries, its files as bytes."""

from functools import lru_cache
from pathlib import Path

from broker.files.disk import Disk
from broker.format.names import COMMIT_LOG_DIRECTORY, INDEX_DIRECTORY
from broker.format.record_scan import written_at
from broker.log.commit_log import CommitLog
from broker.model.batch import Written
from broker.model.store_shape import DelayLevels
from tests.golden_stores import GoldenStores


def open_log(golden: GoldenStores, name: str) -> CommitLog:
    """Open the log of a golden store for reading."""
    size = golden.manifest(name)["params"]["mappedFileSizeCommitLog"]
    log = CommitLog(Disk(), golden.store(name) / COMMIT_LOG_DIRECTORY, size)
    log.load(read_only=True)
    return log


@lru_cache(maxsize=8)
def golden_entries(golden: GoldenStores, name: str) -> tuple[Written, ...]:
    """Every record of a golden store as the views are told of it."""
    log, levels = open_log(golden, name), DelayLevels()
    entries = tuple(written_at(file.view, position, levels) for _, file, position, _ in log.scan(0))
    log.close()
    assert len(entries) == golden.manifest(name)["recordCount"]
    return entries


def files_below(directory: Path) -> dict[str, bytes]:
    """The content of every file below a directory, by its path from there."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def index_contents(store: Path) -> list[bytes]:
    """The index files of a store, oldest first; their names are of the clock that made them."""
    return [path.read_bytes() for path in sorted((store / INDEX_DIRECTORY).iterdir())]
