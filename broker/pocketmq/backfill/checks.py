"""Compares rebuilt files with their manifest, with other views, and with the log.

Queue files are paired by name. Index files are paired by order, as their names are creation times.
The mapper's workers read the files, one task for each file.

`copy_views` checks every file that it copies into a store. Before a copy, `compare_log` shows
whether the views cover the log to its end, and whether the log has changed since they were built.

Kinds of findings: missing_file, unexpected_file, file_size, sha256, content.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from pocketmq.backfill.job import Document, manifest
from pocketmq.format.names import CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY
from pocketmq.model.finding import Finding, ScanEnd
from pocketmq.rebuild.log_files import LogFile, find_log_files
from pocketmq.rebuild.manifest import ContentDigest, digest_of, view_files
from pocketmq.rebuild.plan import Mapper
from pocketmq.rebuild.staging import Staging
from pocketmq.walk.reader import LogReader

PIECE_BYTES: Final = 1024 * 1024
"""Bytes of one read; a piece of zeros becomes a hole in the copy."""
SHOWN_BYTES: Final = 8
"""Bytes of each file that a finding shows, from the first difference on."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Paths of two files that must have equal bytes, "" if missing; `name` identifies both."""

    name: str
    expected: str
    found: str


def check_files(out: Path, mapper: Mapper) -> list[Finding]:
    """Returns the differences of the files below `out` from the manifest of a finished run.

    Cost     reads all files once, about 1 ms a MiB of data, divided among the workers
    """
    known, findings = _known_files(out)
    digests = mapper(digest_file, [str(out / row["path"]) for row in known])
    for row, (size, digest) in zip(known, digests, strict=True):
        if size != row["size"]:
            wanted, found = str(row["size"]), str(size)
            findings.append(Finding("file_size", row["path"], 0, wanted, found))
        elif digest != row["sha256"]:
            findings.append(Finding("sha256", row["path"], 0, row["sha256"], digest))
    return findings


def _known_files(out: Path) -> tuple[list[Document], list[Finding]]:
    """Returns the manifest's rows of the files that exist, and findings of all other files."""
    rows = {row["path"]: row for row in manifest(out)["files"]}
    existing = dict.fromkeys(view_files(out))
    findings = [_missing(path) for path in rows if path not in existing]
    findings += [_unexpected(path) for path in existing if path not in rows]
    return [rows[path] for path in existing if path in rows], findings


def digest_file(path: str) -> tuple[int, str]:
    """Returns a file's size and digest, as its row of the manifest contains them."""
    with Path(path).open("rb") as file:
        digest = digest_of(file.fileno())
    return digest.size, digest.hexdigest()


def copy_views(out: Path, target: Path, advance: Callable[[int], None]) -> list[Finding]:
    """Copies the files of the manifest as sparse files; returns the differences from the manifest.

    advance  receives the number of bytes copied since the last call
    Errors   OSError; files that were copied before the error are kept
    """
    known, findings = _known_files(out)
    for name in (CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY):
        (target / name).mkdir(parents=True, exist_ok=True)
    for row in known:
        path = row["path"]
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        size, digest = _copy_file(out / path, target / path, advance)
        if (size, digest) != (row["size"], row["sha256"]):
            findings.append(Finding("sha256", path, 0, row["sha256"], digest))
    return findings


def _copy_file(source: Path, target: Path, advance: Callable[[int], None]) -> tuple[int, str]:
    digest = ContentDigest()
    with target.open("wb") as writing:
        for piece in _pieces(str(source)):
            digest.add(piece)
            if piece == bytes(len(piece)):
                writing.seek(digest.size)
            else:
                writing.write(piece)
            advance(len(piece))
        writing.truncate(digest.size)
    return digest.size, digest.hexdigest()


def compare_views(out: Path, other: Path, mapper: Mapper) -> list[Finding]:
    """Returns the differences of the views below `out` from the views below another directory.

    A file of the other directory that contains only zeros may be missing below `out`: a broker
    created it in advance.
    """
    pairs = [*_queue_pairs(out, other), *_index_pairs(out, other)]
    findings: Iterable[Finding | None] = mapper(compare_pair, pairs)
    return [finding for finding in findings if finding is not None]


def compare_pair(pair: Pair) -> Finding | None:
    """Returns the first difference of two files; None if they are equal.

    A missing `found` is also no difference if `expected` contains only zeros.
    """
    if not pair.found:
        return _missing(pair.name) if _is_written(pair.expected) else None
    if not pair.expected:
        return _unexpected(pair.name)
    position = 0
    for expected, found in zip_longest(_pieces(pair.expected), _pieces(pair.found), fillvalue=b""):
        if expected != found:
            position += _same_count(expected, found)
            break
        position += len(expected)
    else:
        return None
    return Finding(
        kind="content", file=pair.name, offset=position,
        expected=_bytes_at(pair.expected, position), found=_bytes_at(pair.found, position),
    )  # fmt: skip


def _queue_pairs(out: Path, other: Path) -> Iterator[Pair]:
    ours, theirs = (
        {path for path in view_files(directory) if not path.startswith(INDEX_DIRECTORY)}
        for directory in (out, other)
    )
    for path in sorted(ours | theirs):
        expected = str(other / path) if path in theirs else ""
        yield Pair(path, expected, str(out / path) if path in ours else "")


def _index_pairs(out: Path, other: Path) -> Iterator[Pair]:
    ours, theirs = (
        [path for path in view_files(directory) if path.startswith(INDEX_DIRECTORY)]
        for directory in (out, other)
    )
    for our, their in zip_longest(ours, theirs, fillvalue=""):
        yield Pair(our or their, str(other / their) if their else "", str(out / our) if our else "")


def _is_written(path: str) -> bool:
    """Returns whether a file contains more than zeros."""
    return any(piece.count(0) < len(piece) for piece in _pieces(path))


def _same_count(one: bytes, other: bytes) -> int:
    count = min(len(one), len(other))
    differs = np.frombuffer(one, np.uint8, count) != np.frombuffer(other, np.uint8, count)
    return int(differs.argmax()) if differs.any() else count


def _pieces(path: str) -> Iterator[bytes]:
    with Path(path).open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def _bytes_at(path: str, position: int) -> str:
    with Path(path).open("rb") as file:
        file.seek(position)
        return file.read(SHOWN_BYTES).hex() or "nothing"


def _missing(path: str) -> Finding:
    return Finding("missing_file", path, 0, "a file", "nothing")


def _unexpected(path: str) -> Finding:
    return Finding("unexpected_file", path, 0, "nothing", "a file")


# -- into a store ----------------------------------------------------------------------------------
class LogFit(NamedTuple):
    """Whether built views belong to a log.

    objection    why the views do not belong to the log; "" if they do
    is_certain   whether the files of the log are unchanged since the views were built
    """

    objection: str
    is_certain: bool


def compare_log(out: Path, store: Path, log_file_bytes: int) -> LogFit:
    """Returns whether views below `out` cover all records of a store's log, and no others.

    Errors   NotAStore, WrongFileSize, StoreGap
    Cost     reads the log after the views' last record, usually no record
    """
    built, files = manifest(out), find_log_files(store.resolve(), log_file_bytes)
    begin = files[0].base if files else 0
    if built["begin"] != begin:
        return LogFit(f"the log begins at {begin}, the views at {built['begin']}", False)
    end = files[-1].end if files else 0
    if built["end"] > end:
        return LogFit(f"the log ends before {built['end']}, where the views end", False)
    if _has_records_after(files, built["end"]):
        return LogFit(f"the log has records after {built['end']}, where the views end", False)
    current = [_version_of(file) for file in files if file.base < built["end"]]
    return LogFit("", _versions_read(out) == current)


def _has_records_after(files: list[LogFile], physical_offset: int) -> bool:
    """Returns whether a record starts at an offset, or in the next file if that file is full."""
    for file in files:
        if file.end <= physical_offset:
            continue
        reader = LogReader()
        with file.opened() as source:
            for _ in reader.chunks(source, max(file.base, physical_offset), file.end):
                return True
        if reader.stop.kind is not ScanEnd.FILE_FULL:
            return False
    return False


def _versions_read(out: Path) -> list[tuple[str, int]]:
    """Returns (name, modification time in ns) of the log files that the run read."""
    staging = Staging(out)
    versions = {}
    for path in (staging.work / "ranges").glob("*.json"):
        name, _, _, changed_ns = staging.read(path)["range"]
        versions[Path(name).name] = changed_ns
    end = manifest(out)["end"]
    return [(name, changed_ns) for name, changed_ns in sorted(versions.items()) if int(name) < end]


def _version_of(file: LogFile) -> tuple[str, int]:
    path = Path(file.path)
    return path.name, path.stat().st_mtime_ns


def allocated_bytes(out: Path) -> int:
    """Returns the disk usage of the manifest's files, without holes."""
    paths = [out / row["path"] for row in manifest(out)["files"]]
    return sum(path.stat().st_blocks * 512 for path in paths if path.exists())


def queues_of(built: Mapping[str, Any]) -> dict[tuple[str, int], tuple[int, int]]:
    """Returns a manifest's first and end offset by queue."""
    return {(topic, queue_id): (begin, end) for topic, queue_id, begin, end in built["queues"]}
