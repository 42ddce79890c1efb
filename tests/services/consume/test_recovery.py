"""Leases after a start: what kill -9 leaves, and what a real broker left."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pocketmq.format.names import CONFIG_DIRECTORY, CONSUMER_OFFSETS_FILE
from pocketmq.format.properties import encode_properties
from pocketmq.format.receipt_handle import GROUP_RETRY, NORMAL, RETRY_V1, RETRY_V2
from pocketmq.model.administration import GroupSettings
from pocketmq.model.batch import Destination
from pocketmq.model.consuming import SettleStatus
from pocketmq.model.message import OFFSET_MAX
from pocketmq.model.system_topics import (
    TIMER_TOPIC,
    QueuePlace,
    lease_retry_topic,
    lease_retry_topic_v2,
    revive_topic,
    timed,
)
from pocketmq.model.topic import retry_topic
from pocketmq.services.admin.groups import delete_group
from pocketmq.services.consume.lease.recovery import retry_kind
from pocketmq.services.consume.reread import reread
from tests.golden_stores import GoldenStores
from tests.kit.consuming import (
    GROUP,
    INVISIBLE_MS,
    TOPIC,
    ConsumeDesk,
    bodies,
    consuming,
    messages,
    statuses,
)
from tests.kit.rows import Row, batch
from tests.kit.store_language import BORN_HOST, BORN_MS, STORE_HOST, until

OK, INVALID = SettleStatus.OK, SettleStatus.INVALID_RECEIPT_HANDLE


@pytest.mark.parametrize("fifo", [False, True])
async def test_a_group_that_begins_at_the_end_misses_nothing_after_a_kill(
    desk: ConsumeDesk, tmp_path: Path, *, fifo: bool
) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo, begins_at_min=False))
    await desk.send("old")
    assert bodies(await desk.receive()) == []
    disk = desk.talking.disk
    path = desk.talking.directory / CONFIG_DIRECTORY / CONSUMER_OFFSETS_FILE
    await until(lambda: disk.exists(path) and b"orders@g" in disk.read_file(path))
    await desk.send("new")
    image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        assert bodies(await later.receive()) == ["new"]


async def test_leases_and_handles_survive_a_kill(desk: ConsumeDesk, tmp_path: Path) -> None:
    await desk.send("a", "b", "c")
    got = await desk.receive()
    await desk.consume.ack(GROUP, TOPIC, got.handles[:1])
    image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        assert later.in_flight == 2
        assert (await later.receive()).records == []
        settled = await later.consume.ack(GROUP, TOPIC, got.handles[:2])
        assert statuses(settled) == [INVALID, OK]
        await later.step(INVISIBLE_MS)
        again = await later.receive()
        assert (bodies(again), again.attempts) == (["c"], [2])


async def test_nothing_settled_comes_back_after_a_kill(desk: ConsumeDesk, tmp_path: Path) -> None:
    await desk.send(*"abcdefgh")
    first = await desk.receive(max_messages=4)
    await desk.ack(first)
    await desk.step(2_000)
    second = await desk.receive()
    await desk.ack(second)
    image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        assert later.in_flight == 0
        assert (await later.receive()).records == []
        await later.send("new")
        assert bodies(await later.receive()) == ["new"]


async def test_an_offset_set_back_stays_there_although_a_lease_is_changed_before_a_kill(
    desk: ConsumeDesk, tmp_path: Path
) -> None:
    await desk.send("a", "b")
    got = await desk.receive()
    await desk.store.tables.offsets.set_many(GROUP, TOPIC, {0: 0})
    await desk.consume.change_invisible(GROUP, TOPIC, [(one, 60_000) for one in got.handles])
    image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        assert bodies(await later.receive()) == ["a", "b"]


async def test_a_changed_lease_keeps_its_time_and_its_handles(
    desk: ConsumeDesk, tmp_path: Path
) -> None:
    await desk.send("a")
    got = await desk.receive()
    (changed,) = await desk.consume.change_invisible(GROUP, TOPIC, [(got.handles[0], 90_000)])
    image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        await later.step(INVISIBLE_MS)
        assert (await later.receive()).records == []
        assert later.in_flight == 1
        assert changed.handle != got.handles[0]
        assert await later.ack(got) == [OK]


async def test_a_retry_is_put_once(desk: ConsumeDesk, tmp_path: Path) -> None:
    await desk.send("a")
    await desk.receive()
    await desk.step(INVISIBLE_MS)
    image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        await later.step(INVISIBLE_MS)
        assert bodies(await later.receive()) == ["a"]
        assert (await later.receive()).records == []


async def test_an_offset_set_back_is_not_undone_by_leases_before_it(
    desk: ConsumeDesk, tmp_path: Path
) -> None:
    await desk.send("a", "b")
    await desk.ack(await desk.receive())
    await desk.store.tables.offsets.set_many(GROUP, TOPIC, {0: 0})
    image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        assert bodies(await later.receive()) == ["a", "b"]


async def test_a_group_made_again_begins_anew_whatever_it_was_given_before(
    desk: ConsumeDesk, tmp_path: Path
) -> None:
    await desk.send("a", "b", "c")
    await desk.ack(await desk.receive(max_messages=1))
    await desk.receive(max_messages=1)
    await delete_group(desk.store, GROUP, with_topics=True)
    await desk.store.tables.groups.ensure(GROUP)
    image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        assert bodies(await later.receive()) == ["a", "b", "c"]


async def test_an_offset_committed_below_what_was_settled_in_order_outlasts_a_kill(
    desk: ConsumeDesk, tmp_path: Path
) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=True))
    await desk.send("a", "b", "c")
    assert await desk.ack(await desk.receive()) == [OK] * 3
    await desk.store.tables.commit(GROUP, TOPIC, 0, 1)
    image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        assert bodies(await later.receive()) == ["b", "c"]


async def test_leases_after_a_set_offset_push_it(desk: ConsumeDesk, tmp_path: Path) -> None:
    await desk.send("a", "b")
    await desk.ack(await desk.receive())
    await desk.store.tables.offsets.set_many(GROUP, TOPIC, {0: 0})
    await desk.ack(await desk.receive())
    image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        assert (await later.receive()).records == []


async def test_an_orderly_end_keeps_leases(tmp_path: Path) -> None:
    async with consuming(tmp_path / "s") as desk:
        await desk.send("a", "b")
        got = await desk.receive()
        await desk.consume.ack(GROUP, TOPIC, got.handles[:1])
    async with consuming(tmp_path / "s", clock=desk.clock) as later:
        assert later.in_flight == 1
        assert statuses(await later.consume.ack(GROUP, TOPIC, got.handles[1:])) == [OK]


async def test_the_journal_is_read_from_its_oldest_open_lease(
    desk: ConsumeDesk, tmp_path: Path
) -> None:
    await desk.send("a", "b")
    held = await desk.receive(max_messages=1)
    await desk.ack(await desk.receive())
    await desk.step(1_000)
    await desk.step(1_000)
    marks = desk.store.tables.offsets.leases
    assert (marks.begin, marks.known) == (0, marks.journal_end)
    await desk.ack(held)
    await desk.step(1_000)
    await desk.step(1_000)
    assert marks.begin == marks.known == marks.journal_end
    assert marks.held == {}


async def test_an_old_lease_is_written_down_anew(tmp_path: Path) -> None:
    async with consuming(tmp_path / "s", journal_max=10) as desk:
        await desk.send("a", "b")
        held = await desk.receive()
        await desk.consume.ack(GROUP, TOPIC, held.handles[:1])
        for i in range(8):
            await desk.send(f"{i}")
            await desk.ack(await desk.receive())
        for _ in range(3):
            await desk.step(1_000)
        marks = desk.store.tables.offsets.leases
        assert marks.begin == 18
        image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        assert later.in_flight == 1
        settled = await later.consume.ack(GROUP, TOPIC, held.handles)
        assert statuses(settled) == [INVALID, OK]


@pytest.mark.parametrize("journal_max", [5, 1_000])
async def test_what_is_being_settled_is_lost_by_no_kill(
    tmp_path: Path, journal_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One lease waits for its read to be sent back; the rest are settled or saved meanwhile."""
    reads, gate = [], asyncio.Event()

    async def slow(*asked: Any) -> dict[int, bytes]:
        reads.append(asked)
        await gate.wait()
        return await reread(*asked)

    monkeypatch.setattr("pocketmq.services.consume.lease.ack.reread", slow)
    async with consuming(tmp_path / "s", journal_max=journal_max) as desk:
        await desk.send("a", "b")
        held = await desk.receive()
        back = asyncio.ensure_future(desk.consume.send_back(GROUP, TOPIC, [(held.handles[0], 1)]))
        await until(lambda: bool(reads))
        if journal_max > 5:
            await desk.consume.ack(GROUP, TOPIC, held.handles[1:])
        for number in range(5):
            await desk.send(f"{number}")
            await desk.ack(await desk.receive())
        for _ in range(4):
            await desk.step(1_000)
        await desk.store.tables.offsets.saved()
        image = desk.talking.killed(tmp_path / "image")
        back.cancel()
        await asyncio.gather(back, return_exceptions=True)
    async with consuming(image, clock=desk.clock) as later:
        await later.step(INVISIBLE_MS)
        assert "a" in bodies(await later.receive())


async def test_leases_of_a_real_broker_come_back(golden: GoldenStores, tmp_path: Path) -> None:
    """Eight leases of a minute were open; the real broker put them again when it answered."""
    manifest = golden.manifest("semantics")
    retry = next(q for q in manifest["queues"] if q["topic"] == "%RETRY%pop-group_PopT")
    params = manifest["params"]
    sizes = {
        "commit_log_file_size_bytes": params["mappedFileSizeCommitLog"],
        "consume_queue_file_size_bytes": params["mappedFileSizeConsumeQueue"],
        "index_slot_count": params["maxHashSlotNum"],
        "index_entry_count_max": params["maxIndexNum"],
    }
    async with consuming(golden.copy("semantics", tmp_path / "s"), **sizes) as desk:
        assert desk.consume.in_flight() == {("pop-group", "PopT"): 8}
        end_ms = manifest["checkpoint"]["physicMsgTimestamp"] + 60_000
        await desk.step(end_ms - desk.clock.wall)
        assert desk.in_flight == 0
        got = await desk.receive(group="pop-group", topic="PopT")
        assert len(got.records) == retry["remotingMaxOffset"] == retry["maxOffset"] + 8
        assert set(got.attempts) == {2}
        assert [message.queue_offset for message in messages(got)] == list(range(30))
        settled = await desk.consume.ack("pop-group", "PopT", got.handles)
        assert statuses(settled) == [OK] * 30


LEASE_BODY = '{"c":"g","t":"orders","q":0,"so":0,"pt":1,"it":1,"n":2000000000}'


async def put_in_timer(desk: ConsumeDesk, topic: str, body: str, tag: str) -> None:
    """Stores what the timer's topic holds of a message that is delayed."""
    changed = timed(QueuePlace(topic, 0), desk.clock.wall + 60_000).changed
    block = encode_properties({**changed, "TAGS": tag, "UNIQ_KEY": "k"})
    row = Row(body.encode(), block, 0, BORN_MS, BORN_HOST, "k", "", tag)
    await desk.store.tables.topics.ensure(TIMER_TOPIC, 1)
    await desk.store.writing.put([(Destination(TIMER_TOPIC, 0, STORE_HOST), batch(row))])
    await desk.settled()


OF_A_USER = [
    ("ck", LEASE_BODY),
    ("ck", LEASE_BODY.replace("2000000000", "2")),
    ("ack", '{"c":"g","t":"orders","q":0,"so":0,"pt":POPPED,"ao":0,"bn":"broker-a"}'),
    ("bAck", '{"c":"g","t":"orders","q":0,"so":0,"pt":POPPED,"aol":[0,1],"bn":"broker-a"}'),
]


@pytest.mark.parametrize(("tag", "body"), OF_A_USER)
async def test_what_users_have_wait_is_no_entry_of_the_journal(
    desk: ConsumeDesk, tmp_path: Path, caplog: pytest.LogCaptureFixture, tag: str, body: str
) -> None:
    """A delayed message whose tag and body are those of a lease, or of an ack of one."""
    await desk.send("a", "b")
    await desk.receive()
    body = body.replace("POPPED", str(desk.clock.wall))
    await put_in_timer(desk, TOPIC, body, tag)
    image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        assert later.in_flight == 2
        assert "lease.unreadable" not in [record.message for record in caplog.records]
        await later.step(INVISIBLE_MS)
        assert bodies(await later.receive()) == ["a", "b"]


NO_ENTRIES = [
    ("ck", LEASE_BODY),
    ("ck", LEASE_BODY.replace("2000000000", "Infinity")),
    ("ck", LEASE_BODY.replace('"so":0', f'"so":{OFFSET_MAX}').replace("2000000000", "2")),
    ("ck", LEASE_BODY.replace('"n":2000000000', f'"d":{[*range(128)]}')),
    ("ck", LEASE_BODY.replace('"n":2000000000', '"d":[1,0]')),
    ("ck", LEASE_BODY.replace('"n":2000000000', '"n":1,"bm":Infinity')),
    ("ck", LEASE_BODY.replace('"q":0', '"q":2147483648')),
    ("bAck", '{"c":"g","t":"orders","q":0,"so":0,"pt":1,"aol":' + f"{[0] * 128}}}"),
    ("bAck", '{"c":"g","t":"orders","q":0,"so":0,"pt":1,"aol":{"0":1}}'),
    ("ack", "[" * 100_000),
    ("ack", "not json"),
]


@pytest.mark.parametrize(("tag", "body"), NO_ENTRIES)
async def test_an_unreadable_entry_of_the_journal_costs_itself_alone(
    desk: ConsumeDesk, tmp_path: Path, caplog: pytest.LogCaptureFixture, tag: str, body: str
) -> None:
    await desk.send("a", "b")
    got = await desk.receive(max_messages=1)
    await put_in_timer(desk, revive_topic("DefaultCluster"), body, tag)
    await desk.receive()
    image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        (told,) = [one for one in caplog.records if one.message == "lease.unreadable"]
        assert vars(told)["physical_offset"] > 0
        assert later.in_flight == 2
        assert await later.ack(got) == [OK]


async def test_a_lease_of_a_retry_topic_is_changed_after_a_kill(
    desk: ConsumeDesk, tmp_path: Path
) -> None:
    """Its new handle names the retry topic as the first one did."""
    await desk.send("a")
    await desk.receive()
    await desk.step(INVISIBLE_MS)
    got = await desk.receive()
    image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        (changed,) = await later.consume.change_invisible(GROUP, TOPIC, [(got.handles[0], 90_000)])
        assert changed.status is OK
        assert statuses(await later.consume.ack(GROUP, TOPIC, [changed.handle])) == [OK]
        assert later.in_flight == 0


def test_a_retry_topic_is_told_by_its_whole_name() -> None:
    own = retry_topic(GROUP)
    assert retry_kind(GROUP, TOPIC) == NORMAL
    assert retry_kind(GROUP, own) == GROUP_RETRY
    assert retry_kind(GROUP, lease_retry_topic(GROUP, TOPIC)) == RETRY_V1
    assert retry_kind(GROUP, lease_retry_topic_v2(GROUP, TOPIC)) == RETRY_V2
    assert retry_kind(GROUP, f"{own}-{TOPIC}") == NORMAL


@pytest.mark.parametrize("property_crc", [False, True])
async def test_leases_survive_a_restart_whether_or_not_records_have_checksums(
    tmp_path: Path, *, property_crc: bool
) -> None:
    async with consuming(tmp_path / "s", property_crc=property_crc) as before:
        await before.send("a", "b")
        got = await before.receive()
        assert statuses(await before.consume.ack(GROUP, TOPIC, got.handles[:1])) == [OK]
    async with consuming(tmp_path / "s", clock=before.clock, property_crc=property_crc) as later:
        assert later.in_flight == 1
        await later.step(INVISIBLE_MS + 1_000)
        assert bodies(await later.receive()) == ["b"]
