"""What is on its way to official clients, all of them together."""

import asyncio
from typing import Any, cast

import pytest

from broker.rpc.pb import messaging_pb2 as pb
from broker.rpc.v2.client_stream import UNREAD_BYTES_MAX, UNREAD_MAX, ClientStream, Together
from broker.services.sessions.questions import PrintStack, Verify
from broker.services.transaction.transactions import Transactions
from tests.fakes.records import record

BODY_BYTES = UNREAD_BYTES_MAX // UNREAD_MAX


class Joined:
    """Transactions that ask nobody, and count who could be asked."""

    def __init__(self) -> None:
        self.count = 0

    def join(self, *_: Any) -> Any:
        self.count += 1

        def leave() -> None:
            self.count -= 1

        return leave


def stream_of(together: Together, joined: Joined) -> ClientStream:
    return ClientStream(cast(Transactions, joined), together, "", lambda _: True)


def verify() -> Verify:
    return Verify("nonce", record(0, bytes(BODY_BYTES)), "orders", "g")


@pytest.mark.parametrize("read", [0, 3])
async def test_what_a_stream_leaves_unread_counts_until_it_ends(read: int) -> None:
    together, joined = Together(), Joined()
    ended, other = stream_of(together, joined), stream_of(together, joined)
    ended.publish({"orders": pb.Resource(name="orders"), "paid": pb.Resource(name="paid")})
    for _ in range(UNREAD_MAX):
        assert ended.say(verify())
    assert not other.say(verify())
    for _ in range(read):
        assert await ended.following() is not None
    ended.end()
    assert (together.unread_bytes, together.topic_count, joined.count) == (0, 0, 0)
    assert other.say(verify())


async def test_what_is_small_or_was_not_taken_counts_for_nothing() -> None:
    together = Together()
    stream = stream_of(together, Joined())
    for _ in range(UNREAD_MAX):
        assert stream.say(PrintStack("nonce", "g"))
    assert not stream.say(verify())
    assert together.unread_bytes == 0


async def test_who_waits_for_room_goes_on_when_the_stream_ends() -> None:
    together = Together()
    stream = stream_of(together, Joined())
    for _ in range(UNREAD_MAX):
        assert stream.say(verify())
    waiting = asyncio.ensure_future(stream.answer(None))
    await asyncio.sleep(0)
    stream.end()
    await waiting
    assert together.unread_bytes == 0
