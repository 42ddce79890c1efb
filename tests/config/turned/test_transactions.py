"""Which transactions are taken and when producers are asked, as an operator says."""

from pathlib import Path
from random import Random

import pytest

from pocketmq.app.backing import check_rules, send_rules
from pocketmq.config.load import load
from pocketmq.format.addresses import UniqueKeyMaker
from pocketmq.model.errors import TransactionsRefused
from pocketmq.services.produce.drafts import DeliveryRequest
from pocketmq.services.produce.send import Send
from tests.kit.drafts import draft, drafts_of
from tests.kit.store_language import BORN_HOST, STORE_HOST
from tests.kit.transacting import transacting
from tests.sim.disk import SimDisk

NOTICED_MS = 2_000


@pytest.mark.knob("transactions.refuse")
async def test_no_transactions_are_taken() -> None:
    rules = send_rules(load(assignments=["transactions.refuse=true"]), STORE_HOST)
    maker = UniqueKeyMaker(address=b"\x7f\0\0\1", process_id=1, random_bytes=b"send")
    async with transacting(Path("/store"), disk=SimDisk()) as desk:
        await desk.store.tables.topics.keep("orders")
        send = Send(desk.store, rules, desk.clock, key_maker=maker, random=Random(1))
        wanted = drafts_of(draft())._replace(deliveries=[DeliveryRequest(transactional=True)])
        with pytest.raises(TransactionsRefused):
            await send.send(wanted, BORN_HOST)
        await send.send(drafts_of(draft()), BORN_HOST)


@pytest.mark.knob("transactions.timeout_ms")
@pytest.mark.knob("transactions.check_interval_ms")
@pytest.mark.knob("transactions.checks_max")
async def test_producers_are_asked_when_and_as_often_as_is_said() -> None:
    config = load(
        assignments=[
            "transactions.timeout_ms=60s", "transactionCheckInterval=10000",
            "transactions.checks_max=2",
        ]
    )  # fmt: skip
    rules = check_rules(config)
    async with transacting(Path("/store"), rules, disk=SimDisk()) as desk:
        desk.listen()
        await desk.half("a")
        await desk.run(59_000)
        assert desk.asked == []
        await desk.run(1_000 + NOTICED_MS)
        assert len(desk.asked) == 1
        await desk.run(10_000 + NOTICED_MS)
        assert len(desk.asked) == 2
        await desk.run(10_000 + NOTICED_MS)
        assert desk.given_up() == ["a"]
