"""The table of pocketmq.v1.Admin serves what the proto promises."""

from broker.rpc.admission import CallClass
from broker.rpc.v1.admin import DESCRIPTOR
from tests.fakes.store_broker import StoreBroker


async def test_the_table_serves_every_method_of_the_proto(broker: StoreBroker) -> None:
    service = broker.admin.service()
    assert service.name == "pocketmq.v1.Admin"
    classes = {row.name: row.call_class for row in service.methods}
    ours = {row.name for row in service.methods if not row.request_code}
    assert ours == {"Flush", "Drain", "PullMessage"}  # RocketMQ has the last one's word as well.
    assert set(classes) == set(DESCRIPTOR.methods_by_name)
    assert classes.pop("PullMessage") is CallClass.POLL
    assert set(classes.values()) == {CallClass.ADMIN}
