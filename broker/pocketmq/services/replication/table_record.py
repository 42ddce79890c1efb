"""Records of the stream to followers that carry tables: one file, or rows of the journal.

    u32 length, JSON {"name", "seq", "kind", "at", "position", "size"}, content

    name       file, relative to the store (store/tables/copied_files.py)
    seq        number of the change up to which the follower has all files once it has this record
    kind       "file": content replaces the file; "append": content goes to `position` of the
               journal, or of a file of the timer log with `size` bytes; "drop": the file does not
               exist, or a new copy of the timer log begins
    at         physical offset below which the follower must have the log first

Source: none; slaves of RocketMQ ask for each table every minute.
"""

import json
from struct import Struct
from typing import Any, Final, NamedTuple

from pocketmq.format.json_text import is_integer, read_object
from pocketmq.model.message import OFFSET_MAX
from pocketmq.services.replication.protocol import SlaveRefused
from pocketmq.store.tables.copied_files import COPIED, JOURNAL, TIMER_LOG, timer_begin

FILE, APPEND, DROP = "file", "append", "drop"
RECORD_SIZE_MAX: Final = 1 << 28
"""Upper limit of a record's bytes."""
HEAD_SIZE_MAX: Final = 1_024
_LENGTH: Final = Struct(">I")


class RecordRefused(SlaveRefused):
    """A record that no leader sends, or a report of one that was not sent; nothing was written."""


class TableRecord(NamedTuple):
    """One record; see the module for its fields."""

    name: str
    seq: int
    kind: str
    at: int = 0
    position: int = 0
    size: int = 0
    content: bytes = b""

    def encode(self) -> bytes:
        """Returns the bytes after the frame's head."""
        head = json.dumps({**self._asdict(), "content": None}, separators=(",", ":")).encode()
        return _LENGTH.pack(len(head)) + head + self.content


def decode_record(content: bytes) -> TableRecord:
    """Decodes a record.

    Errors   RecordRefused: it names a file that is not copied, or a field is wrong
    """
    size = _LENGTH.unpack_from(content)[0] if len(content) >= _LENGTH.size else 0
    end = _LENGTH.size + size
    if not 0 < size <= HEAD_SIZE_MAX or end > len(content) or len(content) > RECORD_SIZE_MAX:
        raise RecordRefused(f"a record of {len(content)} bytes has a head of {size} bytes")
    try:
        fields = read_object(content[_LENGTH.size : end])
    except ValueError as error:
        raise RecordRefused(f"the head of a record is no JSON object: {error}") from error
    record = TableRecord(*_checked(fields), content[end:])
    is_timer = timer_begin(record.name) is not None
    if record.kind == APPEND and not is_timer and record.name != JOURNAL:
        raise RecordRefused(f"rows cannot be appended to {record.name}")
    if record.kind == FILE and record.name not in COPIED:
        raise RecordRefused(f"{record.name} is not copied as a whole")
    if record.content and record.kind == DROP:
        raise RecordRefused(f"{record.name} is dropped and has {len(record.content)} bytes")
    return record


def _checked(fields: dict[str, Any]) -> tuple[str, int, str, int, int, int]:
    name, kind = str(fields.get("name")), fields.get("kind")
    if name not in (*COPIED, TIMER_LOG) and timer_begin(name) is None:
        raise RecordRefused(f"{name[:64]!r} is no file that followers copy")
    if kind not in (FILE, APPEND, DROP):
        raise RecordRefused(f"{name}: {str(kind)[:64]!r} is no kind of change")
    for field in ("seq", "at", "position", "size"):
        if not is_integer(fields.get(field), 0, OFFSET_MAX):
            raise RecordRefused(f"{name}: {field} is no number")
    return name, fields["seq"], kind, fields["at"], fields["position"], fields["size"]
