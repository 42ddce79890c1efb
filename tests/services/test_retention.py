"""Retention: the table of reasons, and steps that take one file at a time."""

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from pocketmq.format.archived import ArchivedUpto
from pocketmq.model.errors import BrokerError, DiskAboveLimit, DiskFull, DiskNearlyFull
from pocketmq.model.stats import Gauge
from pocketmq.model.step import Now
from pocketmq.services.retention import (
    DISK,
    SIZE,
    TIME,
    DiskRoom,
    DiskSpace,
    Retention,
    RetentionSettings,
    RetentionState,
    decide,
    is_wanted,
    percent_used,
    refusal_of,
    room_of,
)
from pocketmq.store.believed_clock import BelievedClock
from pocketmq.store.dispatch.expiry import Expiry, OldestLogFile
from pocketmq.store.job import Job
from pocketmq.store.read.holding import CLOCK, LEASE, RetentionHolder
from tests.kit.store_language import pauses_of
from tests.sim.clock import FakeClock, at

HOUR_MS = 3_600_000
NOW = 1_000 * HOUR_MS
PERCENTS: dict[str, Any] = {
    "disk_expire_percent": 75,
    "disk_force_percent": 85,
    "disk_refuse_percent": 90,
}
SETTINGS = RetentionSettings(mode="on", hours="4;16", disk_margin_bytes=0, **PERCENTS)
CALM = RetentionState(
    now_ms=NOW, local_hour=12, room=DiskRoom.ENOUGH, log_size_bytes=1_000, oldest_time=NOW
)
OLD = NOW - 72 * HOUR_MS


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""),
        ({"oldest_time": OLD}, ""),  # not the hour for it
        ({"oldest_time": OLD, "local_hour": 4}, TIME),
        ({"oldest_time": OLD, "local_hour": 16}, TIME),
        ({"oldest_time": OLD + 1, "local_hour": 16}, ""),
        ({"oldest_time": OLD, "room": DiskRoom.EXPIRE}, TIME),
        ({"room": DiskRoom.EXPIRE}, ""),
        ({"room": DiskRoom.FORCE}, DISK),
        ({"room": DiskRoom.REFUSE}, DISK),
        ({"room": DiskRoom.FORCE, "oldest_time": OLD, "local_hour": 4}, DISK),
    ],
)
def test_the_table_of_reasons(changes: dict[str, Any], reason: str) -> None:
    assert decide(SETTINGS, frozenset({4, 16}), CALM._replace(**changes)) == reason


def test_a_log_that_is_too_long_loses_its_oldest_whatever_their_age() -> None:
    limited = replace(SETTINGS, size_bytes=999)
    assert decide(limited, frozenset({4}), CALM) == SIZE
    assert decide(replace(SETTINGS, size_bytes=1_000), frozenset({4}), CALM) == ""


def test_without_hours_every_hour_will_do_and_without_an_age_none() -> None:
    old = CALM._replace(oldest_time=OLD)
    assert decide(SETTINGS, frozenset(), old) == TIME
    assert decide(replace(SETTINGS, age_ms=0), frozenset(), old) == ""


@pytest.mark.parametrize(
    ("used", "usable", "percent"),
    [(0, 0, 0), (75, 25, 75), (750_001, 249_999, 76), (1, 999, 1), (-1, 9, 0), (9, -1, 100)],
)
def test_the_used_share_is_rounded_up(used: int, usable: int, percent: int) -> None:
    assert percent_used(used, usable) == percent


GIB = 1 << 30


def disk(usable: int, used: int = 460 * GIB) -> DiskSpace:
    """Returns the space of a disk: log files have 60 bytes, the reserve 10."""
    return DiskSpace("/store", used, usable, 60, 10)


@pytest.mark.parametrize(
    ("used", "room"),
    [(75, "ENOUGH"), (76, "EXPIRE"), (85, "EXPIRE"), (86, "FORCE"), (90, "FORCE"), (91, "REFUSE")],
)
def test_room_by_percent_is_that_of_rocketmq(used: int, room: str) -> None:
    assert room_of(SETTINGS, disk(100 - used, used)).name == room


@pytest.mark.parametrize(
    ("usable", "room"),
    [(220, "ENOUGH"), (219, "EXPIRE"), (160, "EXPIRE"), (159, "FORCE"), (100, "FORCE"),
     (99, "REFUSE"), (0, "REFUSE")],
)  # fmt: skip
def test_room_by_free_bytes_is_what_the_next_files_need(usable: int, room: str) -> None:
    settings = RetentionSettings(disk_margin_bytes=30)
    assert room_of(settings, disk(usable)).name == room
    only_full = replace(settings, disk_margin_bytes=0)
    assert room_of(only_full, disk(usable)) is (DiskRoom.ENOUGH if usable else DiskRoom.REFUSE)


def test_a_disk_without_a_free_byte_refuses_sends_whatever_the_settings() -> None:
    settings = RetentionSettings(disk_margin_bytes=0)
    assert str(refusal_of(settings, disk(0))) == (
        "the disk under /store is full; free space, sends resume by themselves"
    )
    assert refusal_of(settings, disk(1)) is None


def test_of_both_judgements_the_worse_counts_and_the_error_names_its_limit() -> None:
    both = replace(SETTINGS, disk_margin_bytes=30)
    above, below = refusal_of(both, disk(45 * GIB)), refusal_of(both, disk(99, used=200))
    assert str(above) == (
        "the disk under /store is 92 % used with 48.3 GB free, sends are refused above "
        "90 % (retention.disk_refuse_percent); free space, they resume by themselves"
    )
    assert str(below) == (
        "the disk under /store has 99 bytes free (67 % used), sends need 100 bytes: a commit-log "
        "file, the reserve and retention.disk_margin_bytes; free space, they resume by themselves"
    )
    assert isinstance(below, DiskNearlyFull)
    assert "0 bytes free (100 % used), sends need 100 bytes" in str(
        refusal_of(RetentionSettings(disk_margin_bytes=30), disk(0))
    )
    assert refusal_of(both, disk(GIB, used=GIB)) is None


@pytest.mark.parametrize(
    ("mode", "made_here", "is_configured", "wanted"),
    [
        ("auto", True, False, True),
        ("auto", False, False, False),
        ("auto", False, True, True),
        ("on", False, False, True),
        ("off", True, True, False),
    ],
)
def test_a_store_found_keeps_its_messages_unless_asked_otherwise(
    mode: str, made_here: bool, is_configured: bool, wanted: bool
) -> None:
    settings = replace(SETTINGS, mode=mode)
    assert is_wanted(settings, made_here=made_here, is_configured=is_configured) is wanted


@pytest.mark.parametrize("hours", ["24", "-1", "4,16", "four"])
def test_hours_that_no_clock_shows_are_refused(hours: str) -> None:
    with pytest.raises(ValueError):
        RetentionSettings(hours=hours).hour_set()


class House:
    """Files of one byte each, stored an hour apart, and a disk that fills."""

    def __init__(self, count: int, **settings: object) -> None:
        self.bases = list(range(count))
        self.walks = 0
        self.trims = 0
        self.used = 50
        self.refusals: list[BrokerError | None] = []
        self.error: OSError | None = None
        self.blind: OSError | None = None
        self.floor = 99
        self.looks = 0
        self.rounds: list[int] = []
        self.topics_error: OSError | None = None
        is_on = bool(settings.pop("is_on", True))
        clock = settings.pop("clock", None)
        fields = {"hours": "", "age_ms": 10 * HOUR_MS, "file_batch_max": 3} | PERCENTS | settings
        fields.setdefault("disk_margin_bytes", 0)
        self.retention = Retention(
            cast(Expiry, self),
            RetentionSettings(mode="on", **fields),  # type: ignore[arg-type]
            is_on=is_on,
            floors=[lambda: 99, lambda: self.floor],
            disk_space=self._disk_space,
            refuse=self.refusals.append,
            hour_of=lambda now_ms: 12,
            find_holder=self._holder,
            expire_topics=self._expire_topics,
            archived=self._archived,
            clock=cast(BelievedClock | None, clock),
        )
        self.archived = 0

    async def _archived(self) -> ArchivedUpto:
        return ArchivedUpto(self.archived, "s3://lake", 0)

    async def _expire_topics(self, now_ms: int) -> None:
        self.rounds.append(now_ms)
        if self.topics_error is not None:
            raise self.topics_error

    async def _holder(self, physical_offset: int) -> RetentionHolder:
        self.looks += 1
        return RetentionHolder(LEASE, "orders", "billing", physical_offset, 99 * HOUR_MS)

    def _disk_space(self) -> DiskSpace:
        if self.blind is not None:
            raise self.blind
        return DiskSpace("/store", self.used, 100 - self.used, 1, 0)

    @property
    def log_size_bytes(self) -> int:
        return len(self.bases)

    def oldest(self) -> OldestLogFile | None:
        return OldestLogFile(self.bases[0], 1) if len(self.bases) > 1 else None

    def last_time(self, oldest: OldestLogFile, upto_ms: int) -> Job[int]:
        async def walk() -> int:
            self.walks += 1
            return oldest.base * HOUR_MS

        return Job(walk())

    def drop(self, oldest: OldestLogFile) -> Job[None]:
        async def drop() -> None:
            if self.error is not None:
                raise self.error
            assert self.bases.pop(0) == oldest.base

        return Job(drop())

    def trim_views(self) -> Job[None]:
        async def trim() -> None:
            self.trims += 1

        return Job(trim())

    async def round(self, wall_ms: int, monotonic_ms: int = 0) -> list[int]:
        """Calls step until it asks for the long pause; returns the pauses."""
        return await pauses_of(self.retention, at(monotonic_ms, wall_ms), longest_ms=100)


async def test_files_go_oldest_first_until_the_first_that_stays() -> None:
    house = House(8)
    assert await house.round(11 * HOUR_MS) == [100, 100, 10_000]
    assert house.bases == [2, 3, 4, 5, 6, 7]
    assert house.trims == 1
    assert house.retention.expired_files.values == {("time",): 2}


async def test_a_round_takes_a_batch_and_the_next_goes_on() -> None:
    house = House(8)
    assert await house.round(99 * HOUR_MS) == [100, 100, 10_000]
    assert house.bases == [3, 4, 5, 6, 7]
    await house.round(99 * HOUR_MS)
    await house.round(99 * HOUR_MS)
    assert house.bases == [7]


async def test_a_clock_set_far_forward_makes_nothing_old_for_an_hour(
    caplog: pytest.LogCaptureFixture,
) -> None:
    house, ahead_ms = House(8), 400 * 24 * HOUR_MS
    await house.round(11 * HOUR_MS)
    assert house.bases[0] == 2
    for minute in range(59):
        await house.round(11 * HOUR_MS + minute * 60_000 + ahead_ms, minute * 60_000)
    assert house.bases[0] == 2
    assert [r.message for r in caplog.records].count("retention.clock_ahead") == 1
    await house.round(12 * HOUR_MS + ahead_ms, HOUR_MS)
    assert house.bases[0] > 2


async def test_a_clock_that_is_set_right_again_in_time_costs_nothing() -> None:
    house = House(8)
    await house.round(11 * HOUR_MS)
    await house.round(99 * HOUR_MS, 1_000)
    await house.round(11 * HOUR_MS + 2_000, 2_000)
    await house.round(11 * HOUR_MS + 2 * HOUR_MS, 2 * HOUR_MS)
    assert house.bases[0] == 4
    await house.round(99 * HOUR_MS, 2 * HOUR_MS + 1_000)
    assert house.bases[0] == 4


class Believed:
    """The stored time of a believed clock, over several starts."""

    def __init__(self) -> None:
        self.saved: list[int] = []
        self.error: DiskFull | None = None

    async def save(self, time_ms: int) -> None:
        if self.error is not None:
            raise self.error
        self.saved.append(time_ms)

    def started(self, seen_ms: int, **settings: object) -> House:
        """Returns a house after a start; the last time in its store is `seen_ms`."""
        saved_ms = self.saved[-1] if self.saved else 0
        return House(8, clock=BelievedClock(seen_ms, saved_ms, self.save), **settings)


async def test_a_start_with_a_clock_far_ahead_deletes_nothing_for_an_hour(
    caplog: pytest.LogCaptureFixture,
) -> None:
    believed, ahead_ms = Believed(), 400 * 24 * HOUR_MS
    house = believed.started(8 * HOUR_MS)
    for minute in range(60):
        await house.round(9 * HOUR_MS + minute * 60_000 + ahead_ms, minute * 60_000)
    assert house.bases[0] == 0
    assert believed.saved == [8 * HOUR_MS]
    assert [r.message for r in caplog.records] == ["retention.held"]
    holder = house.retention.holder
    assert holder == RetentionHolder(CLOCK, "", "", 0, 10 * HOUR_MS + ahead_ms)
    assert house.retention.status == (
        "on, held until 1971-02-05T10:00:00+00:00, as the clock was set forward, or no broker ran "
        "for an hour"
    )
    await house.round(10 * HOUR_MS + ahead_ms, HOUR_MS)
    assert house.bases[0] > 0
    assert house.retention.holder is None
    assert believed.saved == [8 * HOUR_MS, 0]


async def test_another_start_with_the_wrong_clock_does_not_believe_it_sooner() -> None:
    believed, ahead_ms = Believed(), 400 * 24 * HOUR_MS
    await believed.started(8 * HOUR_MS).round(9 * HOUR_MS + ahead_ms)
    again = believed.started(9 * HOUR_MS + ahead_ms)
    await again.round(9 * HOUR_MS + ahead_ms + 60_000)
    assert again.bases[0] == 0
    right = believed.started(9 * HOUR_MS + ahead_ms)
    await right.round(9 * HOUR_MS)
    assert believed.saved == [8 * HOUR_MS, 0]
    await right.round(11 * HOUR_MS, 2 * HOUR_MS)
    assert right.bases[0] == 2


async def test_a_pending_message_where_the_clock_held_files_is_named_after_the_hour() -> None:
    house, ahead_ms = Believed().started(8 * HOUR_MS), 400 * 24 * HOUR_MS
    house.floor = 0
    await house.round(9 * HOUR_MS + ahead_ms)
    assert house.retention.holder is not None
    assert house.retention.holder.kind == CLOCK
    await house.round(10 * HOUR_MS + ahead_ms, HOUR_MS)
    assert house.retention.holder == RetentionHolder(LEASE, "orders", "billing", 0, 99 * HOUR_MS)


async def test_a_short_stop_delays_nothing_and_size_waits_for_no_clock() -> None:
    believed = Believed()
    soon = believed.started(10 * HOUR_MS + 1)
    await soon.round(11 * HOUR_MS)
    assert (soon.bases[0], believed.saved) == (2, [])
    large = believed.started(HOUR_MS, size_bytes=6)
    await large.round(99 * HOUR_MS)
    assert len(large.bases) == 6


async def test_a_clock_ahead_is_waited_for_though_its_time_cannot_be_stored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    believed = Believed()
    believed.error = DiskFull(path="/store")
    house = believed.started(8 * HOUR_MS)
    for second in range(3):
        await house.round(99 * HOUR_MS, second * 1_000)
    assert house.bases[0] == 0
    assert sorted(r.message for r in caplog.records) == ["retention.failed", "retention.held"]
    believed.error = None
    await house.round(99 * HOUR_MS, 10_000)
    assert believed.saved == [8 * HOUR_MS]


async def test_nothing_at_the_lowest_floor_or_above_it_goes() -> None:
    house = House(8)
    house.floor = 2
    assert await house.round(99 * HOUR_MS) == [100, 100, 10_000]
    assert house.bases == [2, 3, 4, 5, 6, 7]
    house.floor = 3
    await house.round(99 * HOUR_MS)
    assert house.bases == [3, 4, 5, 6, 7]


async def test_what_holds_files_that_should_go_is_named_until_they_may(
    caplog: pytest.LogCaptureFixture,
) -> None:
    house = House(8)
    house.floor = 2
    for _ in range(3):
        await house.round(99 * HOUR_MS)
    assert house.looks == 1
    (told,) = [one for one in caplog.records if one.message == "retention.held"]
    fields = ("kind", "topic", "group", "physical_offset", "until_ms", "reason")
    assert [vars(told)[name] for name in fields] == [
        "lease", "orders", "billing", 2, 99 * HOUR_MS, "time",
    ]  # fmt: skip
    until = "until 1970-01-05T03:00:00+00:00"
    assert house.retention.status == (
        f"on, held by lease of group billing in topic orders at offset 2 {until}"
    )
    assert house.retention.held == f"held by lease at offset 2 {until}"
    (held,) = [stat for stat in house.retention.stats if "held" in stat.name]
    assert isinstance(held, Gauge)
    assert held.read() == {("lease", "orders", "billing"): 99 * 3_600.0}
    house.floor = 99
    await house.round(99 * HOUR_MS)
    assert (house.retention.holder, house.retention.status, held.read()) == (None, "on", {})


@pytest.mark.parametrize("settings", [{}, {"size_bytes": 2}], ids=["by age", "by size"])
async def test_files_that_no_archive_has_are_kept(
    settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    house = House(8, archive_hold=True, **settings)
    house.archived = 2
    for _ in range(2):
        await house.round(99 * HOUR_MS)
    assert house.bases == [2, 3, 4, 5, 6, 7]
    assert house.retention.status == "on, held by archive s3://lake at offset 2"
    assert [one.message for one in caplog.records].count("retention.held") == 1
    house.archived = 99
    for _ in range(3):
        await house.round(99 * HOUR_MS)
    assert len(house.bases) <= 2
    assert (house.retention.holder, house.retention.status) == (None, "on")
    assert house.retention.unarchived_files.values == {}


async def test_a_full_disk_comes_before_an_archive_and_it_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    house = House(5, archive_hold=True)
    house.archived, house.used = 1, 86
    await house.round(HOUR_MS)
    assert house.bases == [3, 4]
    assert house.retention.unarchived_files.values == {(): 2}
    assert house.retention.status.endswith(", deleted 2 files that an archive lacks")
    told = [vars(one) for one in caplog.records if one.message == "retention.unarchived"]
    assert [(one["physical_offset"], one["archived_upto"]) for one in told] == [(1, 1), (2, 1)]


async def test_what_holds_files_that_may_stay_is_not_asked_for() -> None:
    house = House(8)
    house.floor = 0
    await house.round(9 * HOUR_MS)
    assert (house.looks, house.retention.holder) == (0, None)


async def test_nothing_is_walked_while_the_hour_is_wrong() -> None:
    house = House(8, hours="4")
    await house.round(99 * HOUR_MS)
    assert (house.bases[0], house.walks, house.trims) == (0, 0, 0)


async def test_expired_files_go_at_any_hour_once_when_an_operator_asks() -> None:
    house = House(20, hours="4")
    assert house.retention.expire_soon()
    await house.round(14 * HOUR_MS)
    await house.round(14 * HOUR_MS)
    assert house.bases[0] == 5, "a batch of three is not all"
    await house.round(17 * HOUR_MS)
    assert house.bases[0] == 5, "the hour counts again"
    assert not House(9, is_on=False).retention.expire_soon()


async def test_a_moved_clock_lets_all_expired_files_go_at_once_at_any_hour() -> None:
    house = House(20, hours="4", interval_ms=600_000)
    clock = FakeClock(14 * HOUR_MS)
    house.retention.step(Now(clock.monotonic_ms(), clock.wall_ms()))
    await house.retention.look(clock)
    assert house.bases[0] == 5
    await house.round(17 * HOUR_MS)
    assert house.bases[0] == 5, "the hour counts again"
    house.blind = OSError("gone")
    await house.retention.look(clock)


async def test_by_size_files_go_until_the_log_is_short_enough() -> None:
    house = House(8, size_bytes=6, age_ms=0)
    await house.round(0)
    assert house.bases == [2, 3, 4, 5, 6, 7]
    assert house.retention.expired_files.values == {("size",): 2}


async def test_a_full_disk_refuses_sends_until_there_is_room() -> None:
    house = House(3, age_ms=0)
    house.used = 91
    await house.round(0)
    (refusal, *_) = house.refusals
    assert isinstance(refusal, DiskAboveLimit)
    assert "91 % used with 9 bytes free, sends are refused above 90 %" in str(refusal)
    assert house.bases == [2]
    why = "the disk is 91 % used, the limit is 90 % (retention.disk_refuse_percent)"
    assert house.retention.send_refusal == why
    assert house.retention.status == f"refusing sends: {why}"
    house.used = 90
    await house.round(0)
    assert house.retention.status == (
        "on, little room on the disk: the oldest files are deleted, sends are refused next"
    )
    house.used = 85
    await house.round(0)
    assert house.retention.status == "on, little room on the disk: messages expire at any hour"
    house.used = 60
    await house.round(0)
    assert house.refusals[-1] is None
    assert house.retention.status == "on"
    assert not house.retention.send_refusal


async def test_a_file_that_cannot_be_removed_ends_the_round() -> None:
    house = House(8)
    house.error = PermissionError(13, "Permission denied")
    assert await house.round(99 * HOUR_MS) == [10_000]
    assert house.bases[0] == 0


async def test_each_round_expires_messages_of_topics_by_the_believed_clock(
    caplog: pytest.LogCaptureFixture,
) -> None:
    house = House(2, is_on=False)
    await house.round(11 * HOUR_MS)
    await house.round(999 * HOUR_MS, 1_000)
    assert house.rounds == [11 * HOUR_MS, 11 * HOUR_MS + 1_000]
    house.topics_error = OSError(5, "Input/output error")
    await house.round(11 * HOUR_MS + 2_000, 2_000)
    assert [one.message for one in caplog.records][-1] == "retention.failed"
    house.topics_error = None
    await house.round(11 * HOUR_MS + 3_000, 3_000)
    assert house.rounds[-1] == 11 * HOUR_MS + 3_000


async def test_switched_off_it_still_watches_the_disk() -> None:
    house = House(8, is_on=False)
    house.used = 95
    assert await house.round(99 * HOUR_MS) == [1_000]
    assert len(house.bases) == 8
    assert house.refusals[-1] is not None


async def test_a_round_that_an_error_ends_is_followed_by_its_trim() -> None:
    house = House(8)
    assert (await house.round(99 * HOUR_MS))[:1] == [100]
    trims, house.bases = house.trims, list(range(8))
    while len(house.bases) == 8:
        house.retention.step(at(0, 99 * HOUR_MS))
        await asyncio.sleep(0)
    house.blind = OSError("no disk")
    with pytest.raises(OSError, match="no disk"):
        while True:
            house.retention.step(at(0, 99 * HOUR_MS))
            await asyncio.sleep(0)
    house.blind, house.floor = None, 0
    await house.round(99 * HOUR_MS)
    assert house.trims == trims + 1


async def test_other_settings_are_followed_from_the_next_look_on() -> None:
    house = House(8, is_on=False)
    await house.round(99 * HOUR_MS)
    assert len(house.bases) == 8
    other = replace(SETTINGS, size_bytes=6, age_ms=0, pause_ms=50, interval_ms=2_000)
    house.retention.take(other, is_on=True)
    pauses = await pauses_of(house.retention, at(0, 99 * HOUR_MS), longest_ms=50)
    assert pauses == [50, 50, 2_000]
    assert len(house.bases) == 6
    house.retention.take(other, is_on=False)
    assert house.retention.status == "off"
