"""Cost of a send in the broker's process without transport, from request bytes to reply bytes.

The cost is the thread's processor time without dispatch. Shortcut and usual path alternate.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from time import thread_time
from typing import Final

from bench.peer.content import equal_contents, mixed_contents, v2_request
from bench.serving_inside import PEER, opened
from harness.figures import Extent, Figure, turns
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.pb import messaging_pb2
from pocketmq.rpc.v1.send_message import SendMessage, parse_send_request
from pocketmq.rpc.v2.send_message import SendMessageV2
from pocketmq.services.produce.send import Send

MESSAGES: Final = 4_000
"""Messages of each kind in a round."""
BURST: Final = 200
"""Messages in one iteration of the loop."""
REQUESTS: Final[dict[str, tuple[int, bool]]] = {
    "unary": (1, False),
    "batch_32": (32, False),
    "batch_100": (100, False),
    "mixed_32": (32, True),
    "mixed_100": (100, True),
}
"""(Messages of a request, whether they differ in size, keys, tags and ids) by name."""
OFFICIAL: Final = "v2"


Way = Callable[[bytes], bytes | Awaitable[bytes]]


def request_of(count: int, *, is_mixed: bool) -> bytes:
    """Returns a request of `count` messages: 1 KiB each with tag and key, or mixed."""
    chance = random.Random(count)
    messages = []
    for number in range(count):
        size = chance.choice((100, 512, 1024, 2048)) if is_mixed else 1024
        message = pb.Message(topic="bench", body=chance.randbytes(size), tag="TagA")
        message.keys.extend(f"key-{number}-{n}" for n in range(number % 3 if is_mixed else 1))
        if is_mixed and number % 2:
            message.tag = f"Tag{number % 5}"
            message.message_id = chance.randbytes(16).hex().upper()
        if is_mixed and number % 4 == 3:
            message.born_timestamp_ms = 1_795_000_000_000 + number
            message.born_host = "10.1.2.3:4567"
        messages.append(message)
    return pb.SendMessageRequest(messages=messages).SerializeToString()


def sending_figures(extent: Extent) -> list[Figure]:
    """Returns microseconds of processor time a message, by kind of request and path."""
    return asyncio.run(_figures(extent))


async def _figures(extent: Extent) -> list[Figure]:
    taken: dict[tuple[str, str], list[float]] = {}
    async with opened() as (store, send):
        await store.tables.topics.create("bench", queue_count=8)
        ways = _own_ways(send) | _official_ways(send)
        for number in range(extent.rounds + 1):  # The first round is a warm-up.
            for name, way in turns([(n, w) for n in REQUESTS for w in ways], number):
                count, is_mixed = REQUESTS[name]
                if way.startswith(OFFICIAL):
                    raw = v2_request((mixed_contents if is_mixed else equal_contents)(count))
                else:
                    raw = request_of(count, is_mixed=is_mixed)
                seconds = await _seconds(ways[way], raw, count, extent.count(MESSAGES))
                taken.setdefault((name, way), []).append(seconds * 1e6)
    return [
        Figure.of(
            f"{name}_{way.replace(' ', '_')}",
            f"{name.replace('_', ' ')}, {way} way, a message",
            us[1:],
            "µs",
        )
        for (name, way), us in sorted(taken.items())
    ]


def _own_ways(send: Send) -> dict[str, Way]:
    """Returns the paths of pocketmq.v1 requests, by name."""
    method = SendMessage(send)

    async def usual(raw: bytes) -> bytes:
        return await method(parse_send_request(raw), PEER)

    def shortcut(raw: bytes) -> bytes | Awaitable[bytes]:
        # The next file may not be allocated yet.
        return method.shortcut(raw, PEER.peer_host, PEER.metadata) or usual(raw)

    return {"shortcut": shortcut, "usual": usual}


def _official_ways(send: Send) -> dict[str, Way]:
    """Returns the paths of apache.rocketmq.v2 requests, by name."""
    method = SendMessageV2(send)

    async def usual(raw: bytes) -> bytes:
        request = messaging_pb2.SendMessageRequest.FromString(raw)
        return (await method.send_message(request, PEER)).SerializeToString()

    def shortcut(raw: bytes) -> bytes | Awaitable[bytes]:
        return method.shortcut(raw, PEER.peer_host, PEER.metadata) or usual(raw)

    return {f"{OFFICIAL} shortcut": shortcut, f"{OFFICIAL} usual": usual}


async def _seconds(send: Way, raw: bytes, count: int, message_count: int) -> float:
    """Returns the processor time of a message; the log is dispatched between bursts."""
    taken, left = 0.0, max(message_count // count, 1)
    sent = left * count
    while left:
        burst = min(max(BURST // count, 1), left)
        left -= burst
        begun = thread_time()
        for _ in range(burst):
            reply = send(raw)
            if not isinstance(reply, bytes):
                await reply
        taken += thread_time() - begun
        await asyncio.sleep(0.002)
    return taken / sent
