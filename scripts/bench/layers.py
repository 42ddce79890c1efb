"""Processor time of a unary send by layer, in one process and without sockets.

A connection receives reads of eight calls of 1 KiB each. Each figure adds a layer below it, so the
difference of two figures is the cost of a layer:

    wire        HTTP/2 and gRPC: bytes in, bytes out
    call        serving a call; the method returns the same bytes each time
    send        rules, record, log, reply; the pages are prefaulted
    dispatch    queues and index
"""

import asyncio
import gc
import random
from collections.abc import Callable
from dataclasses import replace
from time import thread_time
from typing import Any
from unittest.mock import Mock

from bench.serving_inside import HOST, opened
from bench.wire import Calls
from harness.figures import Extent, Figure
from pocketmq.rpc.own.connection import Http2Connection
from pocketmq.rpc.own.server_state import ServerState
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.service import Service, Shortcut
from pocketmq.rpc.serving import Serving
from pocketmq.rpc.v1.send_message import SendMessage, parse_send_request
from pocketmq.rpc.v1.service_table import BROKER_TABLE
from pocketmq.store.message_store import MessageStore

CALLS = 20_000
PER_READ = 8
TURN_READS = 8
"""Reads in one iteration of the loop, as from eight connections."""
PATH = b"/pocketmq.v1.Broker/SendMessage"


class _Sink:
    """A transport that discards all written bytes."""

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        """Ignores the limits."""

    def get_write_buffer_size(self) -> int:
        """Returns that the buffer is empty."""
        return 0

    def is_closing(self) -> bool:
        """Returns that the transport is open."""
        return False

    def write(self, data: bytes) -> None:
        """Discards the bytes."""

    def pause_reading(self) -> None:
        """Does not pause."""

    resume_reading = pause_reading


def layer_figures(extent: Extent) -> list[Figure]:
    """Microseconds of processor time of the loop's thread for a call, layer by layer."""
    found: dict[str, list[float]] = {"wire": [], "call": [], "send": [], "dispatch": []}
    for _ in range(extent.rounds):
        for name, us in asyncio.run(_round()).items():
            found[name].append(us)
    return [Figure.of("layers", f"a unary send of 1 KiB, up to {n}", us, "µs", "≤ 2.5" if
                      n == "dispatch" else "") for n, us in found.items()]  # fmt: skip


async def _round() -> dict[str, float]:
    message = pb.Message(topic="bench", body=random.Random(1).randbytes(1024), tag="TagA")
    message.keys.append("key-1")
    request = pb.SendMessageRequest(messages=[message]).SerializeToString()
    calls = Calls(request, PATH)
    reads = calls.reads(CALLS, PER_READ)
    answer = bytes(110)
    spent = {"wire": calls.wire_us(reads, answer)}
    async with opened() as (store, sender):
        send = SendMessage(sender)
        nothing = _service(send, lambda raw, host, metadata: answer)
        spent["call"] = await _served_us(nothing, calls.preface, reads)
        service = _service(send)
        await sender.send(parse_send_request(request), HOST)  # Creates the topic.
        await _until_dispatched(store)
        gc.collect()
        gc.freeze()  # As a serving broker does.
        for name, dispatch in (("send", False), ("dispatch", True)):
            spent[name] = await _served_us(
                service, calls.preface, reads, store if dispatch else None
            )
            await _until_dispatched(store)
    return spent


def _service(send: SendMessage, shortcut: Shortcut | None = None) -> Service:
    """Returns a service with one method; `shortcut` is its fast path."""
    service = BROKER_TABLE.face(Mock(send_message=send))
    (row,) = (one for one in service.methods if one.name == "SendMessage")
    row = replace(row, shortcut=shortcut or row.shortcut)
    return replace(service, methods=(row,))


async def _served_us(
    service: Service, preface: bytes, reads: list[bytes], store: MessageStore | None = None
) -> float:
    """Returns what a call costs; dispatch counts where a store is given."""
    serving = Serving([service])
    serving.show_ready(True)
    connection = Http2Connection(
        ServerState(asyncio.get_running_loop(), serving), "ipv4:127.0.0.1:9"
    )
    sink: Any = _Sink()
    connection.connection_made(sink)
    connection.data_received(preface)
    take: Callable[[bytes], None] = connection.data_received
    spent = 0.0
    for begin in range(0, len(reads), TURN_READS):
        some = reads[begin : begin + TURN_READS]
        begun = thread_time()
        for read in some:
            take(read)
        if store is None:
            spent += thread_time() - begun
            await asyncio.sleep(0)
        else:
            await asyncio.sleep(0)
            spent += thread_time() - begun
    if store is not None:
        begun = thread_time()
        await _until_dispatched(store)
        spent += thread_time() - begun
    await asyncio.sleep(0.05)  # What had to wait for its turn, where the sources run.
    assert connection.is_open
    assert not connection.is_busy, "all calls were answered"
    return spent / (len(reads) * PER_READ) * 1e6


async def _until_dispatched(store: MessageStore) -> None:
    await store.marks.dispatched.reached(store.appended)
