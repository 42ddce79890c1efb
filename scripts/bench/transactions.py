"""Cost of transactions beside plain sends: half messages of 1 KiB, then committed.

In each round callers make plain sends, then half messages and their commits, to one broker, unary
and in batches. The benchmark checks that exactly the committed messages are stored.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import grpc

from bench.servers import ADMIN, ASYNC, BODY, BROKER, TOPIC, Server, broker_server, load
from harness.figures import Extent, Figure
from pocketmq.rpc.pb import admin_pb2
from pocketmq.rpc.pb import broker_pb2 as pb

GROUP: Final = "producers"
QUEUE_COUNT: Final = 8
CALLERS: Final = {1: 64, 32: 8}
"""Calls in flight by messages of a call."""
MESSAGES: Final = {1: 12_000, 32: 48_000}
OPEN: Final = 1_000_000
"""Undecided half messages whose memory is measured."""

Ask = Callable[[bytes], Awaitable[bytes]]


def transaction_figures(extent: Extent) -> list[Figure]:
    """Transactions ÷ plain sends, by time and by the broker's CPU time; memory of open ones."""
    figures = []
    with broker_server(ASYNC, "broker.check_message_types=false") as server:
        server.create_topics({TOPIC: QUEUE_COUNT})
        for batch in CALLERS:
            by_clock, by_cpu = [], []
            for _ in range(extent.rounds):
                count = extent.count(MESSAGES[batch]) // batch
                plain, ended = asyncio.run(_round(server, count, batch))
                by_clock.append(plain[0] / ended[0])
                by_cpu.append(plain[1] / ended[1])
            what = f"half and commit ÷ plain send, {batch} in a call"
            wanted = "≥ 0.35" if batch == 1 else ""
            figures += [
                Figure.of(f"transactions_{batch}", what, by_clock, "", wanted),
                Figure.of(f"transactions_{batch}_cpu", f"{what}, by CPU", by_cpu, ""),
            ]
    if extent.scale >= 1:  # With fewer messages noise dominates.
        with broker_server(ASYNC, "broker.check_message_types=false") as server:
            server.create_topics({TOPIC: QUEUE_COUNT})
            figures.append(_memory(server))
    return figures


async def _round(
    server: Server, count: int, batch: int
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Returns (seconds, CPU-seconds of the broker) of plain sends, and of transactions."""
    options = [("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(server.target, options=options) as channel:
        await channel.channel_ready()
        send: Ask = channel.unary_unary(BROKER + "SendMessage")
        end: Ask = channel.unary_unary(BROKER + "EndTransaction")
        plain, kept = _request(batch), _request(batch, transactional=True)

        async def transaction() -> None:
            answer = pb.SendMessageResponse.FromString(await send(kept))
            request = pb.EndTransactionRequest(group=GROUP)
            for result in answer.results:
                request.decisions.add(transaction_id=result.transaction_id, resolution=pb.COMMIT)
            ended = pb.EndTransactionResponse.FromString(await end(request.SerializeToString()))
            if any(row.status != pb.ENDED for row in ended.results):
                raise SystemExit(f"a transaction was not committed: {ended}")

        async def one_plain() -> None:
            await send(plain)

        found = []
        for one in (one_plain, transaction):
            before = server.topic_count(TOPIC)
            found.append(await _timed(server, one, count, CALLERS[batch]))
            server.check_stored({TOPIC: before + count * batch})
        return found[0], found[1]


async def _timed(
    server: Server, one: Callable[[], Awaitable[None]], count: int, callers: int
) -> tuple[float, float]:
    """Returns the seconds and CPU-seconds of `count` calls."""
    left = count
    loop = asyncio.get_running_loop()

    async def caller() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await one()

    begun, cpu = loop.time(), server.cpu_seconds
    await asyncio.gather(*(caller() for _ in range(callers)))
    return loop.time() - begun, server.cpu_seconds - cpu


def _request(batch: int, *, transactional: bool = False, body: bytes = BODY) -> bytes:
    group = GROUP if transactional else ""
    messages = [
        pb.Message(
            topic=TOPIC, body=body, tag="TagA", keys=[f"key-{number}"],
            transactional=transactional, producer_group=group,
        )
        for number in range(batch)
    ]  # fmt: skip
    return pb.SendMessageRequest(messages=messages).SerializeToString()


def _memory(server: Server) -> Figure:
    """Returns the memory growth of a fresh broker by transactions that are never ended."""
    count = OPEN // 100
    request = _request(100, transactional=True, body=b"x")
    load(server, BROKER + "SendMessage", request, in_flight=4, count=max(count // 20, 1))
    before = server.anonymous_mib()
    load(server, BROKER + "SendMessage", request, in_flight=4, count=count)
    server.catch_up()
    grown = server.anonymous_mib() - before
    listed = admin_pb2.ListTransactionsResponse.FromString(
        server.call(
            ADMIN + "ListTransactions", admin_pb2.ListTransactionsRequest(max=1).SerializeToString()
        )
    )
    if listed.open_count < count * 100:
        raise SystemExit(f"{listed.open_count} transactions are open, {count * 100} were left so")
    what = f"growth of RssAnon by {OPEN:,} open transactions"
    return Figure.of("transactions_open", what, [grown], "MiB")
