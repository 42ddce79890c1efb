"""Converts the tables that a master of RocketMQ returns to the files that a follower writes.

    21 topics   201 groups   402 modes   43 offsets   45 delay offsets   61 timer counts   60 timer

A master does not offer its timer log. So the copied `timercheck` names an empty timer log: after a
promotion the broker reads the timer's topic again, and skips messages that were due before the
master's read time. Users, and the state of FIFO consumers, are in none of these answers.
Source: SlaveSynchronize.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from pocketmq.format.record import BLANK_SIZE, encode_blank
from pocketmq.format.table_json import (
    GROUPS_MEMBER,
    OFFSETS_MEMBER,
    TOPICS_MEMBER,
    decode_members,
    encode_table,
)
from pocketmq.format.timer_layout import CHECK, TimerProgress, encode_numbers
from pocketmq.model.decimal import number_of
from pocketmq.model.message import OFFSET_MAX
from pocketmq.services.replication.follower import LeaderBroken
from pocketmq.services.replication.table_record import DROP, FILE, TableRecord
from pocketmq.store.tables import copied_files as names
from pocketmq.store.tables.request_modes import REQUEST_MODES

CONFIG: Final = 26
"""GET_BROKER_CONFIG: settings as lines of a properties file."""
RUNTIME: Final = 28
"""GET_BROKER_RUNTIME_INFO: among others the ends of the log."""
MESSAGE: Final = 33
"""VIEW_MESSAGE_BY_ID: the record at a physical offset."""
TOPICS, OFFSETS, DELAY_OFFSETS, TIMER_CHECK, TIMER_COUNTS = 21, 43, 45, 60, 61
GROUPS, MODES = 201, 402
EMPTY_LOG: Final = ["-1", "0"]
"""Ends of the log of a master that has no file yet."""
OWN_SETTING: Final = "replication.leader"
"""A setting by which a follower recognises that its master is PocketMQ."""
TABLES: Final = (TOPICS, GROUPS, MODES, OFFSETS, DELAY_OFFSETS, TIMER_COUNTS, TIMER_CHECK)
"""Request codes in the order in which the answers are written: names first."""
OPTIONAL: Final = (MODES, TIMER_COUNTS, TIMER_CHECK)
"""Codes that RocketMQ 4 does not have."""


class MasterShape(NamedTuple):
    """Settings of a master that a follower needs.

    ha_port   port of the HA protocol
    """

    file_size_bytes: int
    ha_port: int
    cluster: str
    broker: str


class MasterEnds(NamedTuple):
    """The part of the log that a master has: [begin, end)."""

    begin: int
    end: int


def shape_of(body: bytes) -> MasterShape:
    """Reads the answer to CONFIG.

    Errors   LeaderBroken: it lacks a size or a port, or the broker is a slave or PocketMQ
    """
    rows = dict(line.partition("=")[::2] for line in body.decode(errors="replace").splitlines())
    if OWN_SETTING in rows:
        raise LeaderBroken(
            'it is PocketMQ, not a master of RocketMQ: set replication.leader = "HOST:PORT" with '
            "the port of its clients, without rocketmq://"
        )
    size = number_of(rows.get("mappedFileSizeCommitLog", ""), OFFSET_MAX)
    port = number_of(rows.get("haListenPort", ""), 65_535)
    if size <= 0 or port <= 0:
        raise LeaderBroken("its settings have no mappedFileSizeCommitLog, or no haListenPort")
    if rows.get("brokerRole") == "SLAVE":
        raise LeaderBroken("it is a slave of RocketMQ; follow its master")
    return MasterShape(size, port, rows.get("brokerClusterName", ""), rows.get("brokerName", ""))


def ends_of(body: bytes) -> MasterEnds:
    """Reads the answer to RUNTIME.

    Errors   LeaderBroken
    """
    table = _members(body, "the runtime info").get("table")
    rows = table if isinstance(table, dict) else {}
    texts = [str(rows.get(f"commitLog{which}Offset")) for which in ("Min", "Max")]
    if texts == EMPTY_LOG:
        return MasterEnds(0, 0)
    found = [number_of(text, OFFSET_MAX) for text in texts]
    if not 0 <= found[0] <= found[1]:
        raise LeaderBroken("its runtime info has no ends of the log")
    return MasterEnds(*found)


def is_blank(body: bytes, size_left: int) -> bool:
    """Returns whether an answer to MESSAGE is the BLANK of a file with `size_left` bytes left."""
    return body[:BLANK_SIZE] == encode_blank(size_left)


def table_records(bodies: Mapping[int, bytes], end: int) -> Iterator[TableRecord]:
    """Yields the files that the answers make, in the order in which they are written.

    bodies   answers by request code; those of OPTIONAL may be missing
    end      physical offset below which the follower must have the log first
    Errors   LeaderBroken: an answer is no table
    """
    for code in TABLES:
        if code in bodies:
            name, make = _FILES[code]
            yield TableRecord(name, 0, FILE, end, content=make(bodies[code]))


def new_timer() -> TableRecord:
    """Returns the record that begins an empty copy of the timer's log."""
    return TableRecord(names.TIMER_LOG, 0, DROP)


def _members(body: bytes, what: str) -> dict[str, Any]:
    try:
        return decode_members(body)
    except ValueError as error:
        raise LeaderBroken(f"{what} in its answer is no table: {error}") from error


def _table(member: str, *kept: str) -> Callable[[bytes], bytes]:
    """Returns a function that makes the file of an answer; a member is the table.

    kept   names of the members to keep; none: all
    """

    def make(body: bytes) -> bytes:
        found = _members(body, member)
        if not isinstance(found.get(member), dict):
            raise LeaderBroken(f"an answer has no {member}")
        return encode_table({name: found[name] for name in kept or found if name in found})

    return make


def _timer_check(body: bytes) -> bytes:
    if len(body) != CHECK.size:
        raise LeaderBroken(f"the progress of its timer has {len(body)} bytes, not {CHECK.size}")
    progress = TimerProgress(*CHECK.struct.unpack(body)).usable()
    # A start that finds a position but no timer log reads the timer's topic from its begin.
    return encode_numbers(progress._replace(log_flushed=1 if progress.read_ms else 0))


_FILES: Final[Mapping[int, tuple[str, Callable[[bytes], bytes]]]] = {
    TOPICS: (names.TOPICS, _table(TOPICS_MEMBER, TOPICS_MEMBER, "dataVersion")),
    GROUPS: (names.GROUPS, _table(GROUPS_MEMBER)),
    MODES: (names.MODES, _table(REQUEST_MODES)),
    OFFSETS: (names.OFFSETS, _table(OFFSETS_MEMBER)),
    DELAY_OFFSETS: (names.DELAY_OFFSETS, _table(OFFSETS_MEMBER)),
    TIMER_COUNTS: (names.TIMER_COUNTS, _table("timingCount")),
    TIMER_CHECK: (names.TIMER_CHECK, _timer_check),
}
