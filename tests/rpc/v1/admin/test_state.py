"""The store tells how it is; the process tells its settings and can be asked to end."""

import pytest

from broker import __version__
from broker.model.errors import UnsupportedFeature
from broker.rpc.pb import admin_pb2 as pb
from broker.rpc.v1.admin.needs import Process
from broker.rpc.v1.admin.state import StateMethods
from tests.fakes.call import FakeCall
from tests.fakes.memory_broker import MemoryBroker

CALL = FakeCall()


def test_the_store_tells_how_it_is(broker: MemoryBroker) -> None:
    broker.store.add("orders", b"a")
    broker.store.groups.add("readers")
    end = broker.store.appended
    assert broker.admin.state.store_status(pb.StoreStatusRequest(), CALL) == pb.StoreStatusResponse(
        state="running",
        state_since_ms=1_600_000_000_000,
        directory="/store",
        min_offset=0,
        appended_offset=end,
        flushed_offset=end,
        dispatched_offset=end,
        flush_mode="sync",
        version=__version__,
        topic_count=1,
        queue_count=2,
        group_count=1,
        cluster="DefaultCluster",
        broker="broker-a",
        retention_state="off",
        disk_free_bytes=30,
        disk_total_bytes=100,
        index_file_count=2,
        queue_file_count=0,
    )


async def test_a_flush_says_how_far_it_came(broker: MemoryBroker) -> None:
    broker.store.add("orders", b"a")
    answer = await broker.admin.state.flush(pb.FlushRequest(), CALL)
    assert answer.flushed_offset == broker.store.appended


def test_settings_come_with_their_origin(broker: MemoryBroker) -> None:
    answer = broker.admin.state.effective_config(pb.EffectiveConfigRequest(), CALL)
    assert list(answer.rows) == [pb.ConfigRow(key="store.flush", value="async", origin="--set")]


def test_the_end_is_asked_for_once_a_call(broker: MemoryBroker) -> None:
    broker.admin.state.drain(pb.DrainRequest(), CALL)
    assert broker.drains == ["asked"]


def test_where_nobody_can_end_it_that_is_said(broker: MemoryBroker) -> None:
    store = broker.store
    state = StateMethods(store.groups, store=store, topics=store.topics, process=Process())
    with pytest.raises(UnsupportedFeature):
        state.drain(pb.DrainRequest(), CALL)
