"""The table of pocketmq.v1.Admin serves what the proto promises."""

from broker.rpc.service import CallClass
from broker.rpc.v1.admin import DESCRIPTOR
from tests.fakes.store_broker import StoreBroker


async def test_the_table_serves_every_method_of_the_proto(broker: StoreBroker) -> None:
    service = broker.admin.service()
    assert service.name == "pocketmq.v1.Admin"
    classes = {row.name: row.call_class for row in service.methods}
    assert set(classes) == set(DESCRIPTOR.methods_by_name)
    assert classes.pop("PullMessage") is CallClass.POLL
    assert set(classes.values()) == {CallClass.ADMIN}
