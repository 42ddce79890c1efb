"""Reading a queue: the status first, then records that are what they say they are."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from pocketmq.files.mapped_file import ColdRead, MappedFile
from pocketmq.format.consume_unit import EXTENSION_ADDRESS_MAX, PRE_BLANK_SIZE, UNIT
from pocketmq.format.java_hash import tags_code
from pocketmq.format.record import decode_record
from pocketmq.log import commit_log, queue_units
from pocketmq.log.commit_log import CommitLog
from pocketmq.log.consume_queue import ConsumeQueue
from pocketmq.model.errors import MessageDamaged
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import Bound, PullResult, PullStatus, ReadRange
from pocketmq.store.read import lookups, pulling
from pocketmq.store.read.cold_read import value_of
from pocketmq.store.read.pulling import Pulling
from pocketmq.store.read.record_check import (
    QUEUES_MAX,
    RANGES_MAX,
    asked_of,
    remember_sound,
    was_sound,
)
from pocketmq.store.recovery.components import StoreComponents
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import shown, wanted
from tests.kit.store_golden import READ_WHOLE, recovered
from tests.kit.store_language import TalkingStore, store_at
from tests.sim.clock import START_MS
from tests.sim.quick_disk import QuickDisk

Parts = Callable[[str], StoreComponents]

# -- a queue of ten --------------------------------------------------------------------------------


def in_memory(log: CommitLog) -> Pulling:
    """Pulls that never wait."""
    return Pulling(log, *cast(Any, (None, None)))


class Queue:
    """Ten messages of queue 0 of T, 2 s apart; every third is tagged B, the others A."""

    def __init__(self, parts: StoreComponents) -> None:
        self.disk = parts.disk
        self.log: CommitLog = parts.log
        self.queue: ConsumeQueue = parts.queues.queues["T", 0]
        self.pulling = in_memory(self.log)

    def relead(self, queue_offset: int, *unit: int) -> None:
        """Puts another unit in the place of one."""
        self.queue.files.files[0].open().write(20 * queue_offset, UNIT.pack(*unit))

    def pull(
        self,
        queue_offset: int,
        count: int = 32,
        max_bytes: int = 1 << 20,
        accept: Callable[[int], bool] | None = None,
    ) -> PullResult:
        wanted = ReadRange("T", 0, queue_offset, count, max_bytes)
        return self.pulling.resident(self.queue, wanted, accept)

    def joined(self, queue_offset: int, count: int = 32, max_bytes: int = 1 << 20) -> PullResult:
        wanted = ReadRange("T", 0, queue_offset, count, max_bytes)
        return self.pulling.resident(self.queue, wanted, joined=True)

    def overwrite(self, queue_offset: int, position: int, content: bytes) -> int:
        """Puts bytes over a record on disk; returns where the record lies."""
        unit = self.queue.units.at(queue_offset)
        assert unit is not None
        file = self.log.files.file_at(unit[0])
        assert file is not None
        with file.path.open("r+b") as disk:
            disk.seek(unit[0] - file.base + position)
            disk.write(content)
        return unit[0]


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[Queue]:
    async with store_at(tmp_path / "s") as store:
        for number in range(10):
            await store.send("T", f"{number} {'x' * 100}", tag="B" if number % 3 == 0 else "A")
            store.clock.advance(2_000)
        await store.send("other", "x")
    with recovered(tmp_path / "s") as parts:
        yield Queue(parts)


def numbers(result: PullResult) -> list[int]:
    return [int(decode_record(record).body.split()[0]) for record in result.records]


@pytest.mark.parametrize(
    ("queue_offset", "status", "next_begin"),
    [
        (0, PullStatus.FOUND, 10),
        (9, PullStatus.FOUND, 10),
        (10, PullStatus.OFFSET_OVERFLOW_ONE, 10),
        (11, PullStatus.OFFSET_OVERFLOW_BADLY, 10),
        (-1, PullStatus.OFFSET_TOO_SMALL, 0),
    ],
)
def test_the_status_of_an_offset(
    queue: Queue, queue_offset: int, status: PullStatus, next_begin: int
) -> None:
    result = queue.pull(queue_offset)
    assert (result.status, result.next_begin_offset) == (status, next_begin)
    assert (result.min_offset, result.max_offset) == (0, 10)
    assert result.record_count == len(result.records)


@pytest.mark.parametrize(
    ("queue_offset", "status"),
    [
        (0, PullStatus.NO_NEW_MESSAGE),
        (1, PullStatus.OFFSET_OVERFLOW_BADLY),
        (-1, PullStatus.OFFSET_TOO_SMALL),
    ],
)
def test_a_queue_nothing_was_stored_in(queue: Queue, queue_offset: int, status: PullStatus) -> None:
    result = queue.pulling.resident(None, ReadRange("T", 0, queue_offset, 1, 1))
    assert result == PullResult(status, 0, 0, 0, [], 0)


def test_a_pull_ends_when_it_has_enough_but_brings_one_at_least(queue: Queue) -> None:
    result = queue.pull(2, count=3)
    assert numbers(result) == [2, 3, 4]
    assert (result.next_begin_offset, result.record_count) == (5, 3)
    size = len(queue.pull(0, count=1).records[0])
    assert numbers(queue.pull(0, max_bytes=3 * size)) == [0, 1, 2]
    assert numbers(queue.pull(0, max_bytes=3 * size - 1)) == [0, 1]
    assert numbers(queue.pull(4, max_bytes=1)) == [4]


def test_records_next_to_each_other_are_joined_whatever_gaps_and_limits(queue: Queue) -> None:
    assert queue.joined(3).records == [b"".join(queue.pull(3).records)]
    size = len(queue.pull(0, count=1).records[0])
    queue.relead(4, 0, PRE_BLANK_SIZE, 0)
    for begin in range(10):
        for count, max_bytes in ((1, 1), (3, 1 << 20), (32, 2 * size), (32, 2 * size - 1)):
            joined = queue.joined(begin, count, max_bytes)
            same_as_apart(joined, queue.pull(begin, count, max_bytes))


def same_as_apart(joined: PullResult, apart: PullResult) -> None:
    """The plain twin of a joined pull hands out the same bytes."""
    assert b"".join(joined.records) == b"".join(apart.records)
    assert joined._replace(records=[]) == apart._replace(records=[])
    assert len(joined.records) <= max(len(apart.records), 1)


def test_a_filter_sees_tags_codes_and_skips(queue: Queue) -> None:
    wanted = tags_code("B")
    result = queue.pull(1, accept=lambda code: code == wanted)
    assert numbers(result) == [3, 6, 9]
    assert result.next_begin_offset == 10
    result = queue.pull(1, count=1, accept=lambda code: code == wanted)
    assert numbers(result) == [3]
    assert result.next_begin_offset == 6


def test_nothing_accepted_says_how_far_it_looked(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulling, "SCAN_COUNT_MIN", 4)
    result = queue.pull(2, count=1, accept=lambda _: False)
    assert (result.status, result.next_begin_offset) == (PullStatus.NO_MATCHED_MESSAGE, 6)
    assert result.records == []


def test_an_address_into_the_extension_counts_as_a_match(queue: Queue) -> None:
    place, size, _ = UNIT.unpack(queue.queue.units.read(0, 1))
    queue.relead(0, place, size, EXTENSION_ADDRESS_MAX)
    result = queue.pull(0, accept=lambda _: False)
    assert numbers(result) == [0]
    assert result.next_begin_offset == 10


def test_pre_blank_units_are_passed_over(queue: Queue) -> None:
    for number in (0, 1):
        queue.relead(number, 0, PRE_BLANK_SIZE, 0)
    assert numbers(queue.pull(0)) == [2, 3, 4, 5, 6, 7, 8, 9]
    assert lookups.store_time_at(queue.log, queue.queue, 0) is None


@pytest.mark.parametrize("joined", [False, True])
async def test_records_gone_since_are_expired(store: TalkingStore, joined: bool) -> None:
    for number in range(10):
        await store.send("T", f"{number} {'x' * 1500}")
    await store.settled()
    parts = store.store._structures
    parts.log.files.files.pop(0).remove()
    log, queue = parts.log, parts.queues.queues["T", 0]
    wanted = ReadRange("T", 0, 1, 32, 1 << 20)
    result = in_memory(log).resident(queue, wanted, joined=joined)
    assert result == PullResult(PullStatus.EXPIRED, 2, 2, 10, [], 0)
    assert queue.min_offset == 2
    assert store.pull("T", 1).status is PullStatus.OFFSET_TOO_SMALL
    assert numbers(store.pull("T", 2))[0] == 2
    assert lookups.store_time_at(log, queue, 1) is None


# -- damage ----------------------------------------------------------------------------------------


DAMAGE = [
    (95, b"\0"),
    (28, b"\x7f"),
    (84, b"\xff"),
]
"""Body, own offset, body length; every bit is tried in test_record_check.py."""


@pytest.mark.parametrize(("position", "content"), DAMAGE)
def test_what_is_sound_before_damage_is_served(queue: Queue, position: int, content: bytes) -> None:
    queue.overwrite(4, position, content)
    for pull in (queue.pull, queue.joined):
        before = pull(3)
        assert (before.status, before.record_count) == (PullStatus.FOUND, 1)
        assert (numbers(before), before.next_begin_offset) == ([3], 4)
        with pytest.raises(ColdRead):
            pull(4)
    assert numbers(queue.pull(5)) == [5, 6, 7, 8, 9]


def test_a_file_can_be_closed_after_damage_was_met(queue: Queue) -> None:
    queue.overwrite(4, 95, b"\0")
    with pytest.raises(ColdRead) as caught:
        queue.pull(4)
    queue.log.close()
    assert str(caught.value)


@pytest.mark.parametrize(
    "unit",
    [(0, 30, 0), (0, 60, 0), (999_999, 200, 0), (7, 200, 0), (4050, 200, 0), (-9, 200, 0), ()],
)
def test_units_that_do_not_lead_to_their_message_are_not_followed(
    queue: Queue, unit: tuple[int, ...]
) -> None:
    """Nowhere, or to another message."""
    queue.relead(2, *(unit or UNIT.unpack(queue.queue.units.read(7, 1))))
    assert numbers(queue.pull(0)) == [0, 1]
    with pytest.raises(ColdRead):
        queue.pull(2)
    with pytest.raises(ColdRead):
        queue.joined(2)


def test_no_filter_passes_over_a_unit_that_cannot_be_right(queue: Queue) -> None:
    queue.relead(2, 0, 0, 0)
    assert queue.pull(1, accept=lambda _: False).next_begin_offset == 2
    with pytest.raises(ColdRead):
        queue.pull(2, accept=lambda _: False)


@pytest.mark.parametrize("unit", [(0, 0, 0), (999_999, 200, 0), (-9, 200, 0), (150, 200, 0)])
def test_units_that_lead_nowhere_do_not_mislead_a_search_by_time(
    queue: Queue, unit: tuple[int, int, int]
) -> None:
    for damaged in range(1, 9):
        was = queue.queue.units.at(damaged)
        assert was is not None
        queue.relead(damaged, *unit)
        for number in {0, 3, 5, 9} - {damaged, damaged + 1}:
            found = lookups.queue_offset_by_time(
                queue.log, queue.queue, START_MS + 2_000 * number, Bound.LOWER
            )
            assert found == number
        queue.relead(damaged, *was)


# -- what was found sound before -------------------------------------------------------------------


def file_of(queue: Queue) -> MappedFile:
    file = queue.log.files.file_at(0)
    assert file is not None
    return file


def closed(queue: Queue) -> None:
    queue.log.close()


def dropped(queue: Queue) -> None:
    """A page of the file is not in memory any more, and is read again."""
    file = file_of(queue)
    assert isinstance(queue.disk, QuickDisk)
    queue.disk.drop_resident()
    with pytest.raises(ColdRead) as cold:
        file.read_resident(0, 1)
    cold.value.fetch()


@pytest.mark.parametrize("lose", [closed, dropped])
def test_a_record_is_checked_when_it_is_read_first(
    queue: Queue, lose: Callable[[Queue], None]
) -> None:
    assert len(numbers(queue.pull(0))) == 10
    queue.overwrite(4, 95, b"\0")
    assert len(queue.pull(2, 5).records) == 5
    assert queue.joined(0).record_count == 10
    lose(queue)
    assert numbers(queue.pull(0)) == [0, 1, 2, 3]


def test_what_was_not_read_yet_is_checked(queue: Queue) -> None:
    assert numbers(queue.pull(0, 4)) == [0, 1, 2, 3]
    assert numbers(queue.pull(5)) == [5, 6, 7, 8, 9]
    assert numbers(queue.pull(0, accept=tags_code("B").__eq__)) == [0, 3, 6, 9]
    queue.overwrite(4, 95, b"\0")
    assert numbers(queue.pull(3)) == [3]
    assert queue.joined(0).record_count == 4


def test_a_filter_vouches_for_nothing_it_passed_over(queue: Queue) -> None:
    assert numbers(queue.pull(0, accept=tags_code("B").__eq__)) == [0, 3, 6, 9]
    queue.overwrite(4, 95, b"\0")
    assert numbers(queue.pull(0)) == [0, 1, 2, 3]


@pytest.mark.parametrize("number", [2, 5, 9])
def test_a_unit_that_changed_leads_to_no_other_record(queue: Queue, number: int) -> None:
    assert len(numbers(queue.pull(0))) == 10
    was = queue.queue.units.at(number)
    assert was is not None
    for other in (queue.queue.units.at(0), (was[0], was[1] + 4, 0), (was[0] - 4, was[1], 0)):
        assert other is not None
        queue.relead(number, *other)
        assert numbers(queue.pull(0)) == [*range(number)]
        assert queue.joined(0).record_count == number
        with pytest.raises(ColdRead):
            queue.joined(number)


async def test_what_this_process_wrote_is_known_until_its_file_is_closed(
    store: TalkingStore,
) -> None:
    for number in range(10):
        await store.stocked()
        await store.send("T", f"{number} {'x' * 1000}")
    await store.settled()
    parts = store.store._structures
    log, queue = parts.log, parts.queues.queues["T", 0]
    first = log.files.files[0]
    with first.path.open("r+b") as disk:
        disk.seek(95)
        disk.write(b"y")
    wanted = ReadRange("T", 0, 0, 2, 1 << 20)
    assert in_memory(log).resident(queue, wanted).record_count == 2
    first.close()
    with pytest.raises(ColdRead):
        in_memory(log).resident(queue, wanted)
    assert in_memory(log).resident(queue, wanted._replace(queue_offset=1)).record_count == 2


async def test_nothing_of_an_earlier_process_is_known(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await store.send("T", "x" * 100)
    with (tmp_path / "s/commitlog" / f"{0:020d}").open("r+b") as disk:
        disk.seek(95)
        disk.write(b"y")
    async with store_at(tmp_path / "s") as store:
        await store.send("T", "1 after it")
        await store.settled()
        assert not isinstance(store.store.reading.pull(ReadRange("T", 0, 0, 9, 999)), PullResult)
        assert numbers(store.pull("T", 1)) == [1]


def test_memory_of_what_was_checked_is_bounded(queue: Queue) -> None:
    file, mine = file_of(queue), asked_of(queue.log, queue.queue)
    for first in range(0, 4 * RANGES_MAX, 2):
        remember_sound(file, mine, first, first + 1)
    assert len(file.checked["T", 0]) == RANGES_MAX
    assert was_sound(file, 0, mine, 4 * RANGES_MAX - 2, 4 * RANGES_MAX - 1)
    assert not was_sound(file, 0, mine, 0, 1)
    remember_sound(file, mine, 0, 4 * RANGES_MAX)
    assert file.checked["T", 0] == [(0, 4 * RANGES_MAX)]
    for queue_id in range(QUEUES_MAX):
        remember_sound(file, mine._replace(queue_id=queue_id), 0, 1)
    assert len(file.checked) <= QUEUES_MAX


# -- by time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after_ms", "lower", "upper"),
    [
        (-1, 0, 0),
        (0, 0, 0),
        (1, 1, 0),
        (2_000, 1, 1),
        (17_999, 9, 8),
        (18_000, 9, 9),
        (18_001, 10, 9),
    ],
)
def test_a_queue_at_a_time(queue: Queue, after_ms: int, lower: int, upper: int) -> None:
    time_ms = START_MS + after_ms
    found = [
        lookups.queue_offset_by_time(queue.log, queue.queue, time_ms, bound)
        for bound in (Bound.LOWER, Bound.UPPER)
    ]
    assert found == [lower, upper]


def test_store_times_of_messages(queue: Queue) -> None:
    times = [lookups.store_time_at(queue.log, queue.queue, number) for number in range(-1, 11)]
    assert times == [None, *range(START_MS, START_MS + 20_000, 2_000), None]


# -- stores of a real broker -----------------------------------------------------------------------


def all_of(parts: StoreComponents, topic: str, queue_id: int, begin: int) -> list[StoredMessage]:
    """Pulls a queue from an offset to its end."""
    queue = parts.queues.queues[topic, queue_id]
    messages: list[StoredMessage] = []
    while begin < queue.max_offset:
        wanted = ReadRange(topic, queue_id, begin, 32, 1 << 18)
        result = in_memory(parts.log).resident(queue, wanted)
        assert result.status is PullStatus.FOUND
        messages += [decode_record(record) for record in result.records]
        begin = result.next_begin_offset
    return messages


@pytest.mark.parametrize("name", READ_WHOLE)
def test_pulling_a_real_store_brings_exactly_its_messages(
    golden: GoldenStores, real: Parts, name: str
) -> None:
    manifest, parts = golden.manifest(name), real(name)
    records = {record["phy"]: record for record in manifest["records"]}
    seen = 0
    for row in manifest["queues"]:
        units = [unit for unit in row["units"] if unit[1] != PRE_BLANK_SIZE]
        messages = all_of(parts, row["topic"], row["queueId"], row["maxOffset"] - len(units))
        assert [m.physical_offset for m in messages] == [unit[0] for unit in units]
        assert [m.queue_offset for m in messages] == [
            *range(row["maxOffset"] - len(units), row["maxOffset"])
        ]
        for message in messages:
            assert shown(message) == wanted(records[message.physical_offset])
        queue = parts.queues.queues[row["topic"], row["queueId"]]
        for begin in range(queue.min_offset, queue.max_offset, 32):
            asked = ReadRange(row["topic"], row["queueId"], begin, 32, 1 << 18)
            pull = in_memory(parts.log).resident
            same_as_apart(pull(queue, asked, joined=True), pull(queue, asked))
        seen += len(messages)
    assert seen == sum(1 for record in records.values() if "tagsCode" in record)
    assert {key for key, queue in parts.queues.queues.items() if queue.max_offset} == {
        (row["topic"], row["queueId"]) for row in manifest["queues"] if row["units"]
    }


@pytest.mark.parametrize("name", READ_WHOLE)
def test_pulls_a_real_broker_answered_are_answered_alike(
    golden: GoldenStores, real: Parts, name: str
) -> None:
    parts = real(name)
    grown = grown_queues(golden, name)
    pulls = [
        pull
        for pull in golden.manifest(name)["pulls"]
        if pull["sub"] == "*" and (pull["topic"], pull["queueId"]) not in grown
    ]
    for pull in pulls:
        queue_key = (pull["topic"], pull["queueId"])
        queue = parts.queues.queues.get(queue_key)
        wanted = ReadRange(*queue_key, pull["offset"], pull["maxNum"], 1 << 20)
        result = in_memory(parts.log).resident(queue, wanted)
        offsets = [decode_record(record).queue_offset for record in result.records]
        # A real broker stops at the end of a consume-queue file and at 256 KiB; ours goes on.
        theirs = pull["queueOffsets"]
        assert offsets[: len(theirs)] == theirs
        assert (result.status is PullStatus.FOUND) == (pull["remark"] == "FOUND")
        if not theirs:
            assert result.next_begin_offset == int(pull["nextBeginOffset"])
        assert result.min_offset == int(pull["minOffset"])
        assert result.max_offset == int(pull["maxOffset"])
    assert pulls


def grown_queues(golden: GoldenStores, name: str) -> set[tuple[str, int]]:
    """Queues into which messages came when the broker was started to be asked."""
    return {
        (row["topic"], row["queueId"])
        for row in golden.manifest(name)["queues"]
        if row["remotingMaxOffset"] != row["maxOffset"]
    }


@pytest.mark.parametrize("name", READ_WHOLE)
def test_searches_by_time_are_answered_as_a_real_broker_does(
    golden: GoldenStores, real: Parts, name: str
) -> None:
    manifest, parts = golden.manifest(name), real(name)
    unlike = set()
    for search in manifest["searchOffsetByTime"]:
        key = (search["topic"], search["queueId"])
        bound = Bound[search["boundary"]]
        found = lookups.queue_offset_by_time(
            parts.log, parts.queues.queues[key], search["timestamp"], bound
        )
        if found != search["offset"]:
            unlike.add(key)
    assert len(manifest["searchOffsetByTime"]) > 50
    assert unlike <= grown_queues(golden, name)
    assert len(unlike) <= (name == "semantics")


async def test_a_unit_that_leads_to_another_topic_leads_nowhere(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        for topic in ("alpha", "bravo"):
            await store.send(topic, topic)
        await store.settled()
        queues = store.store.views.queues.queues
        unit = queues["bravo", 0].units.at(0)
        assert unit is not None
        queues["alpha", 0].files.files[0].open().write(0, UNIT.pack(*unit))
        found = await value_of(store.store.reading.pull(ReadRange("alpha", 0, 0, 9, 1 << 20)))
    assert [decode_record(record).body for record in found.records] == [b"alpha"]


async def test_damage_that_was_reported_once_is_not_served_after(
    store: TalkingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.stocked()
    for number in range(5):
        await store.send("orders", f"message {number}")
    await store.settled()
    for module in (commit_log, queue_units):
        monkeypatch.setattr(module, "HOT_SIZE", 0)
    reading, wanted = store.store.reading, ReadRange("orders", 0, 0, 5, 1 << 20)
    assert (await value_of(reading.pull(wanted))).record_count == 5
    path = store.store.log.files.files[0].path
    content = path.read_bytes()
    path.write_bytes(content.replace(b"message 0", b"massage 0"))
    assert isinstance(store.disk, QuickDisk)
    store.disk.drop_resident()
    for _ in range(3):
        with pytest.raises(MessageDamaged):
            await value_of(reading.pull(wanted))
