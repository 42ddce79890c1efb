"""Invariants of a store after a power cut; every check raises Violation with its finding.

    C-log      queue offsets are dense, each record has its own offset and a valid CRC
    C-lost     everything flushed exists, byte for byte, followed by a prefix of the rest
    C-vis      consumers read flushed bytes in sync mode, so C-lost covers their reads
    C-derived  queues and index equal the log, by an oracle that shares no code with them
    C-tables   committed offsets, topics and removed queues: the acknowledged state, or later
    no-op      a second start changes nothing

The oracle reads the store's files with struct and zlib, and no module of the broker.
"""

import zlib
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from tests.sim.crash_workload import Promise
from tests.sim.disk_image import File, Folder, Image

_HEAD: Final = Struct(">iiiiiqqiq8sq8siqi")
_UNIT: Final = Struct(">qiq")
_INDEX_HEADER: Final = Struct(">qqqqii")
_ENTRY: Final = Struct(">iqii")
_MAGIC: Final = -626843481
_BLANK: Final = -875286124
_PRE_BLANK: Final = _UNIT.pack(0, 2**31 - 1, 0)
_QUIET: Final = ("watermark", "store.json", "store.json.bak", "abort", "lock")
"""Files that contain the time of a write: they may differ after a second start."""


class Violation(AssertionError):
    """A broken promise of the store."""


class Row(NamedTuple):
    """A record as the oracle reads it."""

    place: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    store_time: int
    hashes: tuple[int, ...]
    tags_code: int


@dataclass(frozen=True, slots=True)
class LogFileRows:
    """The records of a log file, and where they end in it."""

    rows: tuple[Row, ...]
    end: int
    is_closed: bool


def _java_hash(text: str) -> int:
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return abs(value - (1 << 32) if value >> 31 else value)


@lru_cache(maxsize=4096)
def _key_hash(text: str) -> int:
    return _java_hash(text)


@lru_cache(maxsize=4096)
def log_rows(base: int, content: bytes) -> LogFileRows:
    """Reads a log file from its start to where records end."""
    rows: list[Row] = []
    position = 0
    while position + 8 <= len(content):
        size, magic = int.from_bytes(content[position : position + 4], signed=True), 0
        magic = int.from_bytes(content[position + 4 : position + 8], signed=True)
        if magic == _BLANK and size == len(content) - position:
            return LogFileRows(tuple(rows), position, True)
        row = _row_at(base, content, position, size, magic)
        if row is None:
            return LogFileRows(tuple(rows), position, False)
        rows.append(row)
        position += size
    return LogFileRows(tuple(rows), position, True)


def _row_at(base: int, content: bytes, position: int, size: int, magic: int) -> Row | None:
    if magic != _MAGIC or not 91 <= size <= len(content) - position:
        return None
    fields = _HEAD.unpack_from(content, position)
    body_end = position + _HEAD.size + fields[14]
    if fields[6] != base + position or body_end > position + size:
        return None
    if zlib.crc32(content[position + _HEAD.size : body_end]) & 0x7FFFFFFF != fields[2]:
        return None
    topic_end = body_end + 1 + content[body_end]
    topic = content[body_end + 1 : topic_end].decode()
    block = content[topic_end + 2 : position + size].decode()
    if "\0" in topic or "\0" in block:
        return None
    pairs = dict(p.split("\x01", 1) for p in block.split("\x02") if p)
    texts = [key for key in pairs.get("KEYS", "").split(" ") if key]
    tag = pairs.get("TAGS", "")
    texts += [f"T#{tag}"] if tag else []
    code = 0
    for character in tag:
        code = 31 * code + ord(character)
    hashes = tuple(_key_hash(f"{topic}#{text}") for text in texts)
    return Row(base + position, size, topic, fields[3], fields[5], fields[10], hashes, code)


# -- files of an image -----------------------------------------------------------------------------
def files_below(image: Image, *names: str) -> dict[str, bytes]:
    """Returns the files of a directory of the store by name, deeper ones by path."""
    folder: Folder = image.root
    for name in ("store", *names):
        found = folder.live.get(name)
        if not isinstance(found, Folder):
            return {}
        folder = found
    contents: dict[str, bytes] = {}
    open_folders = [("", folder)]
    while open_folders:
        above, one = open_folders.pop()
        for name, node in one.live.items():
            if isinstance(node, File):
                contents[above + name] = node.content
            else:
                open_folders.append((f"{above}{name}/", node))
    return contents


@dataclass(slots=True)
class Log:
    """A log as the oracle reads it: rows, first byte, and the byte after the last record."""

    rows: list[Row]
    begin: int
    end: int


def read_log(image: Image, said_end: int) -> Log:
    """Reads a recovered log.

    Errors   Violation: its end is not recovery's, or other bytes than zeros follow
    """
    files = {int(name): content for name, content in files_below(image, "commitlog").items()}
    rows: list[Row] = []
    end = min(files, default=0)
    bases = sorted(files)
    for number, base in enumerate(bases):
        content = files[base]
        if number and base != bases[number - 1] + len(files[bases[number - 1]]):
            raise Violation(f"C-log: a gap before the log file {base}")
        if base >= said_end and base:
            if any(content):
                raise Violation(f"C-log: bytes in the log file {base} behind the end {said_end}")
            continue
        found = log_rows(base, content)
        rows += found.rows
        end = base + (len(content) if found.is_closed else found.end)
        if not found.is_closed and any(content[found.end :]):
            raise Violation(f"C-log: something stands behind the last record at {end}")
        if not found.is_closed and base + len(content) <= said_end:
            raise Violation(f"C-log: records end at {end}, recovery says {said_end}")
        if found.is_closed and said_end < end:
            end = base + found.end
    if not rows:
        end = said_end
    if end != said_end and rows:
        raise Violation(f"C-log: records end at {end}, recovery says {said_end}")
    return Log(rows, min(files, default=0), said_end)


def check_log(
    image: Image, said_end: int, promise: Promise, removed: dict[tuple[str, int], int]
) -> Log:
    """Checks C-log and C-lost; a removed queue continues after its earlier offsets."""
    log = read_log(image, said_end)
    expected: dict[tuple[str, int], int] = {}
    for row in log.rows:
        key = (row.topic, row.queue_id)
        is_anew = expected.get(key, 0) <= row.queue_offset <= removed.get(key, -1)
        if expected.get(key, row.queue_offset) != row.queue_offset and not is_anew:
            raise Violation(f"C-log: {key} has {row.queue_offset}, expected {expected[key]}")
        expected[key] = row.queue_offset + 1
    latest = -(-promise.appended // promise.file_size) * promise.file_size
    if log.end > promise.appended and log.end != latest:  # A BLANK may follow the last record.
        latest = promise.appended
    if not promise.flushed <= log.end <= latest:
        raise Violation(
            f"C-lost: the log ends at {log.end}, flushed {promise.flushed}, "
            f"appended {promise.appended}"
        )
    if promise.log and not promise.dropped[0] <= log.begin <= promise.dropped[1]:
        if log.end > 0:
            raise Violation(f"C-lost: the log begins at {log.begin}, dropped {promise.dropped}")
    for name, content in files_below(image, "commitlog").items():
        base = int(name)
        before = promise.log.get(base)
        kept = min(log.end - base, len(content))
        if kept > 0 and before is not None and content[:kept] != before[:kept]:
            raise Violation(f"C-lost: other bytes than were written in the log file {base}")
    return log


# -- views -----------------------------------------------------------------------------------------
def check_queues(image: Image, log: Log, removed: dict[tuple[str, int], int]) -> None:
    """Checks C-derived for consume queues."""
    files = files_below(image, "consumequeue")
    queues: dict[tuple[str, int], dict[int, bytes]] = {}
    for path, content in files.items():
        topic, queue_id, name = path.split("/")
        queues.setdefault((topic, int(queue_id)), {})[int(name)] = content
    wanted: dict[tuple[str, int], dict[int, Row]] = {}
    for row in log.rows:
        wanted.setdefault((row.topic, row.queue_id), {})[row.queue_offset] = row
    for key in queues.keys() | wanted.keys():
        rows, stored = wanted.get(key, {}), queues.get(key, {})
        lowest = removed.get(key, 0)
        for number in rows:
            if number >= lowest:
                _check_unit(key, number, rows[number], stored)
        for base, content in stored.items():
            _check_rest(key, base, content, rows, log)


def _unit_of(row: Row) -> bytes:
    return _UNIT.pack(row.place, row.size, row.tags_code)


def _check_unit(key: tuple[str, int], number: int, row: Row, stored: dict[int, bytes]) -> None:
    for base, content in stored.items():
        position = number * _UNIT.size - base
        if 0 <= position < len(content):
            if content[position : position + _UNIT.size] != _unit_of(row):
                raise Violation(f"C-derived: unit {number} of {key} is not that of its record")
            return
    raise Violation(f"C-derived: {key} lacks unit {number}")


def _check_rest(
    key: tuple[str, int], base: int, content: bytes, rows: dict[int, Row], log: Log
) -> None:
    """Checks units without a record: of expired records before it, or zeros after it."""
    for position in range(0, len(content), _UNIT.size):
        unit = content[position : position + _UNIT.size]
        number = (base + position) // _UNIT.size
        row = rows.get(number)
        if row is not None and unit == _unit_of(row):
            continue
        if unit == _PRE_BLANK or not any(unit):
            continue
        if _UNIT.unpack(unit)[0] >= log.begin:
            raise Violation(f"C-derived: {key} has a unit {number} of no record")


@lru_cache(maxsize=8192)
def index_entries(content: bytes, slot_count: int) -> tuple[tuple[int, int], ...]:
    """Returns (key hash, place) of all entries of an index file, which must be whole.

    Errors   Violation
    """
    begin, end, begin_place, end_place, used, count = _INDEX_HEADER.unpack_from(content)
    first = _INDEX_HEADER.size + 4 * slot_count
    slots = [0] * slot_count
    entries: list[tuple[int, int]] = []
    for number in range(1, count):
        key_hash, place, seconds, previous = _ENTRY.unpack_from(content, first + 20 * number)
        if previous != slots[key_hash % slot_count]:
            raise Violation(f"C-derived: entry {number} of an index file follows {previous}")
        if number > 1 and not 0 <= seconds <= (end - begin) // 1000 + 1:
            raise Violation(f"C-derived: entry {number} of an index file has second {seconds}")
        slots[key_hash % slot_count] = number
        entries.append((key_hash, place))
    if list(Struct(f">{slot_count}i").unpack_from(content, _INDEX_HEADER.size)) != slots:
        raise Violation("C-derived: slots of an index file")
    if any(content[first + 20 * count :]):
        raise Violation("C-derived: bytes behind the last entry of an index file")
    if entries and (begin_place, end_place) != (entries[0][1], entries[-1][1]):
        raise Violation("C-derived: places in the header of an index file")
    if used != sum(slot > 0 for slot in slots):
        raise Violation("C-derived: slots in use of an index file")
    return tuple(entries)


def check_index(image: Image, log: Log, slot_count: int) -> None:
    """Checks C-derived for the index."""
    found: list[tuple[int, int]] = []
    for _, content in sorted(files_below(image, "index").items()):
        found += index_entries(content, slot_count)
    wanted = [(key_hash, row.place) for row in log.rows for key_hash in row.hashes]
    kept = [entry for entry in found if entry[1] >= log.begin]
    if kept != wanted:
        first = next((i for i, (a, b) in enumerate(zip(kept, wanted, strict=False)) if a != b), -1)
        raise Violation(
            f"C-derived: the index has {len(kept)} entries for {len(wanted)}, first other one "
            f"number {first}, log {log.begin}..{log.end}"
        )


def lasting(image: Image) -> dict[str, bytes]:
    """Returns the files that a second start must not change."""
    return {
        path: content
        for path, content in files_below(image).items()
        if path.rpartition("/")[2] not in _QUIET
    }
