"""The store tells how it is; the process tells its settings and can be asked to end."""

import pytest

from pocketmq import __version__, native
from pocketmq.model.errors import UnsupportedFeature
from pocketmq.native.commit import commit
from pocketmq.rpc.pb import admin_pb2 as pb
from pocketmq.rpc.v1.admin import AdminMethods
from pocketmq.services.admin.status import Process
from tests.kit.call import FakeCall
from tests.kit.store_broker import StoreBroker

CALL = FakeCall()


async def test_the_store_tells_how_it_is(broker: StoreBroker) -> None:
    await broker.add("orders", b"a", KEYS="k")
    await broker.store.tables.groups.ensure("readers")
    _, used_bytes, free_bytes = broker.store.disk_space()
    end = broker.store.appended
    assert await broker.admin.store_status(pb.StoreStatusRequest(), CALL) == pb.StoreStatusResponse(
        state="running",
        state_since_ms=broker.clock.wall,
        directory="/store",
        min_offset=0,
        appended_offset=end,
        flushed_offset=end,
        dispatched_offset=end,
        flush_mode="sync",
        version=__version__,
        modules=native.form(),
        commit=commit(),
        topic_count=1,
        queue_count=2,
        group_count=1,
        cluster="DefaultCluster",
        broker="broker-a",
        retention_state="off",
        disk_free_bytes=free_bytes,
        disk_total_bytes=used_bytes + free_bytes,
        index_file_count=1,
        queue_file_count=1,
    )


async def test_the_status_names_the_limit_of_the_disk_that_refuses_sends(
    broker: StoreBroker,
) -> None:
    process = Process(send_refusal=lambda: "the disk is full")
    admin = AdminMethods(broker.backing, process)
    answer = await admin.store_status(pb.StoreStatusRequest(), CALL)
    assert answer.send_refusal == "the disk is full"


def test_where_nobody_can_end_it_that_is_said(broker: StoreBroker) -> None:
    admin = AdminMethods(broker.backing, Process())
    assert not admin.effective_config(pb.EffectiveConfigRequest(), CALL).rows
    with pytest.raises(UnsupportedFeature):
        admin.drain(pb.DrainRequest(), CALL)
