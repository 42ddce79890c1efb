"""Statistics of a log: message counts and sizes, by group.

    chunk ─► columns ─► sums by group of the chunk ─┐
    chunk ─► columns ─► sums by group of the chunk ─┴─► merged

An integer identifies each group: a queue's number, an hour, a power of two, or a 64-bit hash of a
text. The texts of the shown rows are read from the log at the end. Above `GROUPS_MAX` groups, only
half of `GROUPS_MAX` are kept, those with the most messages. Counts may then be too small, and
`is_rough` is set.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.columns.heads import Heads, Numbers, Words, words_of
from pocketmq.format.columns.properties import Spans, find_properties, split_keys
from pocketmq.format.record import RECORD_HEAD
from pocketmq.model.message import FLAG_BORN_HOST_V6, FLAG_COMPRESSED, QueueKey
from pocketmq.rebuild.log_files import LogFile, bytes_at
from pocketmq.tools.selection import LogSearch, Picked

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
IN_ORDER: Final = frozenset({"hour", "day", "size"})
"""Dimensions that show all groups in natural order; others show the largest groups first."""
PENDING_MAX: Final = 1 << 20
"""Upper limit of rows that are kept before they are merged into one row per group."""
GROUPS_MAX: Final = 1 << 21
"""Upper limit of groups: their sums take 200 MiB."""
TIMES_MS: Final = (-62_135_596_800_000, 253_402_300_799_999)
"""Range of representable dates; store times outside it are clamped."""

_SUMMED: Final = ("messages", "bytes", "body_bytes", "compressed", "keys")
_LEAST: Final = ("first_ms", "queue", "place", "length")
_MOST: Final = ("body_bytes_max", "last_ms")
_ROW: Final = np.dtype([(name, "<i8") for name in ("group", *_SUMMED, *_LEAST, *_MOST)])
_BORN_HOST_AT: Final = RECORD_HEAD.positions["born_host"]
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_FOLD: Final = np.uint64(29)
_LOW_BYTES: Final = np.array([(1 << 8 * count) - 1 for count in range(8)] + [2**64 - 1], "<u8")
"""Masks of a word's first 0 to 8 bytes."""

Rows = NDArray[Any]
Document = dict[str, Any]


@dataclass(slots=True)
class Statistics:
    """Statistics of a search: sums over all messages and by group, and the largest messages.

    group_count   number of groups, of which `rows` may show only some
    is_rough      whether small groups were dropped, so that counts may be too small
    """

    summary: Document
    rows: list[Document]
    largest: list[Document]
    group_count: int
    is_rough: bool


class Portion(NamedTuple):
    """Records of a chunk, and the columns that determine their groups.

    topic   a number for each record, equal for records of one topic
    """

    picked: Picked
    topic: Numbers
    tags: Spans
    keys: Spans


class GroupSelection(NamedTuple):
    """The group of each record: a record may be in several groups, or in none.

    text   positions and lengths, in the buffer, of the texts that name the groups
    """

    record: Numbers
    group: Numbers
    text: tuple[Numbers, Numbers] | None = None


class Dimension(NamedTuple):
    """A grouping: the group of each message, and the fields that identify a group in its row."""

    members: Callable[[Portion], GroupSelection]
    label: Callable[[Any, QueueKey, bytes], Document]


def measure(
    search: LogSearch, files: Sequence[LogFile], *, by: str | None = None, top: int = 20
) -> Statistics:
    """Counts the messages that a search finds, in total and by one of DIMENSIONS.

    files    the log's files, from which the texts of groups are read
    top      upper limit of rows for dimensions outside IN_ORDER, and for the largest messages
    Cost     about 1 µs a record plus reading; more by `key`
    """
    total, tally, largest = GroupSums(), GroupSums(), Largest(top)
    dimension = DIMENSIONS[by] if by is not None else None
    for picked in search:
        spans = find_properties(picked.buffer, picked.heads)
        pieces, _ = split_keys(picked.buffer, spans.keys)
        key_counts = np.bincount(pieces.record, minlength=len(picked.heads))
        every = np.arange(len(picked.heads))
        total.add(picked, key_counts, GroupSelection(every, np.zeros_like(every)))
        largest.add(picked)
        if dimension is not None:
            portion = Portion(picked, search.topics(picked), spans.tags, pieces)
            tally.add(picked, key_counts, dimension.members(portion))
    sums, groups, keys = total.rows(), tally.rows(), search.queues.keys
    summary = _amounts(sums[0] if len(sums) else np.zeros(1, dtype=_ROW)[0])
    used = [keys[number] for number in sorted(total.queues)]
    summary |= {"topics": len({topic for topic, _ in used}), "queues": len(used)}
    chosen = groups if by in IN_ORDER else groups[np.argsort(-groups["messages"], kind="stable")]
    rows = []
    for row in chosen if by in IN_ORDER else chosen[:top]:
        assert dimension is not None
        length = int(row["length"])
        text = bytes_at(files, int(row["place"]), length) if length else b""
        rows.append(dimension.label(row["group"], keys[row["queue"]], text) | _amounts(row))
    return Statistics(summary, rows, largest.documents(keys), len(groups), tally.is_rough)


@dataclass(slots=True)
class GroupSums:
    """Sums by group; `queues` are the numbers of all queues that were added."""

    queues: set[int] = field(default_factory=set)
    is_rough: bool = False
    _parts: list[Rows] = field(default_factory=list)
    _pending: int = 0

    def add(self, picked: Picked, key_counts: Numbers, members: GroupSelection) -> None:
        """Adds records of a chunk to the sums of their groups."""
        record, heads = members.record, picked.heads
        rows = np.zeros(len(record), dtype=_ROW)
        rows["group"] = members.group
        rows["messages"] = 1
        rows["bytes"] = heads.size[record]
        rows["body_bytes"] = rows["body_bytes_max"] = heads.body_size[record]
        rows["compressed"] = (heads.system_flag & FLAG_COMPRESSED)[record]
        rows["keys"] = key_counts[record]
        rows["first_ms"] = rows["last_ms"] = heads.store_timestamp_ms[record]
        rows["queue"] = picked.queue[record]
        if members.text is not None:
            begin, length = members.text
            rows["place"], rows["length"] = begin + picked.shift, length
        self.queues.update(np.unique(rows["queue"]).tolist())
        self._parts.append(_reduced(rows))
        self._pending += len(self._parts[-1])
        if self._pending > PENDING_MAX:
            self._parts = [self.rows()]
            self._pending = 0

    def rows(self) -> Rows:
        """Returns one row per group, in ascending order of group number."""
        if not self._parts:
            return np.zeros(0, dtype=_ROW)
        rows = _reduced(np.concatenate(self._parts))
        if len(rows) > GROUPS_MAX:
            self.is_rough = True
            rows = rows[np.sort(np.argsort(rows["messages"], kind="stable")[-GROUPS_MAX // 2 :])]
        self._parts = [rows]
        assert (rows["group"][1:] > rows["group"][:-1]).all()
        return rows


def _reduced(rows: Rows) -> Rows:
    """Returns one row per group: the sums of the group's rows."""
    if not len(rows):
        return rows
    group = rows["group"]
    if (group == group[0]).all():
        ordered = rows
    else:
        ordered = rows[np.argsort(group, kind="stable")]
        group = ordered["group"]
    begins = np.append(0, np.flatnonzero(group[1:] != group[:-1]) + 1)
    sums = np.empty(len(begins), dtype=_ROW)
    sums["group"] = group[begins]
    for names, join in ((_SUMMED, np.add), (_LEAST, np.minimum), (_MOST, np.maximum)):
        for name in names:
            sums[name] = join.reduceat(ordered[name], begins)
    return sums


def _amounts(row: Any) -> Document:
    messages = int(row["messages"])
    is_empty = not messages
    return {
        "messages": messages,
        "bytes": int(row["bytes"]),
        "body_bytes": int(row["body_bytes"]),
        "body_bytes_average": round(int(row["body_bytes"]) / max(messages, 1), 1),
        "body_bytes_max": int(row["body_bytes_max"]),
        "compressed_ratio": round(int(row["compressed"]) / max(messages, 1), 4),
        "keys_per_message": round(int(row["keys"]) / max(messages, 1), 2),
        "first_store_timestamp_ms": None if is_empty else int(row["first_ms"]),
        "last_store_timestamp_ms": None if is_empty else int(row["last_ms"]),
    }


@dataclass(slots=True)
class Largest:
    """The messages with the largest bodies; of equal sizes, the earliest."""

    count: int
    _rows: list[tuple[int, int, int, int, int]] = field(default_factory=list)

    def add(self, picked: Picked) -> None:
        """Adds records of a chunk, and keeps only the largest records."""
        heads = picked.heads
        least = self._rows[-1][0] if len(self._rows) == self.count else 1
        hits = np.flatnonzero(-heads.body_size < least)
        hits = hits[np.argsort(-heads.body_size[hits], kind="stable")[: self.count]]
        columns = (
            -heads.body_size, heads.physical_offset, picked.queue, heads.queue_offset, heads.size,
        )  # fmt: skip
        found = zip(*(column[hits].tolist() for column in columns), strict=True)
        self._rows = sorted([*self._rows, *found])[: self.count]
        assert len(self._rows) <= self.count

    def documents(self, keys: list[QueueKey]) -> list[Document]:
        """Returns one row per message, the largest first."""
        return [
            {
                "topic": keys[queue][0],
                "queue_id": keys[queue][1],
                "queue_offset": queue_offset,
                "physical_offset": place,
                "store_size": size,
                "body_bytes": -negative,
            }
            for negative, place, queue, queue_offset, size in self._rows
        ]


# -- groups ----------------------------------------------------------------------------------------
def _by(numbers: Callable[[Portion], Numbers]) -> Callable[[Portion], GroupSelection]:
    """Returns a function that groups every record by a number."""

    def members(portion: Portion) -> GroupSelection:
        return GroupSelection(np.arange(len(portion.topic)), numbers(portion))

    return members


def _by_time(step_ms: int) -> Callable[[Portion], GroupSelection]:
    return _by(
        lambda portion: np.clip(portion.picked.heads.store_timestamp_ms, *TIMES_MS) // step_ms
    )


def _time_label(name: str, step_ms: int) -> Callable[[Any, QueueKey, bytes], Document]:
    def label(group: Any, key: QueueKey, text: bytes) -> Document:
        moment = datetime.fromtimestamp(max(int(group) * step_ms, TIMES_MS[0]) / 1000, UTC)
        return {name: f"{moment:%Y-%m-%dT%H:00Z}" if name == "hour" else f"{moment:%Y-%m-%d}"}

    return label


def _size_label(group: Any, key: QueueKey, text: bytes) -> Document:
    return {"from_bytes": 1 << int(group) - 1 if group else 0, "below_bytes": 1 << int(group)}


def _members_by_tag(portion: Portion) -> GroupSelection:
    tags, count = portion.tags, len(portion.topic)
    places = np.zeros((2, count), dtype=np.int64)
    places[:, tags.record] = tags.begin, tags.length
    return _members_by_text(portion, Spans(np.arange(count), *places), portion.topic)


def _members_by_host(portion: Portion) -> GroupSelection:
    heads: Heads = portion.picked.heads
    length = np.where(heads.system_flag & FLAG_BORN_HOST_V6, 16, 4)
    spans = Spans(np.arange(len(heads)), heads.begin + _BORN_HOST_AT, length)
    return _members_by_text(portion, spans, np.zeros_like(portion.topic))


def _members_by_text(portion: Portion, spans: Spans, seeds: Numbers) -> GroupSelection:
    group = _fold(portion.picked.buffer, spans, seeds[spans.record])
    return GroupSelection(spans.record, group, (spans.begin, spans.length))


def _fold(buffer: bytearray, spans: Spans, seeds: Numbers) -> Numbers:
    """Returns a seeded 64-bit hash of each text; collisions are improbable."""
    every = words_of(buffer)
    folded: Words = (seeds.astype(np.uint64) + np.uint64(1)) * _MIX + spans.length.astype(np.uint64)
    longest = int(spans.length.max()) if len(spans.length) else 0
    for begin in range(0, longest, 8):
        active = np.flatnonzero(spans.length > begin)
        left = np.minimum(spans.length[active] - begin, 8)
        word = every[spans.begin[active] + begin] & _LOW_BYTES[left]
        mixed = (folded[active] ^ word) * _MIX
        folded[active] = mixed ^ (mixed >> _FOLD)
    return (folded * _MIX).view(np.int64)


def _text(text: bytes) -> str:
    return text.decode("utf-8", "replace")


DIMENSIONS: Final = {
    "topic": Dimension(_by(lambda portion: portion.topic), lambda g, key, t: {"topic": key[0]}),
    "queue": Dimension(
        _by(lambda portion: portion.picked.queue),
        lambda group, key, text: {"topic": key[0], "queue_id": key[1]},
    ),
    "tag": Dimension(
        _members_by_tag, lambda group, key, text: {"topic": key[0], "tag": _text(text) or None}
    ),
    "key": Dimension(
        lambda portion: _members_by_text(portion, portion.keys, portion.topic),
        lambda group, key, text: {"topic": key[0], "key": _text(text)},
    ),
    "host": Dimension(
        _members_by_host, lambda group, key, text: {"born_host": str(ip_address(text))}
    ),
    "hour": Dimension(_by_time(HOUR_MS), _time_label("hour", HOUR_MS)),
    "day": Dimension(_by_time(DAY_MS), _time_label("day", DAY_MS)),
    "size": Dimension(
        _by(lambda portion: np.frexp(portion.picked.heads.body_size)[1].astype(np.int64)),
        _size_label,
    ),
}
"""Groupings of messages by name; equal keys or tags of two topics are separate groups."""
