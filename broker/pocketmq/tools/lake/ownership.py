"""Checks that a lake belongs to the store or broker that is archived or read with it.

A lake has no id of its store. It has the sha256 of its last record, and the physical offset of each
queue's last message. Both are compared with the store.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from pocketmq.model.errors import NotAStore
from pocketmq.rebuild.log_files import LogFile, bytes_at
from pocketmq.tools.archive.objects import Objects
from pocketmq.tools.lake.catalog import LastRecord, Manifest
from pocketmq.tools.lake.reading import LakeBounds, last_offsets, parts_of, read_part

_FACTS: Final = ("message_id", "offset_message_id", "store_timestamp_ms", "body_crc")


def check_own(target: str, last: LastRecord, files: Sequence[LogFile], end: int) -> None:
    """Raises NotAStore if a lake's last record is not in a log, though it should be.

    A record in a file that retention has removed is not looked for.

    target   the lake's path or URL, for the error
    end      physical offset of the log's end
    """
    if not last.size or (files and last.physical_offset < files[0].base):
        return
    why = f"its last message is at {last.physical_offset}, and the log ends at {end}"
    if last.physical_offset + last.size <= end:
        record = bytes_at(files, last.physical_offset, last.size)
        if sha256(record).hexdigest() == last.digest:
            return
        why = f"its last message, at {last.physical_offset}, differs from that of the store"
    raise NotAStore(path=target, why=f"it is another store's lake: {why}")


class KnownMessage(NamedTuple):
    """Identifies a message at its physical offset."""

    message_id: str
    offset_message_id: str
    store_timestamp_ms: int
    body_crc: int


def known_message(
    objects: Objects, manifest: Manifest, topic: str, physical_offset: int
) -> KnownMessage | None:
    """Returns the message of a topic at a physical offset of a lake; None if there is none.

    Errors   NotAStore, Corruption, OSError
    """
    bounds = LakeBounds([topic], offsets=(physical_offset, physical_offset + 1))
    last = last_offsets(manifest, [topic])
    for part in parts_of(manifest, bounds):
        for batch in read_part(objects, part, _FACTS, last):
            row = batch.select(_FACTS).to_pylist()[0]
            return KnownMessage(**row)
    return None
