"""Figures that need the store in the measuring process: dispatch lag, hot functions."""

import asyncio
import random
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from broker.files.disk import Disk
from broker.format.columns.texts import hash_texts
from broker.format.hosts import host_from_text
from broker.format.index_chain import link_entries
from broker.format.java_hash_batch import java_hashes
from broker.format.message_id import UniqueKeyMaker
from broker.format.record import encode_records, record_sizes
from broker.model.clock import SystemClock
from broker.model.message import PutAddress, PutRow
from broker.model.read_range import ReadRange
from broker.model.results import PutStatus
from broker.rpc.pb import broker_pb2 as pb
from broker.rpc.v1.convert import draft_from_message
from broker.rpc.v1.send_reply import encode_sent
from broker.rpc.v1.stored_reply import encode_plain
from broker.services.send import Draft, Send, SendRules, Sent
from broker.store.message_store import MessageStore
from broker.store.settings import StoreSettings

HOST = host_from_text("127.0.0.1:8081")
BATCH = 100
TURN_SECONDS = 0.0005
"""What a transport takes between two batches at the very least: a bare grpc.aio call costs that."""


def lag_p99_ms(seconds: float) -> float:
    """Return the 99th percentile of how long the last record of a batch waits for dispatch."""
    return asyncio.run(_lag(seconds))


async def _lag(seconds: float) -> float:
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as directory:
        settings = StoreSettings(directory=Path(directory) / "store", flush="async")
        clock = SystemClock()
        store = MessageStore(settings, clock, Disk())
        await store.open()
        maker = UniqueKeyMaker(address=b"\x7f\0\0\1", process_id=1, random_bytes=b"lagx")
        rules = SendRules(HOST, "DefaultCluster")
        send = Send(store, rules, clock, key_maker=maker, random=random.Random(1))
        body = random.Random(2).randbytes(1024)
        drafts: list[Draft] = [
            ("bench", body, "TagA", [f"key-{n}"], "", -1, "", 0, HOST, 0, {}) for n in range(BATCH)
        ]
        waiting: list[tuple[int, float]] = []
        lags: list[float] = []
        end = perf_counter() + seconds
        while perf_counter() < end:
            sent = await send.send(drafts, wait=False)
            now = perf_counter()
            waiting.append((sent.physical_offsets[-1], now))
            await asyncio.sleep(TURN_SECONDS)
            now = perf_counter()
            while waiting and waiting[0][0] < store.dispatched:
                lags.append(now - waiting.pop(0)[1])
        await store.close()
    lags.sort()
    return 1000 * lags[len(lags) * 99 // 100]


def encode_records_us() -> float:
    """Return the microseconds encode_records takes for one record of 1 KiB in a batch of 100."""
    row: PutRow = (random.Random(3).randbytes(1024), b"x" * 150, 0, 0, HOST, "id", "key", "TagA")
    rows, address = [row] * BATCH, PutAddress("bench", 0, HOST)
    sizes = record_sizes(address, rows)
    begun = perf_counter()
    for _ in range(200):
        encode_records(
            address, rows, sizes, queue_offset=0, physical_offset=0, store_timestamp_ms=0
        )
    return (perf_counter() - begun) / 200 / BATCH * 1e6


def draft_from_message_us() -> float:
    """Return the microseconds draft_from_message takes for a message with a tag and a key."""
    message = pb.Message(topic="bench", body=bytes(1024), tag="TagA", keys=["key-1"])
    begun = perf_counter()
    for _ in range(20_000):
        draft_from_message(message, HOST)
    return (perf_counter() - begun) / 20_000 * 1e6


def encode_sent_us() -> float:
    """Return the microseconds encode_sent takes for one result out of 100."""
    ids, places = [f"{number:032X}" for number in range(BATCH)], list(range(0, BATCH * 1300, 1300))
    sent = Sent("bench", 3, 1_000, 1_790_000_000_000, HOST, PutStatus.OK, ids, places)
    begun = perf_counter()
    for _ in range(200):
        encode_sent(sent)
    return (perf_counter() - begun) / 200 / BATCH * 1e6


def encode_plain_us() -> float:
    """Return the microseconds encode_plain takes for a record of 1 KiB with seven properties."""
    block = b"".join(
        name + b"\x01" + value + b"\x02"
        for name, value in (
            (b"UNIQ_KEY", b"7F00000157557DF0BE0A67EA4D230002"), (b"KEYS", b"key"),
            (b"TAGS", b"TagA"), (b"WAIT", b"true"), (b"TRACE_ON", b"true"),
            (b"CLUSTER", b"DefaultCluster"), (b"MSG_REGION", b"DefaultRegion"),
        )
    )  # fmt: skip
    address = PutAddress("bench", 3, HOST)
    row: PutRow = (random.Random(3).randbytes(1024), block, 0, 1_790_000_000_000, HOST, "", "", "")
    record = encode_records(
        address, [row], record_sizes(address, [row]), queue_offset=1_000, physical_offset=10**9,
        store_timestamp_ms=1_790_000_000_000,
    )  # fmt: skip
    begun = perf_counter()
    for _ in range(20_000):
        encode_plain(record)
    return (perf_counter() - begun) / 20_000 * 1e6


def pull_joined_us() -> float:
    """Return the microseconds pull_joined takes for one record of 1 KiB out of 32."""
    return asyncio.run(_pull_joined())


async def _pull_joined() -> float:
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as directory:
        store = MessageStore(
            StoreSettings(directory=Path(directory) / "store", flush="async"), SystemClock(), Disk()
        )
        await store.open()
        row: PutRow = (random.Random(3).randbytes(1024), b"", 0, 0, HOST, "id", "key", "TagA")
        await store.put_batch(PutAddress("bench", 0, HOST), [row] * 32)
        await store.reading.arrivals("bench", 0).reached(32)
        begun = perf_counter()
        for _ in range(1_000):
            store.reading.pull(ReadRange("bench", 0, 0, 32, 1 << 22), joined=True)
        took = perf_counter() - begun
        await store.close()
    return took / 1_000 / 32 * 1e6


def java_hashes_us() -> float:
    """Return the microseconds java_hashes takes for one key of 40 characters out of 300."""
    keys = [f"bench#{random.Random(n).randbytes(16).hex()}" for n in range(300)]
    begun = perf_counter()
    for _ in range(200):
        java_hashes(keys)
    return (perf_counter() - begun) / 200 / len(keys) * 1e6


def hash_texts_us() -> float:
    """Return microseconds for each key of 32 characters hashed where it lies."""
    count = 6_000
    buffer = bytearray(b"#" * 64 + b"7F0000010000ABCD0BE0A67EA4D20001" * count)
    begins = np.arange(count, dtype=np.int64) * 32 + 64
    lengths = np.full(count, 32, dtype=np.int64)
    begun = perf_counter()
    for _ in range(100):
        hash_texts(buffer, begins, lengths)
    return (perf_counter() - begun) / (100 * count) * 1e6


def link_entries_us() -> float:
    """Return microseconds for each entry chained into a table of five million slots."""
    count = 20_000
    hashes = np.random.default_rng(1).integers(0, 2**31, count, dtype=np.int32)
    slots = np.zeros(5_000_000, dtype=np.int32)
    begun = perf_counter()
    for number in range(50):
        link_entries(hashes, slots, 1 + number * count)
    return (perf_counter() - begun) / (50 * count) * 1e6
