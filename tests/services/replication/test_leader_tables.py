"""Tables of a leader that acknowledges what followers have, with a follower that a test plays."""

import asyncio
from pathlib import Path

import pytest

from pocketmq.model.errors import NotReplicated
from pocketmq.services.replication.confirming import InSync
from pocketmq.services.replication.follower import FollowerStream, encode_report
from pocketmq.services.replication.leader import Leader
from pocketmq.services.replication.own_stream import OwnStream
from pocketmq.services.replication.protocol import SlaveRefused
from pocketmq.services.replication.table_record import TableRecord
from pocketmq.store.tables.copied_files import COPIED
from tests.kit.store_language import store_at


async def records(stream: OwnStream) -> list[TableRecord]:
    """Returns what a follower of an empty log is sent now."""
    found, reader = list[TableRecord](), FollowerStream(0, 4_096)
    while frame := await stream.table():
        found += [one for one in reader.receive(frame) if isinstance(one, TableRecord)]
    return found


async def test_a_follower_counts_once_it_has_all_tables(tmp_path: Path) -> None:
    async with store_at(tmp_path, in_sync_replicas=2) as talking:
        leader = Leader(talking.store, 1 << 20, InSync(2))
        leader.tables.begin()
        stream = leader.admit("10.0.0.7:5000", "f", 0)
        leader.receive(stream, encode_report(0, 0))
        assert leader.confirming.connected == 0
        sent = await records(stream)
        assert {one.name for one in sent} > {*COPIED}
        leader.receive(stream, encode_report(0, sent[-1].seq))
        assert leader.confirming.connected == 1
        created = asyncio.create_task(talking.store.tables.topics.create("t", queue_count=1))
        await leader.tables.arrived.reached(leader.tables.arrived.value + 2)
        (record,) = await records(stream)
        assert not created.done()
        leader.receive(stream, encode_report(0, record.seq))
        await created
        with pytest.raises(SlaveRefused, match=r"it has tables up to change \d+, was sent \d+"):
            leader.receive(stream, encode_report(0, record.seq + 1))
        leader.disconnect(stream, "a test")
        leader.tables.close()


@pytest.mark.parametrize("counts_legacy", [False, True])
async def test_tables_do_not_wait_for_slaves_that_copy_their_own(
    tmp_path: Path, counts_legacy: bool
) -> None:
    async with store_at(tmp_path, in_sync_replicas=2) as talking:
        leader = Leader(talking.store, 1 << 20, InSync(2, counts_legacy=counts_legacy))
        leader.tables.begin()
        create = talking.store.tables.topics.create
        if counts_legacy:
            await create("t", queue_count=1)
        else:
            with pytest.raises(NotReplicated):
                await create("t", queue_count=1)
        leader.tables.close()
