"""Acknowledgements that wait for followers, with slaves that a test plays."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pocketmq.model.batch import PutStatus
from pocketmq.model.errors import FollowersLate
from pocketmq.rpc.classic.status import FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.pb import messaging_pb2 as official
from pocketmq.rpc.pending_reply import PendingReply
from pocketmq.rpc.service import Shortcut
from pocketmq.services.replication.confirming import InSync
from pocketmq.wire.remoting import Command, decode, encode
from tests.kit.official import OfficialDesk, sent
from tests.kit.slaves import Pair, serving
from tests.kit.store_broker import CALL
from tests.kit.store_language import turns, until
from tests.rpc.classic.test_send import short

pytestmark = pytest.mark.timeout(10)
OK, LATE = PutStatus.OK, PutStatus.FLUSH_REPLICA_TIMEOUT
ALONE = PutStatus.REPLICA_NOT_AVAILABLE


@pytest.fixture(params=["sync", "async"])
async def pair(request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    async with serving(InSync(2, counts_legacy=True), flush=request.param) as made:
        yield made


async def test_a_message_is_acknowledged_and_seen_once_a_follower_has_it(pair: Pair) -> None:
    slave = await pair.slave()
    sending = await pair.send(b"a")
    end = pair.broker.store.appended
    await slave.take_upto(end)
    assert (sending.done(), pair.visible) == (False, 0)
    slave.report(end - 1)
    await until(lambda: pair.leader.rows()[0].acknowledged == end - 1)
    assert (sending.done(), pair.visible) == (False, 0), "a part of a record is not the record"
    slave.report(end)
    assert await sending is OK
    assert pair.visible == end


async def test_without_a_follower_it_is_stored_told_at_once_and_seen_later(pair: Pair) -> None:
    assert await (await pair.send(b"a")) is ALONE
    assert pair.visible == 0
    end = pair.broker.store.appended
    await (await pair.slave()).copy_upto(end)
    await until(lambda: pair.visible == end)


async def test_a_slow_follower_is_told_and_its_late_report_counts(pair: Pair) -> None:
    slave = await pair.slave()
    sending = await pair.send(b"a")
    end = pair.broker.store.appended
    await slave.take_upto(end)
    await pair.late()
    assert await sending is LATE
    assert pair.visible == 0
    slave.report(end)
    await until(lambda: pair.visible == end)


async def test_two_connections_of_one_follower_count_once(pair: Pair) -> None:
    async with serving(InSync(3, counts_legacy=True), flush="sync") as three:
        for count in (1, 2):
            await three.slave()
            await until(lambda: [r.acknowledged for r in three.leader.rows()] == [0] * count)  # noqa: B023
        assert await (await three.send(b"a")) is ALONE


async def test_a_follower_that_comes_back_with_less_takes_nothing_back(pair: Pair) -> None:
    slave = await pair.slave()
    sending = await pair.send(b"a")
    end = pair.broker.store.appended
    await slave.copy_upto(end)
    assert await sending is OK
    slave.writer.close()
    await until(lambda: not any(row.is_connected for row in pair.leader.rows()))
    back = await pair.slave(end - 10)
    assert (await back.frame())[0] == end - 10
    assert pair.visible == end


async def test_what_a_stranger_claims_confirms_nothing(pair: Pair) -> None:
    sending = await pair.send(b"a")
    assert await sending is ALONE
    slave = await pair.slave(None)
    slave.report(1 << 60)
    assert await slave.is_cut()
    assert pair.visible == 0


async def test_reports_from_memory_count_only_if_that_is_set() -> None:
    async with serving(InSync(2), flush="sync") as pair:
        slave = await pair.slave()
        assert await (await pair.send(b"a")) is ALONE
        slave.report(0)
        await turns(5)
        assert pair.visible == 0


async def test_a_stop_does_not_wait_for_followers(pair: Pair) -> None:
    assert await (await pair.send(b"a")) is ALONE
    # The fixture closes the store.


async def test_a_removal_of_a_topic_waits_no_longer_than_a_send(pair: Pair) -> None:
    assert await (await pair.send(b"a")) is ALONE
    removing = asyncio.create_task(pair.broker.store.remove_topic("orders"))
    await turns(20)
    await pair.late()
    with pytest.raises(FollowersLate, match="on 2 brokers after 3"):
        await removing


async def test_all_connected_followers_can_be_waited_for() -> None:
    leader_of_all = InSync(2, is_all=True, counts_legacy=True)
    async with serving(leader_of_all, flush="sync") as pair:
        fast = await pair.slave()
        pair.leader.confirming.look([("fast", 0), ("slow", 0)])
        sending = await pair.send(b"a")
        end = pair.broker.store.appended
        await fast.take_upto(end)
        pair.leader.confirming.look([("fast", end), ("slow", 0)])
        await turns(5)
        assert (sending.done(), pair.visible) == (False, 0)
        pair.leader.confirming.look([("fast", end), ("slow", end)])
        assert await sending is OK


def begun(shortcut: Shortcut | None, raw: bytes) -> "asyncio.Future[bytes]":
    """Begins a plain send, which waits."""
    assert shortcut is not None
    waiting = shortcut(raw, CALL.peer_host, {"x-mq-client-id": "c"}.get)
    assert isinstance(waiting, PendingReply)
    return asyncio.ensure_future(waiting)


@pytest.mark.parametrize("is_alone", [True, False])
async def test_each_protocol_has_its_status(is_alone: bool, tmp_path: Path) -> None:
    """Of plain sends, which wait without a task of their own."""
    async with serving(
        InSync(2, counts_legacy=True), flush="sync", directory=tmp_path / "s"
    ) as pair:
        await pair.broker.store.tables.topics.create("orders", queue_count=1)
        if not is_alone:
            await pair.slave()
        desk = OfficialDesk(pair.broker)
        one = pb.SendMessageRequest(messages=[pb.Message(topic="orders", body=b"x")])
        frame = encode(Command(310, short(), b"x", 7))
        replies = [
            begun(pair.broker.methods["SendMessage"].shortcut, one.SerializeToString()),
            begun(desk.methods["SendMessage"].shortcut, sent("orders", b"x").SerializeToString()),
            begun(pair.broker.classic.sending.shortcut, frame),
        ]
        await until(lambda: pair.broker.store.flushed == pair.broker.store.appended)
        if not is_alone:
            assert not any(reply.done() for reply in replies)
            await pair.late()
        v1, v2, classic = await asyncio.gather(*replies)
        found = (
            pb.SendMessageResponse.FromString(v1).results[0].status,
            official.SendMessageResponse.FromString(v2).status.code,
            decode(classic).code,
        )
        if is_alone:
            assert found == (
                pb.REPLICA_NOT_AVAILABLE, official.HA_NOT_AVAILABLE, SLAVE_NOT_AVAILABLE,
            )  # fmt: skip
        else:
            assert found == (
                pb.FLUSH_REPLICA_TIMEOUT, official.SLAVE_PERSISTENCE_TIMEOUT, FLUSH_SLAVE_TIMEOUT,
            )  # fmt: skip
