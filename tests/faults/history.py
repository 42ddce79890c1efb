"""Requests of clients and the broker's answers, compared with the store.

    file      a JSON line per event: {t, client, op, key, seq, count, type, queue, offset, err}
    message   lane u32, seq u64, CRC-32 of everything else u32, padding. A lane has one send under
              way at a time, and numbers its messages; type is invoke, ok, fail or info (unknown)

    C-log   offsets are dense, every reader ever sees the same body, lanes stay in order
    C-lost  what was acknowledged is there (prefix: before the first offset, middle: something
            else lies there, postfix: behind the last one)
    C-once  acknowledged and unknown messages once at most, unless their lane sends again; refused
            ones never; group offsets where they were committed
    C-vis   what any consumer ever read stays

The history survives what it tells of: its process is never killed.
"""

import json
import weakref
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from time import monotonic
from typing import Any, Final, NamedTuple
from zlib import crc32

HEAD: Final = Struct(">IQI")
NEVER, UNKNOWN, OK, REFUSED = range(4)
VIOLATIONS_TOLD: Final = 10
WRONG: Final = (
    "lost, prefix", "lost, middle", "lost, postfix", "phantom", "reordered", "duplicate",
    "diverged", "seen and lost", "illegible", "offset wrong",
)  # fmt: skip
"""Kinds of violations."""

Queue = tuple[str, int]
Code = tuple[int, int]
"""Lane and seq of a message."""


class Violation(AssertionError):
    """A store does not agree with what its clients know."""


class Illegible(ValueError):
    """A body is no message of a lane, or is damaged."""


def body_of(code: Code, padding: bytes) -> bytes:
    """Returns the body of a message."""
    lane, seq = code
    crc = crc32(padding, crc32(HEAD.pack(lane, seq, 0)))
    return HEAD.pack(lane, seq, crc) + padding


def code_of(body: bytes) -> Code:
    """Returns which message a body is.

    Errors   Illegible
    """
    if len(body) < HEAD.size:
        raise Illegible(f"{len(body)} bytes")
    lane, seq, crc = HEAD.unpack_from(body)
    if crc != crc32(body[HEAD.size :], crc32(HEAD.pack(lane, seq, 0))):
        raise Illegible("the CRC is wrong")
    return lane, seq


@dataclass
class Lane:
    """Messages of one sender, by seq."""

    number: int
    sends_again: bool
    states: bytearray = field(default_factory=bytearray)
    attempts: bytearray = field(default_factory=bytearray)
    times: bytearray = field(default_factory=bytearray)
    """How often each was found in the log."""


class Acknowledged(NamedTuple):
    """Where a message was said to lie, and when."""

    code: Code
    physical_offset: int
    at: float


@dataclass(frozen=True)
class Loss:
    """Bytes that may be lost: the tail of the log from an offset, acknowledged after a time."""

    log_end: int
    since: float


class History:
    """The history of one store, through all lives of its broker."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.figures: Counter[str] = Counter()
        self.lanes: list[Lane] = []
        self.log: dict[Queue, list[Code]] = {}
        """What lies in each queue, as of the last look."""
        self._seen: dict[Queue, dict[int, Code]] = {}
        self._acknowledged: dict[Queue, dict[int, Acknowledged]] = {}
        self._order: dict[tuple[Queue, int], int] = {}
        self._committed: dict[tuple[str, Queue], tuple[int, int]] = {}
        self._wrong: list[str] = []
        self._begun = monotonic()
        self._file = path.open("w", encoding="utf-8")
        weakref.finalize(self, self._file.close)  # For a test that fails before `close`.

    def close(self) -> None:
        """Ends the file."""
        self._file.close()

    # -- events ------------------------------------------------------------------------------------
    def lane(self, *, sends_again: bool) -> Lane:
        """Returns a new sender's lane."""
        made = Lane(len(self.lanes), sends_again)
        self.lanes.append(made)
        return made

    def event(self, client: str, op: str, kind: str, **fields: Any) -> None:
        """Writes a line."""
        line = {"t": round(monotonic() - self._begun, 6), "client": client, "op": op, **fields}
        self._file.write(json.dumps({**line, "type": kind}) + "\n")

    def invoke(self, lane: Lane, seq: int, count: int, queue: Queue) -> None:
        """Tells that a batch is sent, for the first time or again."""
        new = seq + count - len(lane.states)
        for content in (lane.states, lane.attempts, lane.times):
            content.extend(bytes(max(new, 0)))
        for number in range(seq, seq + count):
            lane.attempts[number] += 1
            if lane.states[number] == NEVER:
                lane.states[number] = UNKNOWN
        self._event_of(lane, "invoke", seq, count, queue=queue)

    def ok(self, lane: Lane, seq: int, places: Sequence[int], queue: Queue, at: int) -> None:
        """Tells that a batch was acknowledged.

        places   physical offset of each message; a lost power line may take only the last ones
        at       queue offset of the first one
        """
        self._event_of(lane, "ok", seq, len(places), queue=queue, offset=at)
        now = monotonic()
        acknowledged = self._acknowledged.setdefault(queue, {})
        for index, physical in enumerate(places):
            self.figures["acknowledged"] += 1
            lane.states[seq + index] = OK
            code = (lane.number, seq + index)
            before = acknowledged.setdefault(at + index, Acknowledged(code, physical, now))
            if before.code != code or at < len(self.log.get(queue, ())):
                self._found("reordered", f"{queue} {at + index} was given to {code}: it is taken")

    def fail(self, lane: Lane, seq: int, count: int, why: str) -> None:
        """Tells that a batch was refused: it may never be found, unless it was tried before."""
        self._event_of(lane, "fail", seq, count, err=why)
        for number in range(seq, seq + count):
            if lane.attempts[number] == 1:
                lane.states[number] = REFUSED

    def info(self, lane: Lane, seq: int, count: int, why: str) -> None:
        """Records that the outcome of a batch is unknown."""
        self._event_of(lane, "info", seq, count, err=why)

    def _event_of(self, lane: Lane, kind: str, seq: int, count: int, **fields: Any) -> None:
        key = f"lane-{lane.number}"
        self.event(key, "send", kind, key=key, seq=seq, count=count, **fields)

    def read(self, reader: str, queue: Queue, queue_offset: int, body: bytes) -> None:
        """Tells what a consumer read; it agrees with all that was ever read there."""
        try:
            code = code_of(body)
        except Illegible as error:
            self._found("illegible", f"{reader} read {queue} {queue_offset}: {error}")
            return
        self.figures["read"] += 1
        known = self.log.get(queue, [])
        if queue_offset < len(known):
            before = known[queue_offset]
        else:
            before = self._seen.setdefault(queue, {}).setdefault(queue_offset, code)
        if before != code:
            text = f"{reader} read {code} at {queue} {queue_offset}, where {before} was"
            self._found("diverged", text)

    def jumped(self, reader: str, queue: Queue, text: str) -> None:
        """Tells of a consumer whose polls do not follow each other."""
        self._found("reordered", f"{reader} at {queue}: {text}")

    def committing(self, group: str, queue: Queue, queue_offset: int) -> None:
        """Tells that a group's offset is about to be committed."""
        done, most = self._committed.get((group, queue), (0, 0))
        self._committed[group, queue] = (done, max(most, queue_offset))
        self.event(group, "commit", "invoke", queue=queue, offset=queue_offset)

    def committed(self, group: str, queue: Queue, queue_offset: int) -> None:
        """Tells that it was."""
        self._committed[group, queue] = (queue_offset, self._committed[group, queue][1])
        self.event(group, "commit", "ok", queue=queue, offset=queue_offset)

    # -- looks at the store ------------------------------------------------------------------------
    def fetched(self, group: str, queue: Queue, queue_offset: int | None, end: int) -> None:
        """Compares where a group stands after a restart; `end` is the queue's, and may be less."""
        done, most = self._committed.get((group, queue), (0, 0))
        found = queue_offset or 0
        if not min(done, end) <= found <= min(most, end):
            text = f"{group} stands at {found} of {queue}, was at {done}, asked for {most} of {end}"
            self._found("offset wrong", text)
        self._committed[group, queue] = (found, found)

    def found(
        self, queue: Queue, begin: int, codes: Sequence[Code], *, loss: Loss | None = None
    ) -> None:
        """Compares a queue from an offset on to its end, as it is after a restart."""
        log = self.log.setdefault(queue, [])
        end = begin + len(codes)
        for index, (before, now) in enumerate(zip(log[begin:], codes, strict=False)):
            if before != now:
                text = f"{queue} {begin + index} holds {now}, where {before} was"
                self._found("diverged", text)
        if end < len(log):
            self._forget(queue, end, loss)
        first = len(log)
        for queue_offset, code in enumerate(codes[first - begin :], first):
            log.append(code)
            self._place(queue, queue_offset, code)
        self._compare_acknowledged(queue, first, loss)
        self._compare_seen(queue, loss)

    def _forget(self, queue: Queue, end: int, loss: Loss | None) -> None:
        """Takes back what was in the log and is not any more."""
        log = self.log[queue]
        for queue_offset, (lane, seq) in enumerate(log[end:], end):
            self.lanes[lane].times[seq] -= 1
            if loss is None:
                text = f"{queue} {queue_offset} held {(lane, seq)}"
                self._found("lost, postfix", text)
        del log[end:]
        for key in [key for key in self._order if key[0] == queue]:
            del self._order[key]
        for lane, seq in log:
            self._order[queue, lane] = max(self._order.get((queue, lane), -1), seq)

    def _place(self, queue: Queue, queue_offset: int, code: Code) -> None:
        """Counts a message that was not in the log before."""
        number, seq = code
        where = f"{code} at {queue} {queue_offset}"
        lane = self.lanes[number] if number < len(self.lanes) else None
        if lane is None or seq >= len(lane.states):
            self._found("phantom", f"{where} was never sent")
            return
        if lane.states[seq] == REFUSED:
            self._found("phantom", f"{where} was refused")
        lane.times[seq] += 1
        self.figures["stored"] += 1
        if lane.times[seq] > 1:
            self.figures["sent again and stored twice"] += 1
            if lane.times[seq] > (lane.attempts[seq] if lane.sends_again else 1):
                self._found("duplicate", f"{where} is there {lane.times[seq]} times")
            return
        last = self._order.get((queue, number), -1)
        self._order[queue, number] = seq
        if seq < last:
            self._found("reordered", f"{where} lies behind {last} of its lane")

    def _compare_acknowledged(self, queue: Queue, first: int, loss: Loss | None) -> None:
        log = self.log[queue]
        acknowledged = self._acknowledged.pop(queue, {})
        for queue_offset, told in acknowledged.items():
            if queue_offset < len(log):
                if log[queue_offset] != told.code:
                    text = f"{told.code} at {queue} {queue_offset}: {log[queue_offset]} is there"
                    self._found("lost, middle", text)
                continue
            if loss is not None:
                self.figures["lost, allowed"] += 1
                if told.physical_offset < loss.log_end:
                    self._found("lost, prefix", f"{told.code} was below the log's end")
                if told.at < loss.since:
                    old = loss.since - told.at
                    self._found("lost, postfix", f"{told.code} was acknowledged {old:.2f} s early")
                continue
            text = f"{told.code} at {queue} {queue_offset} of [0, {len(log)}), looked from {first}"
            self._found("lost, postfix", text)

    def _compare_seen(self, queue: Queue, loss: Loss | None) -> None:
        log = self.log[queue]
        for queue_offset, code in self._seen.pop(queue, {}).items():
            if queue_offset >= len(log):
                if loss is None:
                    self._found("seen and lost", f"{code} at {queue} {queue_offset}")
            elif log[queue_offset] != code:
                text = f"{code} was read at {queue} {queue_offset}: {log[queue_offset]} is there"
                self._found("diverged", text)

    def _found(self, kind: str, text: str) -> None:
        self.figures[kind] += 1
        self._wrong.append(f"{kind}: {text}")
        self.event("checker", "check", "violation", err=f"{kind}: {text}")

    def settle(self) -> None:
        """Raises what was found wrong so far.

        Errors   Violation
        """
        if not self._wrong:
            return
        self._file.flush()
        told = "\n  ".join(self._wrong[:VIOLATIONS_TOLD])
        raise Violation(
            f"{len(self._wrong)} violations, the history is {self.path}:\n  {told}\n"
            f"figures: {dict(self.figures)}"
        )
