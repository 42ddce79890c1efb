"""Retention: deletes the oldest files of the commit log.

`decide` returns why the oldest file is deleted. The file being written is kept, and so are files
that recovery after a power cut needs. A file is as old as its last message, so copying a file does
not change its age. A clock that is far ahead makes no file older for an hour (believed_clock.py).
Source: CleanCommitLogService, CleanConsumeQueueService; MessageStoreConfig.
"""

import logging
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple

from pocketmq.format.archived import NOTHING_ARCHIVED, ArchivedUpto
from pocketmq.model.due_time import LEAD_MAX_MS
from pocketmq.model.errors import (
    BrokerError,
    DiskAboveLimit,
    DiskFull,
    DiskNearlyFull,
    StoreFailed,
)
from pocketmq.model.errors.code import shown_room
from pocketmq.model.message import OFFSET_MAX
from pocketmq.model.stats import Counter, Gauge, LabelValues
from pocketmq.model.step import Clock, Next, Now
from pocketmq.store.believed_clock import BelievedClock
from pocketmq.store.dispatch.expiry import Expiry, OldestLogFile
from pocketmq.store.job import Job, Rounds, until_done
from pocketmq.store.read.holding import ARCHIVE, CLOCK, RetentionHolder

DISK: Final = "disk"
SIZE: Final = "size"
TIME: Final = "time"
REFUSED_INTERVAL_MS: Final = 1_000
"""Interval between disk checks while sends are refused, so that they resume soon."""
MODE_AUTO: Final = "auto"
MODE_ON: Final = "on"
MODE_OFF: Final = "off"

DROPS: Final = "drops"
TOPICS: Final = "topics"
NO_ARCHIVE: Final = ArchivedUpto(OFFSET_MAX, "", 0)
"""In place of an archive, if no file is kept for one."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class RetentionSettings:
    """Settings of retention.

    archive_hold       whether files that an archive lacks are kept, unless the disk is short of
                       room
    hours              local hours in which files expire by age, like "04" or "4;16"; empty: any
    disk_margin_bytes  see `room_of`
    """

    mode: str = MODE_AUTO
    age_ms: int = 72 * 3_600_000
    hours: str = "04"
    size_bytes: int = 0
    archive_hold: bool = False
    disk_expire_percent: int = 100
    disk_force_percent: int = 100
    disk_refuse_percent: int = 100
    disk_margin_bytes: int = 64 * 1024 * 1024
    file_batch_max: int = 10
    interval_ms: int = 10_000
    pause_ms: int = 100

    def hour_set(self) -> frozenset[int]:
        """Returns the hours as numbers.

        Errors   ValueError
        """
        numbers = frozenset(int(hour) for hour in self.hours.split(";") if hour.strip())
        if not all(0 <= hour <= 23 for hour in numbers):
            raise ValueError(f"{self.hours!r} is not a list of hours from 0 to 23, such as 4;16")
        return numbers


class DiskRoom(IntEnum):
    """Room on the disk; each level includes the effects of the levels before it."""

    ENOUGH = 0
    EXPIRE = 1
    """Messages expire by age at any hour."""
    FORCE = 2
    """The oldest files are deleted, whatever their age."""
    REFUSE = 3
    """Sends are refused."""


SHORT: Final = {
    DiskRoom.EXPIRE: "messages expire at any hour",
    DiskRoom.FORCE: "the oldest files are deleted, sends are refused next",
}
SOON: Final = "nothing is deleted, as retention is off, and sends are refused next"
"""What little room on the disk causes, for operators."""


class DiskSpace(NamedTuple):
    """Space on the disk of a store.

    file_size_bytes     size of one commit-log file
    reserve_size_bytes  size of the reserve for a full disk
    """

    path: str
    used_bytes: int
    usable_bytes: int
    file_size_bytes: int
    reserve_size_bytes: int

    @property
    def used_percent(self) -> int:
        """Used space in whole percent, rounded up."""
        return percent_used(self.used_bytes, self.usable_bytes)

    def needed_bytes(self, margin_bytes: int) -> int:
        """Returns the usable bytes below which sends are refused."""
        return self.file_size_bytes + self.reserve_size_bytes + margin_bytes


class RetentionState(NamedTuple):
    """Input of `decide`.

    oldest_time   store time of the last message in the oldest file, in ms
    """

    now_ms: int
    local_hour: int
    room: DiskRoom
    log_size_bytes: int
    oldest_time: int


def percent_used(used_bytes: int, usable_bytes: int) -> int:
    """Returns the used space of a disk in whole percent, rounded up.

    Source   UtilAll.getDiskPartitionSpaceUsedPercent
    """
    total = used_bytes + usable_bytes
    return max(0, min(-(-used_bytes * 100 // total), 100)) if total > 0 else 0


def room_of(settings: RetentionSettings, space: DiskSpace) -> DiskRoom:
    """Returns the room on a disk: the worse of two levels, by used percent and free bytes; pure.

    Level by free bytes: REFUSE if there is no room for one commit-log file, the reserve and
    `disk_margin_bytes`; FORCE if there is no room for one more commit-log file; EXPIRE if there is
    no room for two more. If `disk_margin_bytes` is 0, free bytes matter only when none is left.
    """
    if space.usable_bytes <= 0:
        return DiskRoom.REFUSE
    used_percent = space.used_percent
    above = (
        settings.disk_expire_percent, settings.disk_force_percent, settings.disk_refuse_percent
    )  # fmt: skip
    by_percent = DiskRoom(sum(used_percent > limit for limit in above))
    if not settings.disk_margin_bytes:
        return by_percent
    needed = space.needed_bytes(settings.disk_margin_bytes)
    below = (needed + 2 * space.file_size_bytes, needed + space.file_size_bytes, needed)
    return max(by_percent, DiskRoom(sum(space.usable_bytes < limit for limit in below)))


def refusal_of(settings: RetentionSettings, space: DiskSpace) -> BrokerError | None:
    """Returns the error of sends, None if the disk has enough room for sends; pure."""
    if room_of(settings, space) is not DiskRoom.REFUSE:
        return None
    if space.used_percent > settings.disk_refuse_percent:
        return DiskAboveLimit(
            path=space.path,
            used_percent=space.used_percent,
            free_bytes=space.usable_bytes,
            limit_percent=settings.disk_refuse_percent,
        )
    if not settings.disk_margin_bytes:
        return DiskFull(path=space.path)
    return DiskNearlyFull(
        path=space.path,
        used_percent=space.used_percent,
        free_bytes=space.usable_bytes,
        needed_bytes=space.needed_bytes(settings.disk_margin_bytes),
    )


def is_wanted(settings: RetentionSettings, *, made_here: bool, is_configured: bool) -> bool:
    """Returns whether retention is on.

    In mode auto, retention is off for a store that RocketMQ created, unless it is configured.
    """
    if settings.mode == MODE_AUTO:
        return made_here or is_configured
    return settings.mode == MODE_ON


def decide(settings: RetentionSettings, hours: frozenset[int], seen: RetentionState) -> str:
    """Returns why the oldest file is deleted, "" if it is kept; pure."""
    if seen.room >= DiskRoom.FORCE:
        return DISK
    if 0 < settings.size_bytes < seen.log_size_bytes:
        return SIZE
    is_old = settings.age_ms > 0 and seen.oldest_time <= seen.now_ms - settings.age_ms
    is_due = not hours or seen.local_hour in hours
    if is_old and (is_due or seen.room >= DiskRoom.EXPIRE):
        return TIME
    return ""


def shortage(refusal: BrokerError) -> str:
    """Returns why the disk has too little room for sends, with figures and settings; pure."""
    if isinstance(refusal, DiskAboveLimit):
        return (
            f"the disk is {refusal.used_percent} % used, the limit is {refusal.limit_percent} % "
            "(retention.disk_refuse_percent)"
        )
    if isinstance(refusal, DiskNearlyFull):
        return (
            f"the disk has {shown_room(refusal.free_bytes)} free, sends need "
            f"{shown_room(refusal.needed_bytes)} (a commit-log file, the reserve and "
            "retention.disk_margin_bytes)"
        )
    return "the disk is full"


FindHolder = Callable[[int], Coroutine[Any, Any, RetentionHolder]]


class Retention:
    """Deletes the oldest files of a store, in rounds.

    floors          functions that return physical offsets; a file that reaches beyond the lowest
                    of these offsets is kept
    refuse          called with the error of sends, None if sends are accepted
    find_holder     returns what needs the log from a floor on
    expire_topics   expires messages by the retention of single topics; called with the wall time
    archived        returns the archive whose end of the log is lowest
    clock           the clock by which ages are measured
    """

    __slots__ = (
        "_any_hour", "_archived", "_asked", "_begun_count", "_clock", "_disk_space", "_ended_count",
        "_expire_topics", "_expiry", "_find_holder", "_floors", "_hour_of", "_hours", "_is_on",
        "_needs_trim", "_now", "_refusal", "_refuse", "_reported", "_room", "_rounds", "_settings",
        "expired_files", "holder", "stats", "unarchived_files",
    )  # fmt: skip

    def __init__(
        self,
        expiry: Expiry,
        settings: RetentionSettings,
        *,
        is_on: bool,
        floors: Sequence[Callable[[], int]] = (),
        disk_space: Callable[[], DiskSpace],
        refuse: Callable[[BrokerError | None], None],
        hour_of: Callable[[int], int],
        find_holder: FindHolder | None = None,
        expire_topics: Callable[[int], Coroutine[Any, Any, None]] | None = None,
        archived: Callable[[], Coroutine[Any, Any, ArchivedUpto]] | None = None,
        clock: BelievedClock | None = None,
    ) -> None:
        self._expiry = expiry
        self._settings = settings
        self._hours = settings.hour_set()
        self._is_on = is_on
        self._any_hour = False
        self._asked = False
        self._floors = floors
        self._disk_space = disk_space
        self._refuse = refuse
        self._hour_of = hour_of
        self._find_holder = find_holder
        self._expire_topics = expire_topics
        self._archived = archived
        self.holder: RetentionHolder | None = None
        """The pending message or archive that prevents the deletion of the expired oldest file."""
        self._clock = clock or BelievedClock()
        self._now = Now(0, 0)
        self._rounds = Rounds(self._endless_rounds)
        self._begun_count = self._ended_count = 0
        self._needs_trim = False
        self._reported: dict[str, str] = {}
        """Work that fails -> reason of its last failure."""
        self._room = DiskRoom.ENOUGH
        self._refusal: BrokerError | None = None
        self.expired_files = Counter(
            "pocketmq_expired_files_total", "Deleted commit-log files.", ("reason",)
        )
        self.unarchived_files = Counter(
            "pocketmq_unarchived_files_total",
            "Deleted commit-log files that an archive lacks, though retention.archive_hold is set.",
        )
        alert = Gauge(
            "pocketmq_disk_alert",
            "0: the disk has room, 1: old messages are removed to make room, 2: sends are refused.",
            self._alert,
        )
        held = Gauge(
            "pocketmq_retention_held_until_seconds",
            "Unix time until which a pending message keeps files from expiring; 0: unknown.",
            self._held,
            ("kind", "topic", "group"),
        )
        files = [self.expired_files, self.unarchived_files]
        self.stats: list[Counter | Gauge] = [*files, alert, held]

    def take(self, settings: RetentionSettings, *, is_on: bool) -> None:
        """Replaces the settings; a round in progress continues with the new settings."""
        self._settings, self._hours, self._is_on = settings, settings.hour_set(), is_on
        assert self._settings is settings

    def expire_soon(self) -> bool:
        """Makes the next round delete expired files at any hour; returns whether retention is on.

        Effects  none if retention is off
        """
        self._asked = self._is_on
        return self._is_on

    @property
    def status(self) -> str:
        """Status for operators: "on", "off", or "refusing sends" with the cause and its setting.

        Without room for two further files it names the effect.

        It also names the count of deleted unarchived files, and `holder`, if there are any.
        """
        state = "on" if self._is_on else "off"
        if self._refusal is not None:
            state = f"refusing sends: {self.send_refusal}"
        elif self._room is not DiskRoom.ENOUGH:
            state += f", little room on the disk: {SHORT[self._room] if self._is_on else SOON}"
        if lost := sum(self.unarchived_files.values.values()):
            state += f", deleted {lost:.0f} files that an archive lacks"
        if self.holder is None:
            return state
        return f"{state}, {self.holder.text()}"

    @property
    def send_refusal(self) -> str:
        """Why the disk has too little room for sends; "": it has room."""
        return "" if self._refusal is None else shortage(self._refusal)

    @property
    def held(self) -> str:
        """Text about `holder` without topic and group; "" if there is no holder."""
        return "" if self.holder is None else self.holder.text(with_names=False)

    def _held(self) -> dict[LabelValues, float]:
        holder = self.holder
        if holder is None:
            return {}
        return {(holder.kind, holder.topic, holder.group): holder.until_ms / 1_000}

    def _alert(self) -> float:
        if self._room is DiskRoom.REFUSE:
            return 2.0
        return float(self._is_on and self._room is DiskRoom.FORCE)

    def step(self, now: Now) -> Next:
        """Starts or continues a round without waiting for it; deletes at most one file.

        Effects  refuses sends while the disk has too little room
        """
        self._now = now
        self._clock.wall_ms(now)
        return self._rounds.go_on()

    async def look(self, clock: Clock) -> None:
        """Deletes all expired files, at any hour and without pauses, after a test moved the clock.

        Effects  rounds continue as before; a failure is logged
        """
        self.expire_soon()
        begun_count = self._begun_count + 1
        try:
            while self._ended_count < begun_count or self._any_hour:
                following = self.step(Now(clock.monotonic_ms(), clock.wall_ms()))
                if following.mark is not None:
                    await following.mark.reached(following.value)
        except (BrokerError, OSError) as error:
            logger.error("retention.failed", extra={"reason": str(error)})

    def _endless_rounds(self) -> Iterator[Next]:
        while True:
            self._begun_count += 1
            self._any_hour, self._asked = self._asked or self._any_hour, False
            yield from self._save_clock()
            count, reason = 0, ""
            while count < self._settings.file_batch_max:
                self._look_at_disk()
                reason = (yield from self._expire_one()) if self._is_on else ""
                if not reason:
                    break
                count += 1
                if count < self._settings.file_batch_max:
                    yield Next(self._now.monotonic_ms + self._settings.pause_ms)
            self._any_hour = self._any_hour and bool(reason)
            if self._needs_trim:
                yield from until_done(self._expiry.trim_views())
                self._needs_trim = False
            yield from self._expire_of_topics()
            pause_ms = self._settings.interval_ms
            if self._room is DiskRoom.REFUSE:
                pause_ms = min(pause_ms, REFUSED_INTERVAL_MS)
            self._ended_count = self._begun_count
            yield Next(self._now.monotonic_ms + pause_ms)

    def _save_clock(self) -> Generator[Next, None, None]:
        if not (self._is_on and self._clock.needs_save):
            return
        try:
            yield from until_done(Job(self._clock.save()))
        except (BrokerError, OSError) as error:
            self._report(CLOCK, error)
        else:
            self._reported.pop(CLOCK, None)

    def _report(self, work: str, error: BaseException) -> None:
        """Logs a failure, unless the last failure of this work had the same reason."""
        reason = str(error)
        if self._reported.get(work) != reason:
            self._reported[work] = reason
            logger.error("retention.failed", extra={"reason": reason})

    def _expire_of_topics(self) -> Generator[Next, None, None]:
        if self._expire_topics is None:
            return
        try:
            yield from until_done(Job(self._expire_topics(self._clock.wall_ms(self._now))))
        except (BrokerError, OSError) as error:
            self._report(TOPICS, error)
        else:
            self._reported.pop(TOPICS, None)

    def _hold(self, floor: int, reason: str) -> Generator[Next, None, None]:
        known = self.holder
        if self._find_holder is None or (
            known is not None
            and known.physical_offset == floor
            and known.kind not in (ARCHIVE, CLOCK)  # They may begin where a pending message is.
        ):
            return
        self._hold_for((yield from until_done(Job(self._find_holder(floor)))), reason)

    def _hold_for(self, holder: RetentionHolder, reason: str) -> None:
        before, self.holder = self.holder, holder
        # Positions of followers and archives move with each round; only their first is logged.
        if before is not None and (before == holder or before[:3] == (holder.kind, "", "")):
            return
        logger.warning(
            "retention.held",
            extra={
                "kind": holder.kind,
                "topic": holder.topic,
                "group": holder.group,
                "physical_offset": holder.physical_offset,
                "until_ms": holder.until_ms,
                "reason": reason,
            },
        )

    def _archive_mark(self) -> Generator[Next, None, ArchivedUpto]:
        """Returns the archive for which files are kept from its offset on."""
        if self._archived is None or not self._settings.archive_hold:
            return NO_ARCHIVE
        try:
            found: ArchivedUpto = yield from until_done(Job(self._archived()))
        except (BrokerError, OSError) as error:
            self._report(ARCHIVE, error)
            return NOTHING_ARCHIVED
        self._reported.pop(ARCHIVE, None)
        return found

    def _report_unarchived(self, deleted: OldestLogFile, mark: int) -> None:
        self.unarchived_files.add(())
        logger.warning(
            "retention.unarchived",
            extra={
                "physical_offset": deleted.base,
                "size_bytes": deleted.size_bytes,
                "archived_upto": mark,
            },
        )

    def _look_at_disk(self) -> None:
        space = self._disk_space()
        self._room = room_of(self._settings, space)
        self._refusal = refusal_of(self._settings, space)
        self._refuse(self._refusal)

    def _expire_one(self) -> Generator[Next, None, str]:
        expiry, settings = self._expiry, self._settings
        oldest = expiry.oldest()
        floor = min((floor() for floor in self._floors), default=OFFSET_MAX)
        if oldest is None:
            self.holder = None
            return ""
        is_held = oldest.base + oldest.size_bytes > floor
        now_ms = self._clock.wall_ms(self._now)
        seen = RetentionState(
            now_ms=now_ms,
            local_hour=self._hour_of(self._now.wall_ms),
            room=self._room,
            log_size_bytes=expiry.log_size_bytes,
            oldest_time=now_ms,
        )
        hours = frozenset[int]() if self._any_hour else self._hours
        reason = decide(settings, hours, seen)
        as_if_old = seen._replace(oldest_time=0, now_ms=self._now.wall_ms)
        if not reason and settings.age_ms and decide(settings, hours, as_if_old):
            # The last message's time is read only if the decision depends on it: a read is slow.
            seen = seen._replace(
                oldest_time=(yield from until_done(expiry.last_time(oldest, now_ms + LEAD_MAX_MS)))
            )
            reason = decide(settings, hours, seen)
            if not reason and decide(settings, hours, seen._replace(now_ms=self._now.wall_ms)):
                until_ms = self._clock.until_ms(self._now)
                self._hold_for(RetentionHolder(CLOCK, "", "", oldest.base, until_ms), TIME)
                return ""
        archive = (yield from self._archive_mark()) if reason else NO_ARCHIVE
        mark = archive.upto
        is_unarchived = oldest.base + oldest.size_bytes > mark
        is_kept = is_unarchived and reason != DISK
        if not reason or not (is_held or is_kept):
            self.holder = None
        if reason and is_held:
            yield from self._hold(floor, reason)
            return ""
        if reason and is_kept:
            self._hold_for(RetentionHolder(ARCHIVE, "", "", mark, name=archive.target), reason)
            return ""
        if reason:
            try:
                yield from until_done(expiry.drop(oldest))
            except (OSError, StoreFailed) as error:
                self._report(DROPS, error)
                return ""
            self._reported.pop(DROPS, None)
            self.expired_files.add((reason,))
            if is_unarchived:
                self._report_unarchived(oldest, mark)
            self._needs_trim = True
        return reason
