"""The stores that a real RocketMQ wrote (tests/golden/), unpacked once and handed out to tests.

Those below tests/golden/special/ are sound and yet easily taken for damaged; most have no manifest.

    golden.store("basic")                 the store as it was written, to be read only
    golden.copy("basic", tmp_path / "s")  a copy of its own, to write into
    golden.manifest("basic")              what RocketMQ says about it

Several processes may share one scratch folder: a store appears in it whole or not at all.
"""

import gzip
import json
import os
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

ARCHIVES = Path(__file__).with_name("golden")
NAMES = sorted(path.name.removesuffix(".tar.gz") for path in ARCHIVES.glob("*.tar.gz"))
SPECIAL = ARCHIVES / "special"
SPECIAL_NAMES = sorted(path.name.removesuffix(".tar.gz") for path in SPECIAL.glob("*.tar.gz"))
SPECIAL_PARAMS = {
    "mappedFileSizeCommitLog": 262_144,
    "mappedFileSizeConsumeQueue": 600,
    "maxHashSlotNum": 101,
    "maxIndexNum": 500,
}
"""Sizes of the special stores that have no manifest."""
LARGE = 1 << 20
PIECE = 4096


class GoldenStores:
    """Unpacks archives into a scratch folder and can tell whether anybody wrote there since."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._used: set[str] = set()
        self._manifests: dict[str, dict[str, Any]] = {}

    def store(self, name: str) -> Path:
        """Returns the directory of a store. It belongs to all tests: read it, leaves it alone."""
        self._used.add(name)
        target = self._scratch / name
        if not target.exists():
            self._unpack(name, target)
        return target

    def copy(self, name: str, to: Path) -> Path:
        """Copies a store to a place that does not exist yet, and returns that place."""
        shutil.copytree(self.store(name), to, copy_function=_copy)
        _set_modes(to, file=0o644, folder=0o755)
        return to

    def manifest(self, name: str) -> dict[str, Any]:
        """Returns what RocketMQ says about a store. Tests share the answer and leaves it alone."""
        if name not in self._manifests:
            packed = (_folder_of(name) / f"{name}.expect.json.gz").read_bytes()
            self._manifests[name] = json.loads(gzip.decompress(packed))
        return self._manifests[name]

    def shape(self, name: str) -> dict[str, Any]:
        """Returns the sizes a store was written with, by the names of the fields of StoreShape."""
        has_manifest = (_folder_of(name) / f"{name}.expect.json.gz").exists()
        params = self.manifest(name)["params"] if has_manifest else SPECIAL_PARAMS
        return {
            "commit_log_file_size_bytes": params["mappedFileSizeCommitLog"],
            "consume_queue_file_size_bytes": params["mappedFileSizeConsumeQueue"],
            "index_slot_count": params["maxHashSlotNum"],
            "index_entry_count_max": params["maxIndexNum"],
            "index_style": "5.3" if name in ("v533", "v500") else "5.5",
            "time_zone": "UTC",
        }

    def changed(self) -> list[str]:
        """Returns the stores handed out that are no longer what their archives hold."""
        return [
            name
            for name in sorted(self._used)
            if _listing_of_folder(self._scratch / name) != _listing_of_archive(name)
        ]

    def _unpack(self, name: str, target: Path) -> None:
        scratch = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=self._scratch))
        with _archive(name) as archive:
            archive.extractall(scratch)
        (top,) = scratch.iterdir()
        for path in top.rglob("*"):
            if path.is_file() and path.stat().st_size >= LARGE:
                _make_sparse(path)
        try:
            top.rename(target)
        except OSError:
            assert target.is_dir()  # another process was quicker
        else:
            _set_modes(target, file=0o444, folder=0o555)
        shutil.rmtree(scratch)


def _folder_of(name: str) -> Path:
    return SPECIAL if name in SPECIAL_NAMES else ARCHIVES


def _archive(name: str) -> tarfile.TarFile:
    archive = tarfile.open(_folder_of(name) / f"{name}.tar.gz")  # noqa: SIM115 - the caller closes it
    # Early 3.11 knows no filters, and 3.12 warns where none is named.
    archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
    return archive


def _listing_of_archive(name: str) -> dict[str, tuple[int, int]]:
    """Size and time of every file, by its path inside the store; folders count with -1."""
    with _archive(name) as archive:
        return {
            member.name.partition("/")[2]: (member.size, int(member.mtime))
            if member.isfile()
            else (-1, -1)
            for member in archive
            if "/" in member.name
        }


def _listing_of_folder(store: Path) -> dict[str, tuple[int, int]]:
    listing = {}
    for path in store.rglob("*"):
        found = path.stat()
        is_file = path.is_file()
        listing[path.relative_to(store).as_posix()] = (
            (found.st_size, int(found.st_mtime)) if is_file else (-1, -1)
        )
    return listing


def _make_sparse(path: Path) -> None:
    """Turns zeros of a file into holes: a timer wheel has 38 MB of them."""
    content, times = path.read_bytes(), path.stat()
    with path.open("wb") as file:
        for begin in range(0, len(content), PIECE):
            if any(piece := content[begin : begin + PIECE]):
                file.seek(begin)
                file.write(piece)
        file.truncate(len(content))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def _copy(source: str, target: str) -> None:
    """Copies a file with its times; holes of a large one stay holes."""
    if Path(source).stat().st_size < LARGE:
        shutil.copy2(source, target)
        return
    with Path(source).open("rb") as old, Path(target).open("wb") as new:
        size, end = os.fstat(old.fileno()).st_size, 0
        while end < size:
            try:
                begin = os.lseek(old.fileno(), end, os.SEEK_DATA)
            except OSError:  # Only a hole follows.
                break
            end = os.lseek(old.fileno(), begin, os.SEEK_HOLE)
            new.seek(begin)
            new.write(os.pread(old.fileno(), end - begin, begin))
        new.truncate(size)
    shutil.copystat(source, target)


def _set_modes(store: Path, *, file: int, folder: int) -> None:
    for path in [*store.rglob("*"), store]:
        path.chmod(folder if path.is_dir() else file)
