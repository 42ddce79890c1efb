"""Figures that need the store in the measuring process: dispatch lag, hot functions."""

import asyncio
import random
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from pocketmq.files.disk import Disk
from pocketmq.format.addresses import UniqueKeyMaker, host_from_text
from pocketmq.format.columns.texts import hash_texts
from pocketmq.format.index_entries import index_entries, link_entries
from pocketmq.format.index_layout import STYLE_5_5
from pocketmq.format.java_hash import java_hashes
from pocketmq.format.record import encode_records, record_sizes
from pocketmq.model.batch import Batch, Destination, PutResult, PutStatus, Written
from pocketmq.model.reading import ReadRange
from pocketmq.model.step import SystemClock
from pocketmq.rpc.codec.stored_messages import MessageWriter
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.v1.send_message import drafts_of, walk_plain
from pocketmq.rpc.v1.send_reply import encode_sent
from pocketmq.services.produce.rules import SendRules
from pocketmq.services.produce.send import Send, Sent
from pocketmq.store.message_store import open_store
from pocketmq.store.settings import StoreSettings

HOST = host_from_text("127.0.0.1:8081")
BATCH = 100
TURN_SECONDS = 0.0005
"""What a transport takes between two batches at the very least: a bare grpc.aio call costs that."""


def lag_p99_ms(seconds: float) -> float:
    """Returns the 99th percentile of how long the last record of a batch waits for dispatch."""
    return asyncio.run(_lag(seconds))


async def _lag(seconds: float) -> float:
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as directory:
        settings = StoreSettings(directory=Path(directory) / "store", flush="async")
        clock = SystemClock()
        store = await open_store(settings, clock, Disk())
        maker = UniqueKeyMaker(address=b"\x7f\0\0\1", process_id=1, random_bytes=b"lagx")
        rules = SendRules(HOST, "DefaultCluster")
        send = Send(store, rules, clock, key_maker=maker, random=random.Random(1))
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
        await store.close()
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
    begun = perf_counter()
    for _ in range(200):
        encode_records(
            destination, batch, sizes, queue_offset=0, physical_offset=0, store_timestamp_ms=0
        )
    return (perf_counter() - begun) / 200 / BATCH * 1e6


def _same(count: int, body: bytes, block: bytes) -> Batch:
    return Batch(
        bodies=[body] * count,
        property_blocks=[block] * count,
        unique_keys=["id"] * count,
        keys=["key"] * count,
        tags=["TagA"] * count,
        born_ms=[1_790_000_000_000] * count,
        born_hosts=[HOST] * count,
        flags=[0] * count,
        reconsume_times=[0] * count,
    )


def walk_plain_us() -> float:
    """Returns the microseconds walk_plain takes for a message with a tag and a key out of 100."""
    raw = _request(bytes(1024)).SerializeToString()
    begun = perf_counter()
    for _ in range(200):
        walk_plain(raw)
    return (perf_counter() - begun) / 200 / BATCH * 1e6


def encode_sent_us() -> float:
    """Returns the microseconds encode_sent takes for one result out of 100."""
    ids, places = [f"{number:032X}" for number in range(BATCH)], list(range(0, BATCH * 1300, 1300))
    result = PutResult(PutStatus.OK, places, 1_000, 1_790_000_000_000, BATCH * 1300)
    sent = Sent(Destination("bench", 3, HOST), ids, result)
    begun = perf_counter()
    for _ in range(200):
        encode_sent(sent)
    return (perf_counter() - begun) / 200 / BATCH * 1e6


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
    begun = perf_counter()
    for _ in range(600):
        messages.begin()
        messages.add(records, 0, 1 << 24)
        messages.out.getvalue()
    return (perf_counter() - begun) / (32 * 600) * 1e6


def pull_joined_us() -> float:
    """Returns the microseconds pull_joined takes for one record of 1 KiB out of 32."""
    return asyncio.run(_pull_joined())


async def _pull_joined() -> float:
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as directory:
        settings = StoreSettings(directory=Path(directory) / "store", flush="async")
        store = await open_store(settings, SystemClock(), Disk())
        batch = _same(32, random.Random(3).randbytes(1024), b"")
        await store.writing.put([(Destination("bench", 0, HOST), batch)])
        await store.reading.arrivals("bench", 0).reached(32)
        begun = perf_counter()
        for _ in range(1_000):
            store.reading.pull(ReadRange("bench", 0, 0, 32, 1 << 22), joined=True)
        took = perf_counter() - begun
        await store.close()
    return took / 1_000 / 32 * 1e6


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
    begun = perf_counter()
    for _ in range(200):
        index_entries([written], STYLE_5_5)
    return (perf_counter() - begun) / 200 / BATCH * 1e6


def java_hashes_us() -> float:
    """Returns the microseconds java_hashes takes for one key of 40 characters out of 300."""
    keys = [f"bench#{random.Random(n).randbytes(16).hex()}" for n in range(300)]
    begun = perf_counter()
    for _ in range(200):
        java_hashes(keys)
    return (perf_counter() - begun) / 200 / len(keys) * 1e6


def hash_texts_us() -> float:
    """Returns microseconds for each key of 32 characters hashed where it lies."""
    count = 6_000
    buffer = bytearray(b"#" * 64 + b"7F0000010000ABCD0BE0A67EA4D20001" * count)
    begins = np.arange(count, dtype=np.int64) * 32 + 64
    lengths = np.full(count, 32, dtype=np.int64)
    begun = perf_counter()
    for _ in range(100):
        hash_texts(buffer, begins, lengths)
    return (perf_counter() - begun) / (100 * count) * 1e6


def link_entries_us() -> float:
    """Returns microseconds for each entry chained into a table of five million slots."""
    count = 20_000
    hashes = np.random.default_rng(1).integers(0, 2**31, count, dtype=np.int32)
    slots = np.zeros(5_000_000, dtype=np.int32)
    begun = perf_counter()
    for number in range(50):
        link_entries(hashes, slots, 1 + number * count)
    return (perf_counter() - begun) / (50 * count) * 1e6
