"""Acknowledgements with followers in sync: what precedes them, and what waits no longer."""

import asyncio
from pathlib import Path

import pytest

from pocketmq.model.batch import PutStatus
from pocketmq.model.errors import FollowersLate
from pocketmq.model.transaction import Resolution
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.pending_reply import PendingReply
from pocketmq.rpc.service import Shortcut
from pocketmq.services.replication.confirming import InSync
from pocketmq.services.replication.protocol import SlaveRefused
from tests.kit.slaves import Own, serving
from tests.kit.store_broker import CALL
from tests.kit.store_language import queue_bodies, store_at, turns, until
from tests.kit.transacting import TransactionDesk

pytestmark = pytest.mark.timeout(10)
LEGACY = InSync(2, counts_legacy=True)
OK, LATE = PutStatus.OK, PutStatus.FLUSH_REPLICA_TIMEOUT
ALONE = PutStatus.REPLICA_NOT_AVAILABLE


def pending(shortcut: Shortcut | None, raw: bytes) -> PendingReply:
    """Returns the reply to a plain send, which waits."""
    assert shortcut is not None
    waiting = shortcut(raw, CALL.peer_host, {"x-mq-client-id": "c"}.get)
    assert isinstance(waiting, PendingReply)
    return waiting


async def test_without_a_follower_a_message_is_still_on_disk_when_it_is_answered(
    tmp_path: Path,
) -> None:
    async with serving(LEGACY, flush="sync", directory=tmp_path / "s") as pair:
        await pair.broker.store.tables.topics.create("orders", queue_count=1)
        assert (await pair.broker.put("orders", b"a")).status is ALONE
        assert pair.broker.store.flushed == pair.broker.store.appended
        one = pb.SendMessageRequest(messages=[pb.Message(topic="orders", body=b"x")])
        await pending(pair.broker.methods["SendMessage"].shortcut, one.SerializeToString())
        assert pair.broker.store.flushed == pair.broker.store.appended


async def test_plain_sends_share_a_flush_and_then_wait_for_followers(tmp_path: Path) -> None:
    async with serving(LEGACY, flush="sync", directory=tmp_path / "s") as pair:
        slave = await pair.slave()
        await pair.broker.store.tables.topics.create("orders", queue_count=1)
        shortcut = pair.broker.methods["SendMessage"].shortcut
        one = pb.SendMessageRequest(messages=[pb.Message(topic="orders", body=b"x")])
        waiting = [pending(shortcut, one.SerializeToString()) for _ in range(5)]
        assert len({id(reply.group) for reply in waiting}) == 1
        replies = [asyncio.ensure_future(reply) for reply in waiting]
        end = pair.broker.store.appended
        await slave.take_upto(end)
        await until(lambda: pair.broker.store.flushed == end)
        await turns(5)
        assert not any(reply.done() for reply in replies)
        slave.report(end)
        for raw in await asyncio.gather(*replies):
            assert pb.SendMessageResponse.FromString(raw).results[0].status == pb.SEND_OK


@pytest.mark.parametrize("flush", ["sync", "async"])
async def test_consumers_see_nothing_that_no_follower_has(flush: str) -> None:
    async with serving(LEGACY, flush=flush) as pair:
        slave = await pair.slave()
        sending = await pair.send(b"a")
        end = pair.broker.store.appended
        await slave.take_upto(end)
        await turns(20)
        assert (queue_bodies(pair.broker.store, "orders"), pair.broker.store.dispatched) == ([], 0)
        slave.report(end)
        assert await sending is OK
        await until(lambda: pair.broker.store.dispatched == end)
        assert queue_bodies(pair.broker.store, "orders") == ["a"]


@pytest.mark.parametrize("flush", ["sync", "async"])
async def test_a_stop_acknowledges_nothing_that_waits(flush: str) -> None:
    async with serving(LEGACY, flush=flush) as pair:
        slave = await pair.slave()
        sending = await pair.send(b"a")
        await slave.take_upto(pair.broker.store.appended)
    assert await sending is not OK


async def test_a_start_continues_where_the_stop_was(tmp_path: Path) -> None:
    for number in range(2):
        async with store_at(tmp_path / "s", in_sync_replicas=2) as talking:
            result = await asyncio.wait_for(talking.send("orders", f"m{number}"), 5)
            assert result.queue_offset == number
            assert queue_bodies(talking.store, "orders") == []
            assert talking.store.writing.writer.next_offsets["orders", 0] == number + 1


@pytest.mark.parametrize("has_follower", [False, True])
async def test_the_end_of_a_transaction_waits_for_a_limited_time(has_follower: bool) -> None:
    async with serving(LEGACY, flush="sync") as pair:
        slave = await pair.slave() if has_follower else None
        desk = TransactionDesk(pair.broker.talking)
        putting = asyncio.create_task(desk.half("a"))
        await until(lambda: pair.broker.store.flushed == pair.broker.store.appended > 0)
        if slave is not None:
            await slave.copy_upto(pair.broker.store.appended)
        name, before = await putting, pair.broker.store.appended
        if slave is None:
            with pytest.raises(FollowersLate):
                await desk.decide(Resolution.COMMIT, name)
            return
        await until(lambda: pair.broker.store.dispatched == before)
        deciding = asyncio.ensure_future(desk.decide(Resolution.COMMIT, name))
        await until(lambda: pair.broker.store.appended > before)
        group = desk.transactions.flush_group().future
        await until(lambda: pair.broker.store.flushed == pair.broker.store.appended)
        await turns(5)
        assert (deciding.done(), group.done()) == (False, False)
        await pair.late()
        assert (await deciding, await group) == ([None], True)


async def test_own_followers_count_by_their_id_not_by_their_host() -> None:
    async with serving(InSync(3), flush="sync") as pair:
        one, again, other = (Own(pair, name, at) for at, name in enumerate("aab", 5000))
        sending = await pair.send(b"a")
        assert await sending is ALONE, "no report came yet"
        end = pair.broker.store.appended
        for each in (one, again):
            await each.take()
            each.report(end)
        assert (pair.leader.confirming.is_short, pair.visible) == (True, 0)
        await other.take()
        other.report(end)
        assert (pair.leader.confirming.is_short, pair.visible) == (False, end)
        for each in (one, again, other):
            pair.leader.disconnect(each.stream, "the test ends")
        assert pair.visible == end


async def test_an_own_follower_that_claims_more_than_it_was_sent_confirms_nothing() -> None:
    async with serving(InSync(2), flush="sync") as pair:
        liar = Own(pair, "a", 5000)
        assert await (await pair.send(b"a")) is ALONE
        with pytest.raises(SlaveRefused):
            liar.report(pair.broker.store.appended)
        assert pair.visible == 0
        pair.leader.disconnect(liar.stream, "it lies")


async def test_waits_for_marks_that_rarely_grow_do_not_add_up(tmp_path: Path) -> None:
    async with serving(InSync(2)) as pair:
        own = Own(pair, "a", 5000)
        arrived = pair.leader.tables.arrived
        await own.take()
        own.report(0)
        for number in range(20):
            sending = await pair.send(b"a")
            waking = asyncio.ensure_future(pair.leader.woken(own.stream))
            await asyncio.wait_for(waking, 5)
            await own.take()
            pair.leader.marks(own.stream)
            own.report(pair.broker.store.appended)
            assert await sending is OK
            assert arrived.waiter_count <= 1, number
        pair.leader.disconnect(own.stream, "the test ends")
