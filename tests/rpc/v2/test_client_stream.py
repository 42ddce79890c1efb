"""Limits of unread messages to official clients, over all clients together."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from pocketmq.model.access import Need
from pocketmq.model.errors import IllegalNumber, TooManyRequests
from pocketmq.model.transaction import Check
from pocketmq.rpc.call import May, anything
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v2.client_stream import UNREAD_BYTES_MAX, UNREAD_MAX, ClientStream, Together
from pocketmq.services.sessions.questions import PrintStack, Verify
from pocketmq.services.transaction.transactions import Transactions
from tests.kit.records import record

BODY_BYTES = UNREAD_BYTES_MAX // UNREAD_MAX


class Joined:
    """Transactions that check no producer, and count the producers that could be checked."""

    def __init__(self) -> None:
        self.count = 0
        self.offers: dict[str, Callable[[Check], bool]] = {}
        self.rooms: dict[str, Callable[[], int]] = {}

    def join(self, topic: str, offer: Callable[[Check], bool], room: Callable[[], int]) -> Any:
        self.count += 1
        self.offers[topic], self.rooms[topic] = offer, room

        def leave() -> None:
            self.count -= 1

        return leave

    def ask(self, topic: str, of: str = "") -> bool:
        """Offers a half message to a producer of a topic; returns whether it is asked about it."""
        return self.offers[topic](Check("id", topic, record(0, b"half"), 1, of))


def stream_of(together: Together, joined: Joined, may: May = anything) -> ClientStream:
    return ClientStream(cast(Transactions, joined), together, "", may)


def named(*topics: str) -> dict[str, pb.Resource]:
    return {topic: pb.Resource(name=topic) for topic in topics}


def numbered(count: int) -> dict[str, pb.Resource]:
    return named(*(f"t{number}" for number in range(count)))


def verify() -> Verify:
    return Verify("nonce", record(0, bytes(BODY_BYTES)), "orders", "g")


@pytest.mark.parametrize("read", [0, 3])
async def test_what_a_stream_leaves_unread_counts_until_it_ends(read: int) -> None:
    together, joined = Together(), Joined()
    ended, other = stream_of(together, joined), stream_of(together, joined)
    ended.publish(named("orders", "paid"))
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


async def test_sixteen_questions_wait_for_a_client_and_no_more() -> None:
    stream = stream_of(Together(), Joined())
    said = [stream.say(PrintStack("nonce", "g")) for _ in range(17)]
    assert said == [True] * 16 + [False]
    assert await stream.following() is not None
    assert stream.say(PrintStack("nonce", "g"))


async def test_32_mib_of_questions_wait_for_all_clients() -> None:
    together = Together()
    stream = stream_of(together, Joined())
    together.unread_bytes = 33_554_431
    assert stream.say(verify())
    together.unread_bytes = 33_554_432
    assert not stream.say(verify())
    assert stream.say(PrintStack("nonce", "g")), "it is small"


async def test_a_client_publishes_to_1024_topics_at_most() -> None:
    together, joined = Together(), Joined()
    stream = stream_of(together, joined)
    stream.publish(numbered(1_024))
    with pytest.raises(IllegalNumber, match="topics"):
        stream.publish(numbered(1_025))
    assert (together.topic_count, joined.count) == (1_024, 1_024)
    stream.publish(numbered(3))
    assert (together.topic_count, joined.count) == (3, 3)


async def test_all_clients_publish_to_100_000_topics_at_most() -> None:
    together, joined = Together(), Joined()
    one, other = stream_of(together, joined), stream_of(together, joined)
    together.topic_count = 99_999
    one.publish(named("orders"))
    with pytest.raises(TooManyRequests) as caught:
        other.publish(named("paid"))
    assert caught.value.limit == 100_000
    assert (together.topic_count, joined.count) == (100_000, 1)
    one.publish(named("billing"))
    assert (together.topic_count, joined.count) == (100_000, 1)
    one.publish({})
    other.publish(named("paid"))
    assert together.topic_count == 100_000


async def test_a_producer_is_asked_about_a_transaction_while_it_has_room() -> None:
    together, joined = Together(), Joined()
    stream = stream_of(together, joined)
    stream.publish({"shop%orders": pb.Resource(resource_namespace="shop", name="orders")})
    assert joined.rooms["shop%orders"]() == 16
    assert joined.ask("shop%orders")
    assert joined.rooms["shop%orders"]() == 15
    assert together.unread_bytes > 0
    command = await stream.following()
    assert command is not None
    asked = command.recover_orphaned_transaction_command
    assert (asked.transaction_id, asked.message.body) == ("id", b"half")
    assert (asked.message.topic.resource_namespace, asked.message.topic.name) == ("shop", "orders")
    assert together.unread_bytes == 0
    assert joined.rooms["shop%orders"]() == 16
    together.unread_bytes = UNREAD_BYTES_MAX
    assert joined.rooms["shop%orders"]() == 0


@pytest.mark.parametrize(
    ("of", "denied"), [("", "orders"), ("orders", "orders"), ("billing", "billing")]
)
async def test_who_may_not_publish_to_a_topic_is_not_asked_about_its_transactions(
    of: str, denied: str
) -> None:
    together, joined = Together(), Joined()
    stream = stream_of(together, joined, lambda need: need.name != denied)
    stream.publish(named("orders"))
    assert not joined.ask("orders", of)
    assert (together.unread_bytes, joined.rooms["orders"]()) == (0, 16)


async def test_what_a_client_may_no_longer_know_is_left_out_and_counts_no_more() -> None:
    together, joined = Together(), Joined()
    denied: set[str] = set()

    def may(need: Need) -> bool:
        return need.name not in denied

    stream = stream_of(together, joined, may)
    stream.publish(named("orders", "paid"))
    assert joined.ask("orders")
    assert joined.ask("paid")
    denied.add("orders")
    command = await stream.following()
    assert command is not None
    assert command.recover_orphaned_transaction_command.message.topic.name == "paid"
    assert together.unread_bytes == 0


async def test_what_waits_for_room_is_told_once_and_never_behind_the_end() -> None:
    stream = stream_of(Together(), Joined())
    told = [0]

    def settings() -> pb.TelemetryCommand:
        told[0] += 1
        return pb.TelemetryCommand(settings=pb.Settings())

    for _ in range(UNREAD_MAX):
        assert stream.say(PrintStack("nonce", "g"))
    stream.tell(settings)
    for _ in range(UNREAD_MAX):
        command = await stream.following()
        assert command is not None
        assert command.HasField("print_thread_stack_trace_command")
    command = await stream.following()
    assert command is not None
    assert command.HasField("settings")
    for _ in range(UNREAD_MAX):
        assert stream.say(PrintStack("nonce", "g"))
    stream.tell(settings)
    stream.end()
    await stream.answer(None)
    assert await stream.following() is None
    said = [stream.say(PrintStack("nonce", "g")) for _ in range(UNREAD_MAX)]
    assert all(said), "nothing else waits there"
    assert told == [1]


@pytest.mark.parametrize("how", ["read", "ended"])
async def test_a_client_is_read_no_further_before_it_has_its_answer(how: str) -> None:
    stream = stream_of(Together(), Joined())
    answer = pb.TelemetryCommand(settings=pb.Settings())
    waiting = asyncio.ensure_future(stream.answer(answer))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    if how == "read":
        assert await stream.following() is answer
    else:
        stream.end()
    await waiting
