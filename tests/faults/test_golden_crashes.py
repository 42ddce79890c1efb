"""Stores a real broker left uncleanly: what is served here against what that broker kept.

Each pair is a store before and after a real RocketMQ's own recovery. Opened here, the store before
must serve every message that broker kept, byte for byte, and the sound ones it lost. That its
views are those of a rebuild stands in tests/store/recovery/test_recovery_plan.py.
"""

from pathlib import Path
from typing import Any

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.record import decode_record
from pocketmq.format.record_scan import RecordScan
from pocketmq.model.reading import PullResult, ReadRange
from pocketmq.store.message_store import MessageStore, open_store
from pocketmq.store.read.cold_read import value_of
from pocketmq.store.settings import StoreSettings
from tests.golden_stores import GoldenStores
from tests.kit.store_golden import golden_copy, golden_sizes
from tests.sim.clock import FakeClock
from tests.sim.quick_disk import QuickDisk

LOST_THERE = {
    "crash-kill": 0,
    "crash-torn": 0,
    "crash-flip": 25,
    "crash-behind": 0,
    "clean-torn": 0,
}
"""Messages of the store before that the real broker's recovery lost and ours serves."""


async def pulled(store: MessageStore, topic: str, queue_id: int, position: int) -> PullResult:
    return await value_of(store.reading.pull(ReadRange(topic, queue_id, position, 32, 1 << 20)))


async def served(directory: Path, disk: Disk, **sizes: Any) -> dict[int, bytes]:
    """Opens a store and returns every message it serves, by its place in the log."""
    store = await open_store(StoreSettings(directory=directory, **sizes), FakeClock(), disk)
    found: dict[int, bytes] = {}
    try:
        assert store.damage is None
        for topic, queue_id in store.views.queues.queues:
            position, upper = store.reading.queue_range(topic, queue_id)
            while position < upper:
                result = await pulled(store, topic, queue_id, position)
                found |= {decode_record(r).physical_offset: r for r in result.records}
                position = result.next_begin_offset
    finally:
        await store.close()
    return found


def kept_there(golden: GoldenStores, name: str) -> dict[int, bytes]:
    """Every record in a real store's log, by its place; prepared and rolled-back ones too."""
    directory = golden.store(name) / "commitlog"
    found: dict[int, bytes] = {}
    for path in sorted(directory.iterdir()):
        content = path.read_bytes()
        for position, size in RecordScan(content, int(path.name), crc=True):
            found[int(path.name) + position] = content[position : position + size]
    return found


@pytest.mark.parametrize("pair", LOST_THERE)
async def test_everything_a_real_broker_kept_is_served_and_what_it_lost_too(
    golden: GoldenStores, tmp_path: Path, pair: str
) -> None:
    before = f"{pair}.before"
    copy = golden_copy(golden, before, tmp_path / "s")
    ours = await served(copy, QuickDisk(), **golden_sizes(golden, before))
    theirs = kept_there(golden, f"{pair}.after")
    lost_here = theirs.keys() - ours.keys()
    lost_there = ours.keys() - theirs.keys()
    print(f"{pair}: {len(ours)} served, {len(theirs)} kept there, {len(lost_there)} lost there")
    assert not lost_here
    assert all(ours[place] == record for place, record in theirs.items())
    assert len(lost_there) == LOST_THERE[pair]
    again = await served(copy, QuickDisk(), **golden_sizes(golden, before))
    assert again == ours
