"""The index file: a hash table on disk, from key to records.

    header   40 bytes: times and offsets of the first and last entry, counts
    slots    one i32 each: number of the newest entry of its chain, 0: none
    entries  20 bytes each, numbered from 1: key hash, record, time, previous entry of the chain

docs/reference/formats/index-file.md has every field. A file is full when index_count reaches its
maximum. It contains one entry less than the maximum, as number 0 is not used.
Source: IndexHeader, IndexFile, IndexService.
"""

from struct import Struct
from typing import Final, NamedTuple

from pocketmq.format.layout import Layout
from pocketmq.model.message import KEY_SEPARATOR, TRANSACTION_ROLLBACK
from pocketmq.model.store_shape import StoreShape

INDEX_HEADER: Final = Layout(
    ("begin_timestamp", "q", "store time of the first entry"),
    ("end_timestamp", "q", "store time of the last entry"),
    ("begin_physical_offset", "q", "record of the first entry"),
    ("end_physical_offset", "q", "record of the last entry"),
    ("hash_slot_count", "i", "slots in use"),
    ("index_count", "i", "number of the next entry; 1 in an empty file"),
)
INDEX_ENTRY: Final = Layout(
    ("key_hash", "i", "|String.hashCode(topic#key)|, with -2**31 becoming 0"),
    ("physical_offset", "q", "physical offset of the record"),
    ("second_difference", "i", "whole seconds from the header's begin to the record's store time"),
    ("previous", "i", "number of the next older entry of the chain, 0 at its end"),
)
HEADER: Final = INDEX_HEADER.struct
HEADER_SIZE: Final = INDEX_HEADER.size
ENTRY: Final = INDEX_ENTRY.struct
ENTRY_SIZE: Final = INDEX_ENTRY.size
SLOT: Final = Struct(">i")
SLOT_SIZE: Final = SLOT.size

STYLE_5_5: Final = "5.5"
"""Style in which tags are indexed in addition, as topic#T#tag."""
STYLE_5_3: Final = "5.3"
"""Style in which only unique key and keys are indexed."""
STYLES: Final = (STYLE_5_5, STYLE_5_3)
StyleSpans = tuple[tuple[int, str], ...]
"""An index's older styles: (physical offset, style of the records below it), ascending."""

SECOND_DIFFERENCE_MAX: Final = 2**31 - 1
TAG_TYPE: Final = "T"


class IndexGeometry(NamedTuple):
    """Number of slots of an index file, and the entry number at which it is full."""

    slot_count: int
    entry_count_max: int

    @staticmethod
    def of(shape: StoreShape) -> "IndexGeometry":
        """Returns the geometry that a store's shape contains."""
        return IndexGeometry(shape.index_slot_count, shape.index_entry_count_max)

    @property
    def entries_position(self) -> int:
        """Position of entry number 0, which is not used."""
        return HEADER_SIZE + SLOT_SIZE * self.slot_count

    @property
    def file_size(self) -> int:
        """Bytes of a file."""
        return self.entries_position + ENTRY_SIZE * self.entry_count_max


ROCKETMQ_GEOMETRY: Final = IndexGeometry(5_000_000, 20_000_000)
OWN_GEOMETRY: Final = IndexGeometry(200_000, 1_000_000)
WELL_KNOWN: Final = (ROCKETMQ_GEOMETRY, OWN_GEOMETRY)


class IndexHeaderValues(NamedTuple):
    """The six fields of a header."""

    begin_timestamp: int = 0
    end_timestamp: int = 0
    begin_physical_offset: int = 0
    end_physical_offset: int = 0
    hash_slot_count: int = 0
    index_count: int = 1


def key_hash(java_hash: int) -> int:
    """Returns the absolute value of a hash, signed or not; -2**31 becomes 0."""
    if java_hash >= 2**31:
        java_hash -= 2**32
    return 0 if java_hash == -(2**31) else abs(java_hash)


def index_key(topic: str, key: str, index_type: str = "") -> str:
    """Returns the text whose hash is indexed for a key of a topic."""
    return f"{topic}#{index_type}#{key}" if index_type else f"{topic}#{key}"


def entry_keys(unique_key: str, keys: str, tag: str, style: str) -> list[str]:
    """Returns the keys by which a record is indexed, in order, without the prefix `topic#`.

    Source   IndexService.buildIndex: unique key, pieces of KEYS, since 5.5 the tag
    """
    texts = [unique_key] if unique_key else []
    if KEY_SEPARATOR in keys:
        texts += [key for key in keys.split(KEY_SEPARATOR) if key]
    elif keys:
        texts.append(keys)
    if tag and style == STYLE_5_5:
        texts.append(f"{TAG_TYPE}#{tag}")
    return texts


def is_indexed(transaction: int) -> bool:
    """Returns whether records of a transaction type are indexed; rollback records are not."""
    return transaction != TRANSACTION_ROLLBACK


def second_difference(store_timestamp_ms: int, begin_timestamp_ms: int) -> int:
    """Returns the seconds that an entry contains, counted from its file's begin.

    The seconds are truncated, at most 2**31 - 1; 0 before the begin, or in a file without a begin.
    """
    if begin_timestamp_ms <= 0:
        return 0
    difference = store_timestamp_ms - begin_timestamp_ms
    return min(difference // 1000, SECOND_DIFFERENCE_MAX) if difference > 0 else 0
