"""The strategies of the battery `greedy`: ways in which one user exhausts a broker's resources.

    python -m torture.greedy_ways NAME ENDPOINT HTTP SECONDS

Each strategy is a coroutine that runs until it is cancelled. Refusals and lost connections are
expected and do not end it. The user `greedy` has all permissions for the topics and groups whose
names begin with `mine`, except their deletion.
"""

import asyncio
import json
import socket
import sys
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from itertools import count
from time import time
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from pocketmq.format.signature import AUTHORIZATION_KEY, DATE_KEY, authorization_of, date_from_ms
from pocketmq.rpc.pb import admin_pb2 as admin
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.pb import messaging_pb2 as v2
from tests.kit.raw_http2 import CONTINUATION, RawClient

USER: Final = "greedy"
SECRET: Final = "a-secret-of-the-greedy"
MINE: Final = "mine"
GROUP: Final = "mine-group"
BROKER: Final = "pocketmq.v1.Broker"
ADMIN: Final = "pocketmq.v1.Admin"
SEND: Final = f"{BROKER}/SendMessage"
V2: Final = "apache.rocketmq.v2.MessagingService"
CONNECTIONS: Final = 8
WAIT_MS: Final = 30_000
TOLD_S: Final = 0.25
PAUSE_S: Final = 0.01
"""Pause after a refused call, so that the attacker's processor is not the bottleneck."""
OPTIONS: Final = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)
TOPIC: Final = v2.Resource(name=MINE)
BOMB: Final = zlib.compress(bytes(48 << 20), 9)
LIKES: Final = " AND ".join(f"p LIKE '%{number % 10}_x_%_'" for number in range(60))

Loop = Callable[[], Awaitable[Any]]


def signed(key: str = USER, secret: str = SECRET) -> list[tuple[str, str]]:
    """Returns the metadata of a signed call."""
    date = date_from_ms(int(time() * 1000))
    return [(AUTHORIZATION_KEY, authorization_of(key, secret, date)), (DATE_KEY, date)]


class Greedy:
    """The greedy user: its connections, and the outcomes of its calls."""

    def __init__(self, endpoint: str, http: str) -> None:
        self.endpoint = endpoint
        self.http = http
        self.ends: Counter[str] = Counter()
        self.numbers = count()
        self.kept: list[Any] = []
        self._channels = [grpc.aio.insecure_channel(endpoint, OPTIONS) for _ in range(CONNECTIONS)]

    async def ask(
        self, path: str, request: Message, client_id: str = "greedy", wait_s: float = 60.0
    ) -> bytes:
        """Makes a unary call; returns its reply, b"" if it fails."""
        return await self._ended(self._unary(path)(request, **self._given(client_id, wait_s)))

    async def v1(self, name: str, request: Message) -> bytes:
        """Calls a method of pocketmq.v1.Broker; returns its reply."""
        return await self.ask(f"{BROKER}/{name}", request)

    async def admin(self, name: str, request: Message) -> bytes:
        """Calls an admin method; returns its reply."""
        return await self.ask(f"{ADMIN}/{name}", request)

    async def stream(
        self, name: str, requests: AsyncIterator[Message], client_id: str
    ) -> None:  # fmt: skip
        """Keeps a stream of RocketMQ's protocol open until its requests end."""
        make: Any = self._channel().stream_stream(
            f"/{V2}/{name}", request_serializer=_raw, response_deserializer=None
        )
        with suppress(grpc.aio.AioRpcError):
            async for _ in make(requests, **self._given(client_id, 60.0)):
                self.ends["answers"] += 1
        self.ends["streams"] += 1

    async def receive_v2(self, request: Message, client_id: str) -> None:
        """Receives as RocketMQ's clients do."""
        make: Any = self._channel().unary_stream(
            f"/{V2}/ReceiveMessage", request_serializer=_raw, response_deserializer=None
        )
        with suppress(grpc.aio.AioRpcError):
            async for _ in make(request, **self._given(client_id, 60.0)):
                self.ends["answers"] += 1

    def _given(self, client_id: str, wait_s: float) -> dict[str, Any]:
        named = [("x-mq-client-id", client_id), ("x-mq-language", "PYTHON")]
        return {"metadata": [*signed(), *named], "timeout": wait_s}

    def _channel(self) -> Any:
        return self._channels[next(self.numbers) % CONNECTIONS]

    def _unary(self, path: str) -> Any:
        return self._channel().unary_unary(
            f"/{path}", request_serializer=_raw, response_deserializer=None
        )

    async def _ended(self, call: Any) -> bytes:
        try:
            answer: bytes = await call
        except grpc.aio.AioRpcError as error:
            self.ends[error.code().name] += 1
            await asyncio.sleep(PAUSE_S)
            return b""
        self.ends["OK"] += 1
        return answer

    async def crowd(self, size: int, work: Loop) -> None:
        """Repeats the same work in `size` concurrent tasks."""

        async def work_on() -> None:
            while True:
                await work()

        await asyncio.gather(*[work_on() for _ in range(size)])

    async def send(self, size: int = 1, **fields: Any) -> bytes:
        """Sends `size` messages in one call, by default to the user's topic."""
        return await self.ask(SEND, _sent(size, **fields))

    def socket(self) -> socket.socket:
        """Returns a non-blocking TCP connection."""
        host, _, port = self.endpoint.rpartition(":")
        made = socket.create_connection((host, int(port)), timeout=5)
        made.setblocking(False)
        return made

    def peer(self) -> RawClient:
        """Returns an HTTP/2 connection that may violate the protocol."""
        return RawClient(self.endpoint).__enter__()


def _sent(size: int = 1, **fields: Any) -> Message:
    message = pb.Message(**{"topic": MINE, "body": b"x", **fields})
    return pb.SendMessageRequest(messages=[message] * size)


def _raw(request: Message) -> bytes:
    return request.SerializeToString()


def _settings(topics: int = 1, group: str = GROUP) -> v2.TelemetryCommand:
    entries = [v2.SubscriptionEntry(topic=TOPIC) for _ in range(topics)]
    subscription = v2.Subscription(group=v2.Resource(name=group), subscriptions=entries)
    return v2.TelemetryCommand(
        settings=v2.Settings(client_type=v2.PUSH_CONSUMER, subscription=subscription)
    )


async def _silent(*commands: Message) -> AsyncIterator[Message]:
    for command in commands:
        yield command
    await asyncio.Event().wait()


async def _churning(make: Callable[[], Message]) -> AsyncIterator[Message]:
    while True:
        yield make()
        await asyncio.sleep(0)


Way = Callable[[Greedy], Awaitable[None]]


# -- what waits ------------------------------------------------------------------------------------
async def parked_filters(one: Greedy) -> None:
    """Parked pulls with different filters, while messages arrive that match none."""

    def request() -> Message:
        sql = f"p = {next(one.numbers)} AND {LIKES}"
        filter_ = pb.Filter(kind=pb.Filter.SQL, expression=sql)
        return pb.PullMessageRequest(topic=MINE, offset=1 << 40, wait_ms=WAIT_MS, filter=filter_)

    await asyncio.gather(
        one.crowd(2_000, lambda: one.v1("PullMessage", request())),
        one.crowd(4, lambda: one.send(32, properties={"p": "x" * 200})),
    )


async def official_receives(one: Greedy) -> None:
    """Parked receives of RocketMQ's protocol, each from another client."""
    queue = v2.MessageQueue(topic=v2.Resource(name="mine-idle"))
    request = v2.ReceiveMessageRequest(
        group=v2.Resource(name="mine-idle"), message_queue=queue, batch_size=32, auto_renew=True
    )
    request.long_polling_timeout.FromMilliseconds(WAIT_MS)
    await one.crowd(4_000, lambda: one.receive_v2(request, f"greedy@{next(one.numbers)}"))


# -- sessions --------------------------------------------------------------------------------------
async def telemetry_streams(one: Greedy) -> None:
    """Telemetry streams of 4,000 clients, kept open."""
    await one.crowd(
        4_000, lambda: one.stream("Telemetry", _silent(_settings()), f"g@{next(one.numbers)}")
    )


async def settings_churn(one: Greedy) -> None:
    """Repeated settings with 50 topics, on 16 streams."""
    await one.crowd(
        16, lambda: one.stream("Telemetry", _churning(lambda: _settings(50)), "greedy@churn")
    )


async def huge_settings(one: Greedy) -> None:
    """Settings of 4 MiB with very many subscriptions."""
    entry = v2.SubscriptionEntry(topic=TOPIC)
    raw = v2.Subscription(subscriptions=[entry]).SerializeToString() * (4_000_000 // 10)
    command = _settings(0)
    command.settings.subscription.MergeFromString(raw)
    await one.crowd(2, lambda: one.stream("Telemetry", _silent(command), "greedy@huge"))


async def heartbeats(one: Greedy) -> None:
    """Heartbeats of ever more clients."""
    request = v2.HeartbeatRequest(group=v2.Resource(name=GROUP), client_type=v2.PUSH_CONSUMER)
    await one.crowd(64, lambda: one.ask(f"{V2}/Heartbeat", request, f"greedy@{next(one.numbers)}"))


async def stack_prints(one: Greedy) -> None:
    """Requests for a stack trace to one of the user's clients, which never replies."""
    request = admin.PrintClientStackRequest(group=GROUP, client_id="g@silent", wait_ms=WAIT_MS)
    await asyncio.gather(
        one.stream("Telemetry", _silent(_settings()), "g@silent"),
        one.crowd(400, lambda: one.admin("PrintClientStack", request)),
    )


async def verifications(one: Greedy) -> None:
    """Requests to such a client to consume a message directly."""
    key = "0A000001000000010000000000000001"
    await one.send(message_id=key, body=bytes(100_000))
    request = admin.VerifyMessageRequest(
        group=GROUP, client_id="g@silent", topic=MINE, message_id=key, wait_ms=WAIT_MS
    )
    await asyncio.gather(
        one.stream("Telemetry", _silent(_settings()), "g@silent"),
        one.crowd(400, lambda: one.admin("VerifyMessage", request)),
    )


# -- connections -----------------------------------------------------------------------------------
async def _opened(one: Greedy, first: bytes, pause_s: float, kept_max: int) -> None:
    while True:
        with suppress(OSError):
            made = one.socket()
            made.send(first)
            one.kept.append(made)
            one.ends["opened"] += 1
        for old in one.kept[:-kept_max]:
            old.close()
        del one.kept[:-kept_max]
        await asyncio.sleep(pause_s)


async def half_handshakes(one: Greedy) -> None:
    """Connections that begin a TLS handshake, 500 a second."""
    await _opened(one, b"\x16\x03\x01\x02\x00\x01", 0.002, 800)


async def silent_connections(one: Greedy) -> None:
    """Connections that send nothing."""
    await _opened(one, b"", 0.001, 900)


async def idle_connections(one: Greedy) -> None:
    """HTTP/2 connections without calls."""
    await _opened(
        one, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5), 0.001, 900
    )


async def huge_headers(one: Greedy) -> None:
    """HEADERS that never end a call, on many connections."""
    filler = [(f"x-{number}", "v" * 100) for number in range(60)]
    while True:
        with suppress(OSError, ConnectionError):
            peer = one.peer()
            one.kept.append(peer)
            for _ in range(90):
                peer.call(f"{BROKER}/SendMessage", filler, flush=False)
            peer.flush()
            one.ends["connections"] += 1
        for old in one.kept[:-60]:
            old.socket.close()
        del one.kept[:-60]
        await asyncio.sleep(0.05)


async def resets(one: Greedy) -> None:
    """Calls that are reset as soon as they have begun."""
    request = pb.PullMessageRequest(topic="mine-idle", wait_ms=WAIT_MS).SerializeToString()
    while True:
        with suppress(OSError, Exception):
            peer = one.peer()
            for _ in range(5_000):
                stream = peer.call(f"{BROKER}/PullMessage", signed(), flush=False)
                peer.message(stream, request)
                peer.http2.reset_stream(stream)
                peer.flush()
                one.ends["resets"] += 1
                if not stream % 64:
                    await asyncio.sleep(0)
        await asyncio.sleep(PAUSE_S)


async def continuations(one: Greedy) -> None:
    """Header blocks with endless CONTINUATION frames."""
    while True:
        with suppress(OSError, ConnectionError):
            peer = one.peer()
            peer.socket.sendall(b"\0\0\1\1\0" + (1).to_bytes(4, "big") + b"\x82")
            for _ in range(2_000):
                head = (16_000).to_bytes(3, "big") + bytes((CONTINUATION, 0))
                peer.socket.sendall(head + (1).to_bytes(4, "big") + bytes(16_000))
            one.ends["blocks"] += 1
        await asyncio.sleep(PAUSE_S)


async def slow_reads(one: Greedy) -> None:
    """Large replies that the client never reads."""
    for _ in range(20):
        await one.send(body=bytes(3 << 20))
    request = pb.PullMessageRequest(topic=MINE, max_messages=32, max_bytes=15 << 20)
    raw = request.SerializeToString()
    while True:
        with suppress(OSError, Exception):
            peer = one.peer()
            one.kept.append(peer)
            for _ in range(16):
                peer.message(peer.call(f"{BROKER}/PullMessage", signed()), raw)
            one.ends["connections"] += 1
        for old in one.kept[:-100]:
            old.socket.close()
        del one.kept[:-100]
        await asyncio.sleep(0.02)


async def unfinished_sends(one: Greedy) -> None:
    """Requests of 16 MiB that stop before their end."""
    while True:
        with suppress(OSError, Exception):
            peer = one.peer()
            one.kept.append(peer)
            for _ in range(100):
                stream = peer.call(f"{BROKER}/SendMessage", signed(), flush=False)
                peer.push(stream, 60_000)
            one.ends["connections"] += 1
        for old in one.kept[:-100]:
            old.socket.close()
        del one.kept[:-100]
        await asyncio.sleep(0.02)


async def scrapes(one: Greedy) -> None:
    """Pages of metrics, 16 at once."""
    host, _, port = one.http.rpartition(":")

    async def scrape() -> None:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            one.ends["bytes"] += len(await reader.read())
            writer.close()
        await asyncio.sleep(PAUSE_S)

    for number in range(300):
        await one.admin("CreateTopic", admin.CreateTopicRequest(name=f"mine-{number}"))
    await one.crowd(16, scrape)


# -- work ------------------------------------------------------------------------------------------
async def like_bombs(one: Greedy) -> None:
    """SQL filters with many LIKE terms over long properties."""
    for _ in range(30):
        await one.send(16, properties={"p": "x" * 30_000})
    filter_ = pb.Filter(kind=pb.Filter.SQL, expression=LIKES)
    request = pb.PullMessageRequest(topic=MINE, max_messages=1024, filter=filter_)
    await one.crowd(32, lambda: one.v1("PullMessage", request))


async def compressed_queries(one: Greedy) -> None:
    """Queries of compressed bodies that are much larger when decompressed."""
    await _bombs(one)
    request = pb.QueryByKeyRequest(topic=MINE, key="bomb")
    await one.crowd(4, lambda: one.v1("QueryByKey", request))


async def compressed_receives(one: Greedy) -> None:
    """Receives of compressed bodies that are much larger when decompressed."""
    await _bombs(one)
    request = pb.ReceiveRequest(group=GROUP, topic=MINE, max_messages=32, invisible_ms=1_000)
    await one.crowd(4, lambda: one.v1("Receive", request))


async def _bombs(one: Greedy) -> None:
    properties = v2.SystemProperties(keys=["bomb"], body_encoding=v2.GZIP)
    for number in range(64):
        properties.message_id = f"{number:032X}"
        sent = v2.Message(topic=TOPIC, body=BOMB, system_properties=properties)
        await one.ask(f"{V2}/SendMessage", v2.SendMessageRequest(messages=[sent]))


async def one_slot(one: Greedy) -> None:
    """Keys that all are in one hash chain of the index, and queries of them."""
    await asyncio.gather(
        one.crowd(8, lambda: one.send(32, keys=[f"{'Aa' * 8}{'BB' * 8}"] * 1)),
        one.crowd(32, lambda: one.v1("QueryByKey", pb.QueryByKeyRequest(topic=MINE, key="AaBB"))),
    )


async def key_queries(one: Greedy) -> None:
    """Queries by a key that thousands of messages have, 300 at once."""
    for _ in range(60):
        await one.send(64, keys=["k"])
    request = pb.QueryByKeyRequest(topic=MINE, key="k")
    await one.crowd(300, lambda: one.v1("QueryByKey", request))


async def traces(one: Greedy) -> None:
    """Traces of a message that was sent thousands of times."""
    key = "0A000001000000010000000000000002"
    for _ in range(70):
        await one.send(64, message_id=key)
    for number in range(500):
        request = pb.CommitOffsetRequest(group=f"mine-{number}", topic=MINE, offset=1)
        await one.v1("CommitOffset", request)
    await one.crowd(
        8, lambda: one.admin("TraceMessage", admin.TraceMessageRequest(id=key, topic=MINE))
    )


async def renewals(one: Greedy) -> None:
    """Leases that are renewed repeatedly."""
    for _ in range(30):
        await one.send(64)

    async def renew() -> None:
        request = pb.ReceiveRequest(group=GROUP, topic=MINE, max_messages=32, invisible_ms=20_000)
        answer = pb.ReceiveResponse.FromString(await one.v1("Receive", request))
        entries = [
            pb.ChangeInvisibleRequest.Entry(receipt_handle=handle, invisible_ms=20_000)
            for handle in answer.receipt_handles
        ]
        for _ in range(200):
            changed = pb.ChangeInvisibleRequest(group=GROUP, topic=MINE, entries=entries)
            raw = await one.v1("ChangeInvisible", changed)
            results = pb.ChangeInvisibleResponse.FromString(raw).results
            entries = [
                pb.ChangeInvisibleRequest.Entry(receipt_handle=made, invisible_ms=20_000)
                for made in (result.receipt_handle for result in results)
                if made
            ]
            if not entries:
                break

    await one.crowd(16, renew)


async def looks(one: Greedy) -> None:
    """All reading admin calls."""
    await asyncio.gather(
        one.crowd(40, lambda: one.admin("TopicStats", admin.TopicStatsRequest(name=MINE))),
        one.crowd(40, lambda: one.admin("GroupLag", admin.GroupLagRequest(group=GROUP))),
        one.crowd(
            40, lambda: one.admin("ListDelayed", admin.ListDelayedRequest(topic="mine-later"))
        ),
    )


def repeated(size: int, path: str, make: Callable[[int], Message]) -> Way:
    """Returns a strategy that repeats requests made from numbers, `size` at once."""

    async def way(one: Greedy) -> None:
        await one.crowd(size, lambda: one.ask(path, make(next(one.numbers))))

    return way


def _many_terms(number: int) -> Message:
    terms = " OR ".join(f"p{n} = '{number}'" for n in range(60))
    filter_ = pb.Filter(kind=pb.Filter.SQL, expression=terms)
    return pb.PullMessageRequest(topic=MINE, filter=filter_)


def _far(number: int) -> Message:
    at_ms = int(time() * 1000) + number % 20 * 3_600_000
    return _sent(32, topic="mine-later", deliver_at_ms=at_ms)


WAYS: Final[dict[str, Way]] = {
    "parked receives": repeated(12_000, f"{BROKER}/Receive", lambda _: pb.ReceiveRequest(
        group="mine-idle", topic="mine-idle", wait_ms=WAIT_MS)),
    "parked pulls": repeated(12_000, f"{BROKER}/PullMessage", lambda _: pb.PullMessageRequest(
        topic="mine-idle", offset=0, wait_ms=WAIT_MS)),
    # Producers that wait for checks of transactions.
    "check polls": repeated(12_000, f"{BROKER}/CheckTransactions", lambda _:
        pb.CheckTransactionsRequest(group=MINE, client_id="greedy", wait_ms=WAIT_MS)),
    "many filters": repeated(32, f"{BROKER}/PullMessage", _many_terms),
    "topic creation": repeated(16, f"{ADMIN}/CreateTopic", lambda number:
        admin.CreateTopicRequest(name=f"mine-{number}", queue_count=64)),
    "topics by send": repeated(16, SEND, lambda number: _sent(topic=f"mine-{number}")),
    "groups by receive": repeated(32, f"{BROKER}/Receive", lambda number:
        pb.ReceiveRequest(group=f"mine-{number}", topic=MINE)),
    "groups by offset": repeated(32, f"{BROKER}/CommitOffset", lambda number:
        pb.CommitOffsetRequest(group=f"mine-{number}", topic=MINE, queue_id=number % 8)),
    "far delays": repeated(16, SEND, _far),
    "open transactions": repeated(32, SEND, lambda _:
        _sent(topic="mine-half", transactional=True, first_check_ms=1_000)),
    "large sends": repeated(8, SEND, lambda _: _sent(body=bytes(4_000_000))),
    "small sends": repeated(2_000, SEND, lambda _: _sent()),
    # Requests that cannot be parsed.
    "bad requests": repeated(64, SEND, lambda _: admin.TopicStatsRequest(name="x")),
    **{
        way.__name__.replace("_", " "): way
        for way in (
            parked_filters, official_receives, telemetry_streams, settings_churn, huge_settings,
            heartbeats, stack_prints, verifications, half_handshakes, silent_connections,
            idle_connections, huge_headers, resets, continuations, slow_reads, unfinished_sends,
            scrapes, like_bombs, compressed_queries, compressed_receives, one_slot, key_queries,
            traces, renewals, looks,
        )
    },
}  # fmt: skip


async def _attack(name: str, endpoint: str, http: str, seconds: float) -> None:
    one = Greedy(endpoint, http)
    telling = asyncio.create_task(_tell(one))
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await WAYS[name](one)
    telling.cancel()


async def _tell(one: Greedy) -> None:
    while True:
        print(json.dumps(one.ends), flush=True)
        await asyncio.sleep(TOLD_S)


def main() -> None:
    """Attacks for the given seconds, and prints the outcomes of the calls so far repeatedly."""
    name, endpoint, http, seconds = sys.argv[1:]
    asyncio.run(_attack(name, endpoint, http, float(seconds)))


if __name__ == "__main__":
    main()
