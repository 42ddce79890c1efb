"""A store that a real broker had: its checkpoints in the timer's topic and in its revive topic."""

from pathlib import Path

import pytest

from pocketmq.format.pop_records import Batched, Entry, PopCheckpoint, checkpoint_entry
from pocketmq.format.timer_layout import TimerProgress
from pocketmq.model.batch import Destination
from pocketmq.model.consuming import SettleStatus
from pocketmq.model.system_topics import REVIVE_GROUP, TIMER_TOPIC, revive_topic
from tests.kit.consuming import GROUP, INVISIBLE_MS, TOPIC, ConsumeDesk, bodies, consuming
from tests.kit.rows import Row, batch
from tests.kit.store_language import BORN_HOST, BORN_MS, STORE_HOST

REVIVE = revive_topic("DefaultCluster")


def checkpoint(desk: ConsumeDesk, *offsets: int) -> Entry:
    """Returns a checkpoint of messages of queue 0, which a real broker leased now."""
    batched = Batched(GROUP, TOPIC, 0, offsets[0], desk.clock.wall_ms(), "broker-a")
    return checkpoint_entry(PopCheckpoint(batched, [*offsets], INVISIBLE_MS, 0), REVIVE)


async def put(desk: ConsumeDesk, topic: str, entry: Entry) -> None:
    """Stores a record of a real broker."""
    row = Row(
        entry.body, entry.property_block, 0, BORN_MS, BORN_HOST, entry.unique_key, "", entry.tag
    )
    await desk.store.writing.put([(Destination(topic, 0, STORE_HOST), batch(row))])
    await desk.settled()


@pytest.mark.parametrize(("read_later_ms", "leased"), [(-1_000, 2), (0, 2), (1_000, 0)])
async def test_a_checkpoint_counts_up_to_the_slot_that_is_read_next(
    desk: ConsumeDesk, tmp_path: Path, read_later_ms: int, leased: int
) -> None:
    await desk.send("a", "b")
    entry = checkpoint(desk, 0, 1)
    await put(desk, TIMER_TOPIC, entry)
    out_ms = int(entry.property_block.split(b"TIMER_OUT_MS\x01")[1].split(b"\x02")[0])
    await desk.store.tables.timer_check.put(TimerProgress(read_ms=out_ms + read_later_ms))
    image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        assert later.in_flight == leased


async def test_the_journal_is_taken_over_only_once_no_lease_of_a_revive_topic_is_open(
    desk: ConsumeDesk, tmp_path: Path
) -> None:
    await desk.send("a")
    await put(desk, REVIVE, checkpoint(desk, 0))
    first = desk.talking.killed(tmp_path / "first")
    async with consuming(first, clock=desk.clock) as later:
        assert later.in_flight == 1
        await later.send("b")
        assert await later.ack(await later.receive()) == [SettleStatus.OK]
        for _ in range(3):
            await later.step(1_000)
        await later.store.tables.offsets.saved()
        assert not later.store.tables.offsets.leases.is_adopted
        second = later.talking.killed(tmp_path / "second")
    async with consuming(second, clock=desk.clock) as later:
        assert later.in_flight == 1
        await later.step(INVISIBLE_MS)
        assert bodies(await later.receive()) == ["a"]
        for _ in range(3):
            await later.step(1_000)
        assert later.store.tables.offsets.leases.is_adopted


@pytest.mark.parametrize(("read", "leased"), [(None, 2), (0, 1), (1, 0)])
async def test_a_revive_topic_is_read_from_behind_what_was_revived(
    desk: ConsumeDesk, tmp_path: Path, read: int | None, leased: int
) -> None:
    await desk.send("a", "b")
    for at in (0, 1):
        await put(desk, REVIVE, checkpoint(desk, at))
    if read is not None:
        await desk.store.tables.offsets.set_many(REVIVE_GROUP, REVIVE, {0: read})
    image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        assert later.in_flight == leased
