"""Which sizes an existing store has.

Order: explicit settings, `pocketmq/store.json`, file lengths, defaults. The geometry of an index
file cannot be read from its length alone (slots and entries are two unknowns); a full file tells it
(its entry count is the maximum), else the pair is taken that lets all its chains verify.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from broker.files.disk import Disk
from broker.format.index_layout import (
    ENTRY_SIZE,
    HEADER_SIZE,
    SLOT_SIZE,
    STYLE_5_3,
    STYLE_5_5,
    IndexGeometry,
    index_key,
    key_hash,
)
from broker.format.java_hash import java_hash
from broker.format.names import (
    COMMIT_LOG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    INDEX_DIRECTORY,
    is_index_file_name,
    offset_from_file_name,
)
from broker.format.record_scan import dispatch_entry
from broker.log.commit_log import CommitLog
from broker.log.hash_index import HashIndex
from broker.log.store_manifest import StoreManifest
from broker.model.delay_levels import DelayLevels
from broker.model.errors import UnknownGeometry
from broker.store.settings import StoreSettings

_SIZE_FIELDS: Final = (
    "commit_log_file_size_bytes",
    "consume_queue_file_size_bytes",
    "index_slot_count",
    "index_entry_count_max",
    "index_style",
    "time_zone",
)
_WORDS_PER_ENTRY: Final = ENTRY_SIZE // 4
_HEADER_WORDS: Final = HEADER_SIZE // 4
_KEY_NAMES: Final = "maxHashSlotNum and maxIndexNum"


def settle_sizes(
    settings: StoreSettings, manifest: StoreManifest | None, disk: Disk
) -> StoreSettings:
    """Return the settings with the sizes the store on disk has.

    Errors   UnknownGeometry
    """
    known: dict[str, Any] = {}
    if manifest is not None:
        known = {name: getattr(manifest, name) for name in _SIZE_FIELDS}
    else:
        known = _found_sizes(settings, disk)
    chosen = {name: value for name, value in known.items() if name not in settings.explicit}
    return replace(settings, **chosen)


def _found_sizes(settings: StoreSettings, disk: Disk) -> dict[str, Any]:
    found: dict[str, Any] = {}
    log_size = _first_file_size(disk, settings.directory / COMMIT_LOG_DIRECTORY)
    if log_size:
        found["commit_log_file_size_bytes"] = log_size
    queue_size = _queue_file_size(disk, settings.directory / CONSUME_QUEUE_DIRECTORY)
    if queue_size:
        found["consume_queue_file_size_bytes"] = queue_size
    if {"index_slot_count", "index_entry_count_max"} <= settings.explicit:
        return found
    geometry = _index_geometry(settings, disk)
    if geometry is not None:
        found["index_slot_count"], found["index_entry_count_max"] = geometry
    return found


def _first_file_size(disk: Disk, directory: Path) -> int:
    names = [name for name in disk.names(directory) if offset_from_file_name(name) is not None]
    return disk.file_size(directory / names[0]) if names else 0


def _queue_file_size(disk: Disk, directory: Path) -> int:
    for topic in disk.names(directory):
        for queue_id in disk.names(directory / topic):
            size = _first_file_size(disk, directory / topic / queue_id)
            if size:
                return size
    return 0


def _index_geometry(settings: StoreSettings, disk: Disk) -> IndexGeometry | None:
    """Return the geometry the index files show, None when there are none that show one."""
    directory = settings.directory / INDEX_DIRECTORY
    names = [name for name in disk.names(directory) if is_index_file_name(name)]
    if not names:
        return None
    content = disk.read_file(directory / names[0])
    if len(content) < HEADER_SIZE or len(content) % SLOT_SIZE:
        return None  # Opening the index says what is wrong with the file.
    words = np.frombuffer(content, dtype=">i4")
    count = int(words[9])
    if len(names) > 1:
        return _geometry_of(len(words) * 4, count)
    stated = IndexGeometry(settings.index_slot_count, settings.index_entry_count_max)
    if stated.file_size == len(words) * 4 and _slots_lead_back(words, count, stated.slot_count):
        return stated
    candidates = candidate_geometries(words, count)
    if len(candidates) == 1:
        return candidates[0]
    if count <= 1:
        return None
    why = f"{len(candidates)} geometries fit its {len(words) * 4} bytes"
    raise UnknownGeometry(path=str(directory / names[0]), why=why, key_names=_KEY_NAMES)


def _geometry_of(length: int, entry_count_max: int) -> IndexGeometry | None:
    slots_size = length - HEADER_SIZE - ENTRY_SIZE * entry_count_max
    if slots_size < SLOT_SIZE or slots_size % SLOT_SIZE:
        return None
    return IndexGeometry(slots_size // SLOT_SIZE, entry_count_max)


def candidate_geometries(words: NDArray[Any], count: int) -> list[IndexGeometry]:
    """Return every geometry under which the file's newest entries are reached from their slots.

    Shape    words: the whole file as i32; count: index_count of its header
    Cost     one pass over the possible pairs, vectorised
    """
    if count <= 1:
        return []
    total = len(words)
    entries = np.arange(count, (total - _HEADER_WORDS - 1) // _WORDS_PER_ENTRY + 1, dtype=np.int64)
    slots = total - _HEADER_WORDS - _WORDS_PER_ENTRY * entries
    hashes = words[_HEADER_WORDS + slots + _WORDS_PER_ENTRY * (count - 1)].astype(np.int64)
    heads = words[_HEADER_WORDS + np.maximum(hashes, 0) % slots]
    fits = (hashes >= 0) & (heads == count - 1)
    found = []
    for slot_count, entry_count in zip(slots[fits].tolist(), entries[fits].tolist(), strict=True):
        if _slots_lead_back(words, count, slot_count):
            found.append(IndexGeometry(slot_count, entry_count))
    return found


def _slots_lead_back(words: NDArray[Any], count: int, slot_count: int) -> bool:
    """Return whether every entry of the file is reached through the chain of its slot."""
    base = _HEADER_WORDS + slot_count
    table = words[base : base + _WORDS_PER_ENTRY * count].reshape(-1, _WORDS_PER_ENTRY)
    if len(table) < count:
        return False
    hashes, previous = table[1:, 0].astype(np.int64), table[1:, 4].astype(np.int64)
    numbers = np.arange(1, count)
    if (hashes < 0).any() or (previous >= numbers).any() or (previous < 0).any():
        return False
    slots = hashes % slot_count
    heads: dict[int, int] = {}
    for number, slot, before in zip(
        numbers.tolist(), slots.tolist(), previous.tolist(), strict=True
    ):
        if heads.get(slot, 0) != before:
            return False
        heads[slot] = number
    return all(words[_HEADER_WORDS + slot] == number for slot, number in heads.items())


def writer_style(log: CommitLog, index: HashIndex, levels: DelayLevels) -> str:
    """Return the style of an existing index: 5.5 iff the first record with a tag has a tag entry.

    Source   IndexService.buildIndex: tag entries came with 5.5
    """
    if not index.files:
        return index.style
    first = index.files[0]
    header = first.header
    for _, file, position, _ in log.scan(header.begin_physical_offset, header.end_physical_offset):
        place, _, _, _, topic, _, _, _, _, tag, _ = dispatch_entry(file.view, position, levels)
        if not tag:
            continue
        wanted = key_hash(java_hash(index_key(topic, tag, "T")))
        is_there = any(step[1] == place and step[3] for step in first.walk(wanted))
        return STYLE_5_5 if is_there else STYLE_5_3
    return index.style
