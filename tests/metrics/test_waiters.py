"""The gauge of those who wait counts pulls and receives."""

import asyncio

from pocketmq.app.parts import long_poll_waiters
from pocketmq.filter.tag import EVERYTHING
from pocketmq.model.administration import GroupSettings
from pocketmq.model.consuming import ReceiveRequest
from pocketmq.model.reading import PullResult, ReadRange
from pocketmq.services.pull import PullRequest
from tests.kit.store_broker import store_broker
from tests.kit.store_language import turns


async def test_pulls_and_receives_are_counted_while_they_wait() -> None:
    async with store_broker() as broker:
        gauge = long_poll_waiters(broker.pull, broker.consume)
        asked = PullRequest(ReadRange("orders", 0, 0, 1, 1), EVERYTHING, 60_000)
        found = broker.pull.pull(asked)
        assert isinstance(found, PullResult)
        pull = broker.pull.park(asked, found, lambda result: result)
        assert gauge.read() == 1
        await broker.store.tables.groups.create("g", GroupSettings())
        wanted = ReceiveRequest("g", "orders", EVERYTHING, 1, 30_000, 60_000)

        async def receive() -> None:
            received = broker.consume.receive(wanted)
            assert not isinstance(received, tuple)
            await received

        receiving = asyncio.create_task(receive())
        await turns()
        assert gauge.read() == 2
        pull.cancel()
        receiving.cancel()
        await asyncio.wait([receiving])
        assert gauge.read() == 0
