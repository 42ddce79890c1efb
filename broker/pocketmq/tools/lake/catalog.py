"""Names and contents of a lake's objects.

    date=2026-11-28/topic=orders/RUN-NUMBER.parquet   messages, by date of the store time (UTC)
    _pocketmq/manifest.json                           the files, and what they contain of the log
    _pocketmq/table.json                              instead of it: the name of an Iceberg table
    metadata/                                         files of that table
    _pocketmq/intent.json                             files that a commit is about to write
    _pocketmq/drafts/                                 drafts, if the lake is a directory

A file that the manifest does not name is no part of the lake. Readers of Parquet ignore names that
begin with `_`.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple
from urllib.parse import quote

from pocketmq.model.errors import Corruption
from pocketmq.model.message import QueueKey
from pocketmq.tools.archive.summed_json import decode_summed, encode_summed
from pocketmq.tools.export.files import NAME_SIZE_MAX, day_name

FORMAT: Final = "pocketmq lake 1"
OWN: Final = "_pocketmq"
MANIFEST: Final = f"{OWN}/manifest.json"
TABLE: Final = f"{OWN}/table.json"
INTENT: Final = f"{OWN}/intent.json"
DRAFTS: Final = "drafts"
METADATA: Final = "metadata"
ALL_TOPICS: Final = ""
"""Key of `LakeMarks.walked` for runs without --topic."""
_SAFE: Final = "|~"
"""Characters of a topic that are not quoted in a partition's name, besides letters, digits and
`_.-`."""


def partition_of(day: int, topic: str) -> str:
    """Returns the name of the partition with the messages of a day and a topic."""
    return f"date={day_name(day)}/{topic_part(topic)}"


def topic_part(topic: str) -> str:
    """Returns the last part of the names of a topic's partitions; too long names are cut."""
    name = quote(topic, safe=_SAFE)
    if len(name) > NAME_SIZE_MAX:
        name = f"{name[:NAME_SIZE_MAX]}~{zlib.crc32(name.encode()):08x}"
    return f"topic={name}"


class LakeFile(NamedTuple):
    """A file of the lake, and the bounds of its messages' physical offsets and store times.

    path    its name, which begins with the name of its partition
    size    bytes of the file
    place   its partition, if another program chose the path
    """

    path: str
    rows: int
    size: int
    first_offset: int
    last_offset: int
    first_ms: int
    last_ms: int
    place: str = ""

    @property
    def partition(self) -> str:
        """Name of its partition."""
        return self.place or self.path.rpartition("/")[0]


class QueueMark(NamedTuple):
    """The end of a queue's messages in the lake.

    next_offset       queue offset after the last one
    physical_offset   physical offset of the last one
    """

    next_offset: int
    physical_offset: int


class LastRecord(NamedTuple):
    """The record with the greatest physical offset in the lake; size 0: there is none."""

    physical_offset: int = -1
    size: int = 0
    digest: str = ""


NO_RECORD: Final = LastRecord()


@dataclass(frozen=True, slots=True)
class LakeMarks:
    """How far a lake contains a log and its queues.

    walked   topic pattern -> physical offset below which all messages of these topics are in the
             lake; ALL_TOPICS -> the same for all topics
    queues   marks by topic and queue id
    """

    walked: Mapping[str, int] = field(default_factory=dict)
    queues: Mapping[QueueKey, QueueMark] = field(default_factory=dict)
    last: LastRecord = NO_RECORD

    @property
    def upto(self) -> int:
        """Physical offset below which the lake contains all messages; -1: unknown."""
        return self.walked.get(ALL_TOPICS, -1)

    def begin(self, patterns: tuple[str, ...]) -> int:
        """Returns the physical offset at which a run over these topics begins."""
        begins = [self.walked.get(pattern, 0) for pattern in patterns or (ALL_TOPICS,)]
        return max(self.upto, *[min(begins)], 0)

    def walked_upto(self, patterns: tuple[str, ...], upto: int) -> "LakeMarks":
        """Returns the marks after a run over these topics."""
        new = dict.fromkeys(patterns or (ALL_TOPICS,), upto)
        assert all(self.walked.get(name, 0) <= at for name, at in new.items()), "a mark goes back"
        return replace(self, walked={**self.walked, **new})


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a lake.

    run       number of commits
    removed   names of files that are no longer part of the lake, but may still exist
    """

    run: int = 0
    marks: LakeMarks = field(default_factory=LakeMarks)
    files: tuple[LakeFile, ...] = ()
    removed: tuple[str, ...] = ()

    def encode(self) -> bytes:
        """Returns the manifest as JSON; its member `sha256` is the digest of the others."""
        queues: dict[str, dict[str, QueueMark]] = {}
        for (topic, queue_id), mark in self.marks.queues.items():
            queues.setdefault(topic, {})[str(queue_id)] = mark
        members = {
            "run": self.run, "walked": dict(self.marks.walked), "queues": queues,
            "last": self.marks.last, "files": [file[:-1] for file in self.files],
            "removed": self.removed,
        }  # fmt: skip
        return encode_summed(FORMAT, members)


def manifest_of(content: bytes, path: str) -> Manifest:
    """Parses the content of a manifest.

    Errors   Corruption: it is not what a run wrote
    """
    try:
        document = decode_summed(content, FORMAT)
        queues = {
            (topic, int(number)): QueueMark(*mark)
            for topic, marks in document["queues"].items()
            for number, mark in marks.items()
        }
        marks = LakeMarks(document["walked"], queues, LastRecord(*document["last"]))
        files = tuple(LakeFile(*file) for file in document["files"])
        return Manifest(document["run"], marks, files, tuple(document["removed"]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        why = f"it is not what `pocketmq archive run` wrote: {error}"
        raise Corruption(path=path, file_position=0, physical_offset=0, why=why) from error
