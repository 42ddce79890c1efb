"""Figures that need the store in the measuring process: dispatch lag, hot functions."""

import asyncio
import random
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Final

import numpy as np

from bench.serving_inside import HOST, batch_like, opened
from pocketmq.format.columns.texts import hash_texts
from pocketmq.format.index_entries import index_entries, link_entries
from pocketmq.format.index_layout import STYLE_5_5
from pocketmq.format.java_hash import java_hashes
from pocketmq.format.record import encode_records, record_sizes
from pocketmq.model.batch import Batch, Destination, PutResult, PutStatus, Written
from pocketmq.model.reading import ReadRange
from pocketmq.rpc.codec.stored_messages import MessageWriter
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.v1.send_message import drafts_of, parse_send_request
from pocketmq.rpc.v1.send_reply import encode_sent
from pocketmq.services.produce.send import Sent

BATCH = 100
TURN_SECONDS = 0.0005
"""Least time of a transport between two batches: the cost of a bare grpc.aio call."""


def lag_p99_ms(seconds: float) -> float:
    """Returns the p99 of the time from the append of a batch's last record to its dispatch."""
    return asyncio.run(_lag(seconds))


async def _lag(seconds: float) -> float:
    async with opened() as (store, send):
        body = random.Random(2).randbytes(1024)
        drafts = drafts_of(_request(body))._replace(wait=False)
        waiting: list[tuple[int, float]] = []
        lags: list[float] = []
        end = perf_counter() + seconds
        while perf_counter() < end:
            sent = await send.send(drafts, HOST)
            now = perf_counter()
            waiting.append((sent.result.physical_offsets[-1], now))
            await asyncio.sleep(TURN_SECONDS)
            now = perf_counter()
            while waiting and waiting[0][0] < store.dispatched:
                lags.append(now - waiting.pop(0)[1])
    lags.sort()
    return 1000 * lags[len(lags) * 99 // 100]


def _request(body: bytes) -> pb.SendMessageRequest:
    messages = [
        pb.Message(topic="bench", body=body, tag="TagA", keys=[f"key-{n}"]) for n in range(BATCH)
    ]
    return pb.SendMessageRequest(messages=messages)


def encode_records_us() -> float:
    """Returns the microseconds encode_records takes for one record of 1 KiB in a batch of 100."""
    body, block = random.Random(3).randbytes(1024), b"x" * 150
    batch, destination = _same(BATCH, body, block), Destination("bench", 0, HOST)
    sizes = record_sizes(destination, batch)
    encode = partial(encode_records, queue_offset=0, physical_offset=0, store_timestamp_ms=0)
    return _us(200, BATCH, lambda: encode(destination, batch, sizes))


def _same(count: int, body: bytes, block: bytes) -> Batch:
    return batch_like(body, [block] * count, ["id"] * count, ["key"] * count)


def _us(rounds: int, each: int, work: Callable[[], object]) -> float:
    """Returns the microseconds of one item, if `work` processes `each` items."""
    begun = perf_counter()
    for _ in range(rounds):
        work()
    return (perf_counter() - begun) / rounds / each * 1e6


def parse_send_request_us() -> float:
    """Returns the microseconds parsing takes for a message with a tag and a key out of 100."""
    raw = _request(bytes(1024)).SerializeToString()
    return _us(200, BATCH, lambda: parse_send_request(raw))


def encode_sent_us() -> float:
    """Returns the microseconds encode_sent takes for one result out of 100."""
    ids, places = [f"{number:032X}" for number in range(BATCH)], list(range(0, BATCH * 1300, 1300))
    result = PutResult(PutStatus.OK, places, 1_000, 1_790_000_000_000, BATCH * 1300)
    sent = Sent(Destination("bench", 3, HOST), ids, result)
    return _us(200, BATCH, lambda: encode_sent(sent))


def stored_messages_us() -> float:
    """Returns the microseconds MessageWriter takes for a record of 1 KiB with seven properties."""
    block = b"".join(
        name + b"\x01" + value + b"\x02"
        for name, value in (
            (b"UNIQ_KEY", b"7F00000157557DF0BE0A67EA4D230002"), (b"KEYS", b"key"),
            (b"TAGS", b"TagA"), (b"WAIT", b"true"), (b"TRACE_ON", b"true"),
            (b"CLUSTER", b"DefaultCluster"), (b"MSG_REGION", b"DefaultRegion"),
        )
    )  # fmt: skip
    destination = Destination("bench", 3, HOST)
    batch = _same(1, random.Random(3).randbytes(1024), block)
    record = encode_records(
        destination, batch, record_sizes(destination, batch), queue_offset=1_000,
        physical_offset=10**9, store_timestamp_ms=1_790_000_000_000,
    )  # fmt: skip
    records, messages = record * 32, MessageWriter()

    def write() -> None:
        messages.begin()
        messages.add(records, 0, 1 << 24)
        messages.out.getvalue()

    return _us(600, 32, write)


def pull_joined_us() -> float:
    """Returns the microseconds pull_joined takes for one record of 1 KiB out of 32."""
    return asyncio.run(_pull_joined())


async def _pull_joined() -> float:
    async with opened() as (store, _):
        batch = _same(32, random.Random(3).randbytes(1024), b"")
        await store.writing.put([(Destination("bench", 0, HOST), batch)])
        await store.reading.arrivals("bench", 0).reached(32)
        wanted = ReadRange("bench", 0, 0, 32, 1 << 22)
        return _us(1_000, 32, lambda: store.reading.pull(wanted, joined=True))


def index_entries_us() -> float:
    """Returns the microseconds index_entries takes for one record out of 100, of three entries."""
    written = Written(
        Destination("bench", 0, HOST),
        0,
        physical_offsets=list(range(0, BATCH * 1300, 1300)),
        sizes=[1300] * BATCH,
        tags_codes=[0] * BATCH,
        store_time_ms=1_790_000_000_000,
        unique_keys=[f"{number:032X}" for number in range(BATCH)],
        keys=[f"key-{number}" for number in range(BATCH)],
        tags=["TagA"] * BATCH,
    )
    return _us(200, BATCH, lambda: index_entries([written], STYLE_5_5))


def java_hashes_us() -> float:
    """Returns the microseconds java_hashes takes for one key of 40 characters out of 300."""
    keys = [f"bench#{random.Random(n).randbytes(16).hex()}" for n in range(300)]
    return _us(200, len(keys), lambda: java_hashes(keys))


def hash_texts_us() -> float:
    """Returns the microseconds of hashing one key of 32 characters in place."""
    count = 6_000
    buffer = bytearray(b"#" * 64 + b"7F0000010000ABCD0BE0A67EA4D20001" * count)
    begins = np.arange(count, dtype=np.int64) * 32 + 64
    lengths = np.full(count, 32, dtype=np.int64)
    return _us(100, count, lambda: hash_texts(buffer, begins, lengths))


def link_entries_us() -> float:
    """Returns the microseconds of one entry chained into a table of five million slots."""
    count = 20_000
    hashes = np.random.default_rng(1).integers(0, 2**31, count, dtype=np.int32)
    slots = np.zeros(5_000_000, dtype=np.int32)
    numbers = iter(range(1, 50 * count, count))
    return _us(50, count, lambda: link_entries(hashes, slots, next(numbers)))


MEASURES: Final[dict[str, Callable[[], float]]] = {
    one.__name__.removesuffix("_us"): one
    for one in (
        encode_records_us, index_entries_us, java_hashes_us, parse_send_request_us,
        encode_sent_us, stored_messages_us, pull_joined_us, hash_texts_us, link_entries_us,
    )
}  # fmt: skip
