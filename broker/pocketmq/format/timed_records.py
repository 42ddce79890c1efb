"""Records of the timer topic, many at a time: their due times, and the delivered messages.

Property blocks are not parsed pair by pair: blocks with the same names in the same order share a
plan that states where each value is written. format/rewrite.py encodes irregular blocks; both ways
yield the same bytes.
Source: TimerMessageStore.enqueue, convert.
"""

from dataclasses import dataclass, field
from operator import itemgetter
from struct import Struct
from typing import Any, Final, NamedTuple

from pocketmq.format.java_hash import java_hash
from pocketmq.format.properties import PROPERTIES_SIZE_MAX, property_key, property_value
from pocketmq.format.record import MAGIC_V1, PROPERTY_CRC_SIZE, RECORD_HEAD, split_record
from pocketmq.format.rewrite import facts_of, in_decoded_order, put_again
from pocketmq.model.batch import Batch, Destination, Run
from pocketmq.model.decimal import SUMMABLE_MAX, number_of, number_of_bytes
from pocketmq.model.message import (
    INT32_MAX,
    KEYS,
    PROPERTY_CRC,
    REAL_QUEUE,
    REAL_TOPIC,
    RECALL_SEPARATOR,
    RECALL_TAG,
    TAGS,
    TIMER_DELETE,
    TIMER_DEQUEUED,
    TIMER_ENQUEUED,
    TIMER_OUT,
    TIMER_OUT_NOW,
    TIMER_ROLLS,
    UNIQUE_KEY,
)
from pocketmq.model.system_topics import REVIVE_TOPIC_PREFIX

AT_ONCE_ENQUEUED: Final = 2**63 - 1
"""TIMER_ENQUEUE_MS of a message that was due when it arrived."""
PLANS_MAX: Final = 4_096
_ROOM: Final = PROPERTIES_SIZE_MAX - PROPERTY_CRC_SIZE
_OUT: Final = property_key(TIMER_OUT)
_OUT_NOW: Final = property_key(TIMER_OUT_NOW)
_ROLLS: Final = property_key(TIMER_ROLLS)
_TOPIC: Final = property_key(REAL_TOPIC)
_REVIVE_PREFIX: Final = REVIVE_TOPIC_PREFIX.encode()
_OF_JOURNAL: Final = _TOPIC[1:] + _REVIVE_PREFIX
_MARKER: Final = property_key(TIMER_DELETE)
_TAGS: Final = property_key(TAGS)
_KEY: Final = property_key(UNIQUE_KEY)
_RECALL: Final = RECALL_TAG.encode()
_ADDED: Final = (TIMER_ENQUEUED.encode(), TIMER_DEQUEUED.encode())
_HEAD: Final = RECORD_HEAD.struct.unpack_from
_V6: Final = 0x30
_QUICK_HEAD: Final = Struct(">iI12xqqi44xi").unpack_from
"""Size, magic, queue offset, physical offset, system flag, body length; for IPv4 hosts."""


def _time_of(text: bytes | None) -> int:
    return max(number_of_bytes(text or b"", SUMMABLE_MAX), 0)


def rolls_after(text: str) -> int:
    """Returns the roll count that follows a text's (TIMER_ROLL_TIMES); 1 for an invalid text."""
    return max(number_of(text, INT32_MAX - 1) + 1, 1)


def is_journal_record(record: bytes) -> bool:
    """Returns whether a record belongs to the lease journal; only its real topic decides.

    A client's message may have the same tag, an equal body and a topic with the same hash.
    """
    if _OF_JOURNAL not in record:
        return False
    _, _, _, _, begin, end = split_record(record, 0)
    return (property_value(record, _TOPIC, begin, end) or b"").startswith(_REVIVE_PREFIX)


def queue_offset_of(record: bytes) -> int:
    """Returns a record's queue offset."""
    return int.from_bytes(record[20:28])


@dataclass(slots=True, eq=False)
class TimedFacts:
    """Columns of records read from the timer topic, in their order.

    out_ms        TIMER_OUT_MS of each message; 0 if absent: the message is due at once
    due_ms        due times: PMQ_TIMER_OUT_MS, corrected for clock changes, if the broker set it;
                  else out_ms
    topic_hashes  as units of the timer log contain them
    markers       whether each record is a delete marker, which recalls another message
    """

    out_ms: list[int] = field(default_factory=list)
    due_ms: list[int] = field(default_factory=list)
    topic_hashes: list[int] = field(default_factory=list)
    markers: list[bool] = field(default_factory=list)
    physical_offsets: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    queue_offsets: list[int] = field(default_factory=list)
    _parts: list[tuple[bytes, int]] = field(default_factory=list, init=False)
    topics: dict[bytes, int] = field(default_factory=dict)
    """Topic -> its Java hash."""

    def __len__(self) -> int:
        return len(self.due_ms)

    @property
    def size_sum(self) -> int:
        """Bytes of the records."""
        return sum(self.sizes)

    def add(self, content: bytes) -> None:
        """Adds the columns of valid records that are contiguous in `content`.

        Cost     some 3 µs a record
        """
        position = 0
        while position < len(content):
            size, magic, queue_offset, place, system_flag, body_size = _QUICK_HEAD(
                content, position
            )
            end = position + size
            begin = position + RECORD_HEAD.size + body_size
            if system_flag & _V6 or magic != MAGIC_V1:
                _, _, _, _, begin, end = split_record(memoryview(content), position)
            else:
                begin += content[begin] + 3
            out_ms = _time_of(property_value(content, _OUT, begin, end))
            self.out_ms.append(out_ms)
            out_now = property_value(content, _OUT_NOW, begin, end)
            if out_now is not None and property_value(content, _ROLLS, begin, end) is not None:
                # Clients may set PMQ_TIMER_OUT_MS; the broker sets it only with TIMER_ROLL_TIMES.
                out_ms = _time_of(out_now) or out_ms
            self.due_ms.append(out_ms)
            topic = property_value(content, _TOPIC, begin, end) or b""
            found = self.topics.get(topic)
            self.topic_hashes.append(self._hash(topic) if found is None else found)
            self.markers.append(property_value(content, _MARKER, begin, end) is not None)
            self.queue_offsets.append(queue_offset)
            self.physical_offsets.append(place)
            self.sizes.append(size)
            self._parts.append((content, position))
            position += size

    def _hash(self, topic: bytes) -> int:
        if len(self.topics) >= PLANS_MAX:
            self.topics.clear()
        found = self.topics[topic] = java_hash(topic.decode("utf-8", "replace"))
        return found

    def record(self, number: int) -> bytes:
        """Returns the bytes of a record by its number."""
        content, position = self._parts[number]
        return content[position : position + self.sizes[number]]


def taken_back(record: bytes) -> bytes:
    """Returns the id of the message that a delete marker recalls; empty if it names no message.

    The marker of a recall applies only to the topic that its caller may send to. So its id consists
    of topic and key, even if RocketMQ's setting compares only the key.
    """
    _, _, _, _, begin, end = split_record(record, 0)
    said = property_value(record, _MARKER, begin, end) or b""
    if said and property_value(record, _TAGS, begin, end) == _RECALL:
        topic = property_value(record, _TOPIC, begin, end) or b""
        key = property_value(record, _KEY, begin, end) or said
        return topic + RECALL_SEPARATOR.encode() + key
    return said


def is_taken_back(topic: bytes, key: bytes, gone: frozenset[bytes]) -> bool:
    """Returns whether a message is among those that delete markers recall.

    gone   ids in delete markers: topic and unique key in markers of recalls (`taken_back`); in
           other markers the unique key, or topic, "+" and unique key
    """
    ways = (key, topic + b"+" + key, topic + RECALL_SEPARATOR.encode() + key)
    return not gone.isdisjoint(ways)


class _Plan(NamedTuple):
    """How property blocks with the same names are rewritten for delivery.

    order      indices of the template's values in: the block's values, enqueue time, dequeue time
    numbers    indices of the values of real topic, real queue, unique key, keys, tags; -1: absent
    """

    template: bytes
    order: Any
    numbers: tuple[int, ...]


class Due(NamedTuple):
    """A due message as columns of a batch, with its real topic and queue."""

    topic: bytes
    queue: bytes
    row: tuple[bytes, bytes, str, str, str, int, bytes, int, int]
    system_flag: int


class DueRecords:
    """Makes messages from due records."""

    __slots__ = ("_plans",)

    def __init__(self) -> None:
        self._plans: dict[tuple[bytes, ...], _Plan | None] = {}

    def message(self, record: bytes, enqueued_ms: int, dequeued_ms: int) -> Due | None:
        """Returns a record's message; None if its property block is irregular, see `odd_run`.

        Cost     some 4 µs
        """
        head = _HEAD(record, 0)
        if head[7] & _V6:
            head, body_begin, _, _, begin, end = split_record(record, 0)
        else:
            body_begin = RECORD_HEAD.size
            begin, end = body_begin + head[14] + record[body_begin + head[14]] + 3, head[0]
        block = record[begin:end]
        if not block.endswith(b"\x02"):
            return None
        pieces = block[:-1].replace(b"\x02", b"\x01").split(b"\x01")
        names = tuple(pieces[::2])
        try:
            plan = self._plans[names]
        except KeyError:
            plan = self._planned(names)
        values = pieces[1::2]
        pair_count = block.count(b"\x02")
        is_plain = len(values) == pair_count == block.count(b"\x01")
        if plan is None or not is_plain or b"" in values:
            return None
        values += (b"%d" % enqueued_ms, b"%d" % dequeued_ms, b"")
        made = plan.template % plan.order(values)
        if len(made) > _ROOM:
            return None
        topic, queue, unique_key, keys, tags = [values[number] for number in plan.numbers]
        row = (
            record[body_begin : body_begin + head[14]],
            made,
            unique_key.decode("utf-8", "replace"),
            keys.decode("utf-8", "replace"),
            tags.decode("utf-8", "replace"),
            head[8],
            head[9],
            head[4],
            head[12],
        )
        return Due(topic, queue, row, head[7] & ~_V6)

    def _planned(self, names: tuple[bytes, ...]) -> _Plan | None:
        if len(self._plans) >= PLANS_MAX:
            self._plans.clear()
        self._plans[names] = plan = _plan_of(names)
        return plan


def _plan_of(names: tuple[bytes, ...]) -> _Plan | None:
    """Returns the plan for blocks with these names; None if names repeat or are irregular."""
    is_odd = len(set(names)) < len(names) or b"" in names or any(n in names for n in _ADDED)
    if is_odd:
        return None
    all_names = [*names, *_ADDED]
    numbers = {name: number for number, name in enumerate(all_names)}
    kept = in_decoded_order(name for name in all_names if name != PROPERTY_CRC.encode())
    template = b"".join(name.replace(b"%", b"%%") + b"\x01%b\x02" for name in kept)
    wanted = (REAL_TOPIC, REAL_QUEUE, UNIQUE_KEY, KEYS, TAGS)
    found = tuple(numbers.get(name.encode(), -1) for name in wanted)
    return _Plan(template, itemgetter(*(numbers[name] for name in kept)), found)


def odd_run(
    record: bytes, *, place: tuple[str, int], store_host: bytes, enqueued_ms: int,
    dequeued_ms: int, rolls: int = 0, moved_ms: int = 0,
) -> Run:  # fmt: skip
    """Returns a run that puts a record into a queue as one message, whatever its property block.

    rolls    the next roll count if the record is put back to the timer topic; 0 if it is delivered
    moved_ms clock correction of its due time, added to TIMER_OUT_MS
    Errors   BadRecord
    """
    changed = {TIMER_ENQUEUED: str(enqueued_ms), TIMER_DEQUEUED: str(dequeued_ms)}
    if rolls:
        changed[TIMER_ROLLS] = str(rolls)
        out_ms = _time_of(facts_of(record)[1].get(TIMER_OUT, "").encode())
        changed[TIMER_OUT_NOW] = str(out_ms + moved_ms) if moved_ms else ""
    topic, queue_id = place
    return put_again(record, topic=topic, queue_id=queue_id, store_host=store_host, changed=changed)


def run_of(destination: Destination, messages: list[Due]) -> Run:
    """Returns messages of one queue as a run."""
    rows = [due.row for due in messages]
    columns = [list(column) for column in zip(*rows, strict=True)]
    bodies, blocks, unique_keys, keys, tags, born_ms, born_hosts, flags, reconsume_times = columns
    batch = Batch(
        bodies=bodies, property_blocks=blocks, unique_keys=unique_keys, keys=keys, tags=tags,
        born_ms=born_ms, born_hosts=born_hosts, flags=flags, reconsume_times=reconsume_times,
    )  # fmt: skip
    return destination, batch


def one_by_one(run: Run) -> list[Run]:
    """Splits a run into runs of one message each."""
    destination, batch = run
    return [(destination, batch.part([number])) for number in range(len(batch))]
