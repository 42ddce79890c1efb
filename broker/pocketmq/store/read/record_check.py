"""Checks that bytes are a valid record, and that it is the record to which a unit refers.

A damaged unit may refer to another valid record, so that a record's fields must match the unit. A
multi-dispatch record may contain the queue in its properties (format/multi_dispatch.py). RocketMQ
5.0.0 increases a queue's next offset even for a refused send, so that later records contain too
high queue offsets: such a record is accepted if it is between the records of the adjacent units.
"""

from collections.abc import Callable
from functools import cache, lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

from pocketmq.files.mapped_file import MappedFile
from pocketmq.format.consume_unit import PRE_BLANK_SIZE, UNIT
from pocketmq.format.layout import CRC_MASK, Buffer, crc32
from pocketmq.format.multi_dispatch import further_places
from pocketmq.format.properties import decode_properties
from pocketmq.format.record import (
    HOSTS_V6_MASK,
    MAGIC_V1,
    PROPERTY_CRC_SIZE,
    RECORD_HEAD,
    RECORD_SIZE_MIN,
    BadRecord,
    check_record,
    property_crc_field,
    split_record,
    topic_field,
)
from pocketmq.log.commit_log import CommitLog
from pocketmq.log.consume_queue import ConsumeQueue
from pocketmq.model.errors import Corruption
from pocketmq.model.message import MULTI_QUEUE_OFFSET, PROPERTY_CRC
from pocketmq.store.read.read_plan import BYTES_MAX, QueuedRecords, Row, apart

CRC_MARK: Final = ord("_")
"""Value of the first two bytes of a property CRC; records that end with one are checked in full."""
_MULTI_QUEUE_OFFSET: Final = MULTI_QUEUE_OFFSET.encode()
_CRC_NAME: Final = f"{PROPERTY_CRC}\x01".encode()
_DIGITS_BEGIN: Final = len(_CRC_NAME)
_DIGITS_END: Final = PROPERTY_CRC_SIZE - 1
_QUICK_HEAD: Final = Struct(">iIii4xqqi44xi").unpack_from
"""Fields of a record with IPv4 hosts: size, magic, body CRC, queue id, queue offset, physical
offset, system flag, body length. With IPv6 hosts, only the body length has another position."""
QUEUES_MAX: Final = 1_024
RANGES_MAX: Final = 8
NO_CRC: Final = 2**63
"""Physical offset beyond every log: no record must have a property CRC."""
_HEAD_SIZE: Final = RECORD_HEAD.size
_NUMBER_AT: Final = RECORD_HEAD.positions["queue_offset"]
GAP_MAX: Final = 64 * 1024
SIZE: Final = Struct(">i")


class Asked(NamedTuple):
    """The fields that records of one queue must have.

    topic_part         length and topic, as a record contains them
    topic_and_length   unpacks `topic_part` and the length of the properties after it
    crc_from           physical offset from which on records must end with a property CRC
    """

    topic: str
    queue_id: int
    topic_part: bytes
    topic_and_length: Callable[[Buffer, int], tuple[Any, ...]]
    crc_from: int


class UnservedRecord(NamedTuple):
    """The damage of the record at a queue offset, and the record's expected physical offset."""

    queue_offset: int
    physical_offset: int
    why: str


class Beside(NamedTuple):
    """Physical offsets of adjacent units of a queue; -1 for an empty or pre-blank unit.

    first    queue offset of the first unit
    """

    first: int
    places: list[int]

    def holds(self, queue_offset: int, place: int) -> bool:
        """Returns whether `place` is between those of the adjacent units; one of them suffices."""
        number = queue_offset - self.first
        before = self.places[number - 1] if number > 0 else -1
        behind = self.places[number + 1] if number + 1 < len(self.places) else -1
        return before < place < (behind if behind >= 0 else NO_CRC) and max(before, behind) >= 0


NOTHING_BESIDE: Final = Beside(0, [])


def beside(first: int, units: bytes) -> Beside:
    """Returns the physical offsets of units; the first unit has queue offset `first`."""
    rows = UNIT.iter_unpack(units)
    return Beside(first, [-1 if size in (0, PRE_BLANK_SIZE) else at for at, size, _ in rows])


class CheckedRecords(NamedTuple):
    """Valid records in order, possibly joined; their number; the damage of the next record."""

    records: list[bytes]
    record_count: int
    damage: UnservedRecord | None = None


def asked_of(log: CommitLog, queue: ConsumeQueue) -> Asked:
    """Returns the fields that every record of a queue has."""
    crc_from = NO_CRC if log.property_crc_from is None else log.property_crc_from
    return _asked(queue.topic, queue.queue_id, crc_from)


@lru_cache(maxsize=4096)
def _asked(topic: str, queue_id: int, crc_from: int) -> Asked:
    topic_part = topic_field(topic)
    return Asked(topic, queue_id, topic_part, _behind_body(len(topic_part)), crc_from)


@cache
def _behind_body(size: int) -> Callable[[Buffer, int], tuple[Any, ...]]:
    return Struct(f">{size}sh").unpack_from


def is_sound(
    view: Buffer, position: int, place: int, size: int, asked: Asked, queue_offset: int, *,
    is_known: bool = False,
) -> bool:  # fmt: skip
    """Returns whether a record is valid and belongs to a queue offset.

    place     physical offset of the record, which is at `position` of `view`
    is_known  whether the record was found valid earlier: only its identity is checked
    Cost      0.6 µs and the CRC of the body; 5 µs with a property CRC
    """
    end = position + size
    if size < RECORD_SIZE_MIN or position < 0 or end > len(view):
        return False
    if is_known or view[end - PROPERTY_CRC_SIZE] != CRC_MARK != view[end - PROPERTY_CRC_SIZE + 1]:
        found, magic, crc, queue_id, number, own_place, system_flag, body_size = _QUICK_HEAD(
            view, position
        )
        _, wanted_id, topic_part, topic_and_length, crc_from = asked
        begin = position + _HEAD_SIZE
        topic_begin = begin + body_size
        block_size = end - topic_begin - len(topic_part) - 2
        # The body gets no variable: a traceback would keep the memory map open.
        if (
            found == size
            and own_place == place
            and number == queue_offset
            and queue_id == wanted_id
            and magic == MAGIC_V1
            and not system_flag & HOSTS_V6_MASK
            and body_size >= 0 <= block_size
            and (is_known or place < crc_from)
            and topic_and_length(view, topic_begin) == (topic_part, block_size)
            and (is_known or crc32(view[begin:topic_begin]) & CRC_MASK == crc)
        ):
            return True
    # All other forms of records.
    return not why_unsound(bytes(view[position:end]), place, size, asked, queue_offset)


def sound_count(
    view: Buffer, origin: int, run: QueuedRecords, asked: Asked, *, is_known: bool
) -> int:
    """Returns the number of valid records of a run before the first invalid one."""
    for count, (place, size, number) in enumerate(run.rows):
        position = place - origin
        if not is_sound(view, position, place, size, asked, number, is_known=is_known):
            return count
    return len(run.rows)


def is_row_known(view: Buffer, origin: int, run: QueuedRecords, asked: Asked) -> bool:
    """Returns whether the records of a run, which were found valid before, are those of its rows.

    Only the first and last record are checked, and the run must be straight: its records are then
    adjacent, so that the others match too.
    """
    ends = (run.rows[0], run.rows[-1])
    return run.is_straight and all(
        is_sound(view, place - origin, place, size, asked, number, is_known=True)
        for place, size, number in ends
    )


def was_sound(file: MappedFile, begin: int, asked: Asked, first: int, upper: int) -> bool:
    """Returns whether this process wrote or checked the records of [first, upper) in a file.

    begin          physical offset of the first record
    first, upper   queue offsets
    """
    if begin - file.base >= file.written_from:
        return True
    ranges = file.checked.get(asked[:2])
    return ranges is not None and any(a <= first and upper <= b for a, b in ranges)


def remember_sound(file: MappedFile, asked: Asked, first: int, upper: int) -> None:
    """Remembers that the records of queue offsets [first, upper) in a file are valid.

    Memory   up to RANGES_MAX ranges for each of QUEUES_MAX queues of an open file
    """
    assert first < upper
    key = asked[:2]
    kept: list[tuple[int, int]] = []
    for begin, end in file.checked.pop(key, ()):
        if end < first or upper < begin:
            kept.append((begin, end))
        else:
            first, upper = min(begin, first), max(end, upper)
    if len(file.checked) >= QUEUES_MAX:
        file.checked.clear()
    file.checked[key] = [*kept[-RANGES_MAX + 1 :], (first, upper)]
    assert len(file.checked[key]) <= RANGES_MAX


def why_unsound(
    record: bytes, place: int, size: int, asked: Asked, queue_offset: int | None
) -> str:
    """Returns why bytes are not the record of a queue offset; "" if they are.

    queue_offset   None: any
    """
    try:
        check_copy(record, place, size, must_have_crc=place >= asked.crc_from)
        head, _, topic_begin, topic_end, block_begin, block_end = split_record(record, 0)
    except BadRecord as error:
        return str(error)
    topic = record[topic_begin:topic_end].decode("utf-8", "replace")
    carried = head[5] if queue_offset is None else queue_offset
    if (topic, head[3], head[5]) == (asked.topic, asked.queue_id, carried):
        return ""
    if _MULTI_QUEUE_OFFSET in record:
        properties = decode_properties(record[block_begin:block_end])
        places = further_places(topic, head[3], properties)
        if ((asked.topic, asked.queue_id), queue_offset) in places:
            return ""
    return f"another record is there: {topic!r} {head[3]} at {head[5]}"


def check_copy(
    record: bytes, physical_offset: int, size: int, *, must_have_crc: bool = False
) -> None:
    """Raises BadRecord unless bytes are a valid record of this physical offset and size."""
    if len(record) < RECORD_SIZE_MIN:
        raise BadRecord("its unit's size is too small, or exceeds the file")
    if check_record(record, 0, physical_offset) != size:
        raise BadRecord("no record of its unit's size starts there")
    field = record[-PROPERTY_CRC_SIZE:]
    if field.startswith(_CRC_NAME):
        return
    if must_have_crc:
        raise BadRecord("it does not end with a CRC over its properties")
    # Only the CRC's name may be damaged: these digits would not match by chance.
    digits = field[_DIGITS_BEGIN:_DIGITS_END]
    if digits.isdigit() and digits == _digits_of(record):
        raise BadRecord("the name of the CRC over its properties is wrong")


def _digits_of(record: bytes) -> bytes:
    return property_crc_field(record[:-PROPERTY_CRC_SIZE])[_DIGITS_BEGIN:_DIGITS_END]


def shown_at(record: bytes, queue_offset: int) -> bytes:
    """Returns a record with another queue offset; a record with a property CRC is unchanged."""
    if record[-PROPERTY_CRC_SIZE:].startswith(_CRC_NAME):
        return record
    return b"".join((record[:_NUMBER_AT], queue_offset.to_bytes(8), record[_NUMBER_AT + 8 :]))


def read_runs(
    runs: list[tuple[MappedFile, QueuedRecords]], asked: Asked, around: Beside = NOTHING_BESIDE
) -> CheckedRecords:
    """Reads and checks the records of runs in held files; blocks.

    around   physical offsets of the rows' units. A record with another queue offset is accepted if
             it is between its neighbours, and gets the queue offset of its unit
    Memory   the result, and in a run up to GAP_MAX bytes between two records
    """
    records: list[bytes] = []
    for file, run in runs:
        rows = run.rows
        content, origin = _read_together(file, rows), rows[0][0]
        count = sound_count(content, origin, run, asked, is_known=False)
        records += apart(content, origin, rows[:count])
        for place, size, number in rows[count:]:
            record, why = content[place - origin : place - origin + size], ""
            if not content:
                record, why = _read_alone(file, place, size)
            why = why or why_unsound(record, place, size, asked, number)
            if why and around.holds(number, place):
                is_other = bool(why_unsound(record, place, size, asked, None))
                record, why = (record, why) if is_other else (shown_at(record, number), "")
            if why:
                return CheckedRecords(records, len(records), UnservedRecord(number, place, why))
            records.append(record)
    return CheckedRecords(records, len(records))


def _read_together(file: MappedFile, rows: list[Row]) -> bytes:
    begin, (last, last_size, _) = rows[0][0], rows[-1]
    size = last + last_size - begin
    if size > BYTES_MAX + len(rows) * GAP_MAX:
        return b""
    try:
        return file.read(begin - file.base, size)
    except (Corruption, OSError):
        return b""


def _read_alone(file: MappedFile, place: int, size: int) -> tuple[bytes, str]:
    position = place - file.base
    try:
        if file.read(position, SIZE.size) != SIZE.pack(size):
            return b"", "no record of its unit's size starts there"
        return file.read(position, size), ""
    except Corruption as error:
        return b"", error.why
    except OSError as error:
        return b"", f"it cannot be read: {error.strerror}"
