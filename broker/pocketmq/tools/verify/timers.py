"""Verifies the timer's files against each other and against the log.

    timer log     each unit refers to the previous unit of its second, and to a record of the topic
    wheel         future slots agree with the units
    timercheck    its positions are within the timer log and the topic
    topic         each pending record has a unit in the timer log

After a crash, faults that the next start repairs are reported as notes. A wrong message count of a
slot is always reported as a note, as RocketMQ's recovery does not correct it.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.files.disk import Disk
from pocketmq.format.names import TIMER_LOG_DIRECTORY, TIMER_WHEEL_FILE, offset_file_name
from pocketmq.format.timer_layout import (
    MAGIC_DELETE,
    MAGIC_ROLL,
    SLOT_SIZE,
    TimerProgress,
    due_times,
)
from pocketmq.model.finding import Finding
from pocketmq.rebuild.log_files import KnownShape, LogFile
from pocketmq.tools.durable import lacks_wheel_as_follower
from pocketmq.tools.pending.timer_files import (
    CHECK_PATH,
    TimerSnapshot,
    link_units,
    precision_of,
    read_timer_files,
)
from pocketmq.tools.pending.timers import timer_rows
from pocketmq.tools.verify.collector import Collector

SHOWN_MAX: Final = 1_000
"""Upper limit of findings of one kind that are reported one by one."""


class TimerVerification:
    """Verifies the timer's files of one store.

    is_orderly    whether the last broker stopped in order
    is_follower   whether the last broker followed, so that the wheel may be behind
    last_time_ms  store time of the log's last record
    """

    __slots__ = (
        "_collector", "_files", "_is_follower", "_is_orderly", "_last_time_ms", "_log_begin",
        "_precision_ms", "lost", "topic_end", "unfit",
    )  # fmt: skip

    def __init__(
        self, files: TimerSnapshot, collector: Collector, *, log_begin: int, last_time_ms: int,
        is_orderly: bool, is_follower: bool = False,
    ) -> None:  # fmt: skip
        self._files = files
        self._collector = collector
        self._log_begin = log_begin
        self._last_time_ms = last_time_ms
        self._is_orderly = is_orderly
        self._is_follower = is_follower
        self._precision_ms = precision_of(files)
        assert self._precision_ms > 0
        self.lost: list[NDArray[Any]] = []
        """Rows of pending records (tools/pending/timers.py) that have no unit."""
        self.unfit = np.zeros(len(files.units), np.bool_)
        """Mask of the units that match no record of the topic."""
        self.topic_end = 0
        """Queue offset after the topic's last record."""

    def look(self, rows: Iterable[NDArray[Any]]) -> None:
        """Verifies the timer's files.

        rows   batches of rows of the timer topic's records
        """
        if not self._files.is_used:
            return
        for flaw in self._files.flaws:
            self._collector.add(*flaw[:3], expected=flaw.expected, found=flaw.found)
        self._look_at_links()
        self._look_at_records(rows)
        if self._files.check is not None:
            self._look_at_check(self._files.check)

    # -- within the timer's files --------------------------------------------------------------
    def _look_at_links(self) -> None:
        files = self._files
        links = link_units(files.units, files.places, self._precision_ms)
        previous = files.units["previous"].astype(np.int64)
        is_wrong = previous != links.previous
        is_wrong &= ~((links.previous < 0) & (previous < files.begin))
        for at in np.flatnonzero(is_wrong)[:SHOWN_MAX].tolist():
            expected, found = f"previous {links.previous[at]}", f"previous {previous[at]}"
            self._tell_unit(at, expected, found)
        self._look_at_wheel(links.slots)

    def _look_at_wheel(self, wanted: NDArray[Any]) -> None:
        files, step = self._files, self._precision_ms
        slots = files.slots
        to_come = wanted["time"] * step >= files.read_ms
        if slots is None:
            if to_come.any() and not any(flaw.path == TIMER_WHEEL_FILE for flaw in files.flaws):
                expected = f"{int(to_come.sum())} slots"
                self._tell_wheel("missing_file", 0, expected, "no file")
            return
        is_wrong = (wanted["time"] != slots["time"]) | (wanted["last"] != slots["last"])
        is_wrong |= (wanted["first"] != slots["first"]) & (slots["first"] >= files.begin)
        is_wrong &= to_come | (slots["time"] * step >= files.read_ms)
        for slot in np.flatnonzero(is_wrong)[:SHOWN_MAX].tolist():
            expected, found = _shown(wanted[slot]), _shown(slots[slot])
            self._tell_wheel("timer_slot", slot * SLOT_SIZE, expected, found)
        is_miscounted = (wanted["count"] != slots["count"]) & to_come & ~is_wrong
        is_miscounted &= slots["first"] >= files.begin
        if is_miscounted.any():
            count = int(is_miscounted.sum())
            self._collector.remark(f"{TIMER_WHEEL_FILE}: {count} slots have wrong message counts")

    def _tell_wheel(self, kind: str, position: int, expected: str, found: str) -> None:
        if self._is_follower:
            self._collector.remark(
                f"{TIMER_WHEEL_FILE} is behind the timer log, as on every follower: "
                "a start makes it"
            )
        elif self._is_orderly:
            self._collector.add(kind, TIMER_WHEEL_FILE, position, expected=expected, found=found)
        else:
            self._collector.remark(
                f"{TIMER_WHEEL_FILE} differs from the timer log, as after a crash: "
                "the next start corrects it"
            )

    # -- against the log -----------------------------------------------------------------------
    def _look_at_records(self, batches: Iterable[NDArray[Any]]) -> None:
        """Compares units with records, in both directions."""
        units = self._files.units
        places = units["physical_offset"].astype(np.int64)
        order = np.argsort(places, kind="stable")
        ordered, is_met = places[order], places < self._log_begin
        horizon = max(self._files.read_ms, self._last_time_ms + 2 * self._precision_ms)
        for rows in batches:
            self.topic_end = int(rows["queue_offset"][-1]) + 1
            begins = np.searchsorted(ordered, rows["physical_offset"])
            ends = np.searchsorted(ordered, rows["physical_offset"], side="right")
            for row in np.flatnonzero(ends > begins).tolist():
                for at in order[begins[row] : ends[row]].tolist():
                    is_met[at] = True
                    self._compare(at, rows[row])
            ahead = self._files.check.queue_offset if self._files.check is not None else 0
            is_lost = (ends == begins) & (rows["due_ms"] >= horizon)
            is_lost &= rows["queue_offset"] < ahead
            if is_lost.any() and len(units):
                self._lose(rows[is_lost])
        built, upto = self._collector.unbuilt.start, self._collector.unbuilt.stop
        is_met |= (places >= built) & (places < upto)  # Their queue lacks them until a start.
        for at in np.flatnonzero(~is_met)[:SHOWN_MAX].tolist():
            self._tell_unit(at, "a record of the timer's topic", f"record {int(places[at])}")
            self.unfit[at] = True
        gone = (places < self._log_begin) & (due_times(units) >= self._files.read_ms)
        if gone.any():
            self._collector.remark(
                f"{int(gone.sum())} pending timers refer to records that left the log"
            )

    def _compare(self, at: int, row: np.void) -> None:
        """Compares a unit with the record it points to."""
        unit = self._files.units[at]
        slot_ms = int(due_times(self._files.units[at : at + 1])[0])
        # The slot follows the wheel's own clock, which changes of the system clock do not affect.
        due = -(-(int(row["out_ms"]) + int(unit["shift_ms"])) // self._precision_ms)
        is_rolled, is_recall = unit["magic"] & MAGIC_ROLL, unit["magic"] & MAGIC_DELETE
        slot = slot_ms // self._precision_ms
        is_due = slot <= due if is_rolled else slot == due
        # Three kinds of units may be in another slot. A message that was overdue when the timer
        # read it is in the slot that the timer reads next. A unit without delay may only record how
        # far the topic was read. A lease may be renewed, or end early.
        is_due |= bool(row["is_journal"]) or not unit["delay"]
        due *= self._precision_ms
        wanted = (int(row["size"]), int(row["topic_hash"]), bool(row["is_marker"]))
        found = (int(unit["record_size"]), int(unit["topic_hash"]), bool(is_recall))
        if wanted != found or not is_due:
            names = "size {}, topic hash {}, recall {}, due {}"
            self._tell_unit(at, names.format(*wanted, due), names.format(*found, slot_ms))
            self.unfit[at] = True

    def _lose(self, rows: NDArray[Any]) -> None:
        self.lost.append(rows)
        for row in rows[:SHOWN_MAX]:
            self._collector.add_record(
                "lost_timer", int(row["physical_offset"]),
                expected=f"a unit of the timer log, due {int(row['due_ms'])}", found="none",
            )  # fmt: skip

    def _look_at_check(self, check: TimerProgress) -> None:
        # The timer may have read records whose units a kill took: the next start builds them.
        topic_end = self.topic_end + self._collector.unbuilt_count
        limits = {"log_flushed": self._files.end, "queue_offset": topic_end}
        for name, limit in limits.items():
            value = getattr(check, name)
            if not 0 <= value <= limit:
                number = TimerProgress._fields.index(name)
                self._collector.add(
                    "timer_check", CHECK_PATH, 8 * number,
                    expected=f"{name} at most {limit}", found=str(value),
                )  # fmt: skip

    def _tell_unit(self, at: int, expected: str, found: str) -> None:
        place = int(self._files.places[at])
        base = self._files.begin + (place - self._files.begin) // self._files.file_bytes * (
            self._files.file_bytes
        )  # fmt: skip
        path = f"{TIMER_LOG_DIRECTORY}/{offset_file_name(base)}"
        self._collector.add("timer_unit", path, place - base, expected=expected, found=found)


def check_timers(
    disk: Disk, directory: Path, sizes: KnownShape, files: Sequence[LogFile],
    collector: Collector, *, views: Path, last_time_ms: int, is_orderly: bool,
) -> tuple[TimerSnapshot, TimerVerification]:  # fmt: skip
    """Reads and verifies the timer's files of a store.

    files    the log's files
    views    directory whose consumequeue/ is read
    Errors   WrongFileSize, StoreGap: the queue of the timer topic must be rebuilt first
    """
    timers = read_timer_files(disk, directory)
    check = TimerVerification(
        timers, collector, log_begin=files[0].base if files else 0, last_time_ms=last_time_ms,
        is_orderly=is_orderly, is_follower=lacks_wheel_as_follower(disk, directory),
    )  # fmt: skip
    check.look(timer_rows(disk, views, sizes, files))
    return timers, check


def is_about_timers(finding: Finding) -> bool:
    """Returns whether rebuilding the timer's files would repair a finding."""
    of_files = finding.file.startswith((f"{TIMER_LOG_DIRECTORY}/", TIMER_WHEEL_FILE, CHECK_PATH))
    return of_files or finding.kind == "lost_timer"


def _shown(slot: np.void) -> str:
    return f"second {slot['time']}, units {slot['first']} to {slot['last']}"
