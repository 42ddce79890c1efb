"""Receiving, settling and the loop of both, against a served broker."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from pocketmq.client import (
    ClientError,
    Leased,
    ReceiveQuery,
    Resolution,
    SettleStatus,
    Unreachable,
    errors,
)
from pocketmq.client.channel import Stub
from pocketmq.client.consuming import WAIT_MS, ReceiveLoop
from pocketmq.client.following import BrokerWait
from pocketmq.rpc.pb import broker_pb2
from tests.client.test_tail import Loop
from tests.rpc.desk import Desk, opened_desk

HOST = "127.0.0.1:1"
OK, INVALID = SettleStatus.OK, SettleStatus.INVALID_RECEIPT_HANDLE
QUERY = ReceiveQuery("g", "orders")


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    """Group g has three messages to receive."""
    async with opened_desk() as opened:
        await opened.broker.store.tables.groups.ensure("g")
        await opened.broker.add("orders", b"a", b"b", b"c", TAGS="A")
        yield opened


async def test_what_is_received_is_settled_by_its_handle(desk: Desk) -> None:
    client = desk.client
    first, second, third = await client.receive(QUERY)
    assert (first.message.body, first.attempt, first.message.tag) == (b"a", 1, "A")
    assert first.body == b"a"
    assert first.invisible_until_ms == desk.broker.clock.wall + 30_000
    (done,) = await client.ack("g", "orders", [first.receipt_handle])
    assert done.status is OK
    assert (await client.ack("g", "orders", ["x"]))[0].status is INVALID
    (changed,) = await client.change_invisible("g", "orders", [(second.receipt_handle, 60_000)])
    assert changed.status is OK
    handles = [changed.handle]
    assert (await client.forward_to_dead_letters("g", "orders", handles))[0].status is OK
    assert (await client.send_back("g", "orders", [(third.receipt_handle, 0)]))[0].status is OK
    assert await client.receive(QUERY) == []
    await desk.broker.pass_time(0)
    assert (await desk.admin.list_dead_letters("g")).items[0].waiting_count == 1


async def test_a_client_has_a_name(desk: Desk) -> None:
    await desk.client.receive(QUERY)
    await desk.client.receive(ReceiveQuery("g", "orders", client_id="worker-1"))
    names = [member.client_id for member in await desk.admin.list_members("g")]
    assert len(names) == 2
    assert "worker-1" in names


async def test_refusals_are_errors(desk: Desk) -> None:
    with pytest.raises(errors.GroupNotFound):
        await desk.client.receive(ReceiveQuery("nobody", "orders"))
    with pytest.raises(errors.IllegalNumber):
        await desk.client.receive(ReceiveQuery("g", "orders", invisible_ms=1))


async def test_a_loop_acknowledges_what_its_body_got_through(desk: Desk) -> None:
    seen = [one.message.body async for one in desk.client.consume(QUERY, count_max=3)]
    assert seen == [b"a", b"b", b"c"]
    await desk.broker.pass_time(60_000)
    assert await desk.client.receive(QUERY) == []


async def test_what_a_body_failed_at_comes_back_later_and_the_rest_at_once(desk: Desk) -> None:
    async def work() -> None:
        loop = desk.client.consume(QUERY)
        try:
            async for one in loop:
                if one.message.body == b"b":
                    raise ValueError("b is wrong")
        finally:
            await loop.aclose()

    with pytest.raises(ValueError, match="wrong"):
        await work()
    await desk.broker.pass_time(1)
    again = await desk.client.receive(QUERY)
    assert [(one.message.body, one.attempt) for one in again] == [(b"c", 2)]
    await desk.broker.talking.settled()
    assert desk.broker.store.reading.queue_range("SCHEDULE_TOPIC_XXXX", 2) == (0, 1)


async def test_a_loop_ends_with_what_does_not_pass(desk: Desk) -> None:
    with pytest.raises(ClientError, match="does not exist"):
        async for _ in desk.client.consume(ReceiveQuery("nobody", "orders")):
            pass


async def test_a_loop_waits_for_more(desk: Desk) -> None:
    seen: list[Leased] = []
    async for one in desk.client.consume(QUERY, count_max=5):
        seen.append(one)
        if len(seen) == 3:
            await desk.broker.add("orders", b"d", b"e")
    assert [one.message.body for one in seen] == [b"a", b"b", b"c", b"d", b"e"]


async def test_group_and_topic_in_the_wrong_order_are_noted(desk: Desk) -> None:
    with pytest.raises(errors.TopicNotFound) as refused:
        await desk.client.receive(ReceiveQuery("orders", "g"))
    assert refused.value.__notes__ == ["group 'orders', topic 'g': ReceiveQuery(group, topic)"]


async def test_a_handle_alone_and_a_leased_message_are_no_list_of_handles(desk: Desk) -> None:
    client = desk.client
    (leased,) = await client.receive(ReceiveQuery("g", "orders", max_messages=1))
    handle = leased.receipt_handle
    wrong: list[Any] = [leased, [leased]]
    for settle in (client.ack, client.forward_to_dead_letters):
        with pytest.raises(TypeError, match=r"handles is a str, but a call has several: write \['"):
            await settle("g", "orders", handle)
        for given in wrong:
            with pytest.raises(TypeError, match=r"write \[leased\.receipt_handle\]"):
                await settle("g", "orders", given)
    pairs: list[Any] = [(handle, 1), [handle], handle]
    for change in (client.change_invisible, client.send_back):
        for given in pairs:
            with pytest.raises(TypeError, match=r"write \[\(leased\.receipt_handle, n\)\]"):
                await change("g", "orders", given)
    assert (await client.ack("g", "orders", [handle]))[0].status is OK


async def test_a_loop_of_no_message_is_refused(desk: Desk) -> None:
    with pytest.raises(ValueError, match="count_max is 0: at least 1"):
        [one async for one in desk.client.consume(QUERY, count_max=0)]
    with pytest.raises(ValueError, match="count_max is 0: at least 1"):
        await desk.client.answer_checks("payers", lambda _: Resolution.COMMIT, count_max=0)


class Leaving:
    """A service that answers one call, fails twice, and has a message then."""

    def __init__(self) -> None:
        self.wait_ms: list[int] = []

    async def ask(self, method: str, **fields: Any) -> Any:
        """Returns the answer of a call."""
        if method != "Receive":
            return broker_pb2.AckResponse(results=[{"status": broker_pb2.SETTLED}])
        self.wait_ms.append(fields["wait_ms"])
        if len(self.wait_ms) in (2, 3):
            raise Unreachable("Unreachable", "gone", retryable=True)
        if len(self.wait_ms) == 1:
            return broker_pb2.ReceiveResponse()
        message = {
            "topic": "orders",
            "body": b"a",
            **dict.fromkeys(("born_host", "store_host"), HOST),
        }
        return broker_pb2.ReceiveResponse(messages=[message], receipt_handles=["h"], attempts=[1])


async def test_a_broker_that_goes_away_during_the_first_wait_is_waited_for() -> None:
    leaving = Leaving()
    loop = ReceiveLoop(cast("Stub", leaving), Loop(), QUERY, count_max=1, patience=BrokerWait())
    assert [one.message.body async for one in loop.messages()] == [b"a"]
    assert leaving.wait_ms == [0, WAIT_MS, WAIT_MS, WAIT_MS]
