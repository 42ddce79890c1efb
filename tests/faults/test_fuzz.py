"""S6: random bytes in requests, records, tables, files of a store, and text in logs.

Sound bytes are changed here and there, checksums put right again where there are some: nothing but
declared errors comes out, nothing takes long, and no memory is taken.
"""

import io
import json
import logging
import os
import struct
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import thread_time
from typing import Any, Final

import pytest

from pocketmq.config import broker_conf
from pocketmq.format.checkpoint_layout import CHECKPOINT_FILE_SIZE, decode_checkpoint
from pocketmq.format.properties import encode_properties
from pocketmq.format.record import BadRecord, body_crc, check_record, decode_record
from pocketmq.format.record_scan import RecordScan
from pocketmq.format.table_json import decode_rows, encode_table
from pocketmq.metrics.logs import start_logs
from pocketmq.model.errors import BrokerError
from pocketmq.rpc.pb import broker_pb2 as pb
from tests.faults.requests import TEXTS, put
from tests.kit.mutated import mutated
from tests.kit.records import record
from tests.kit.store_broker import StoreBroker, store_broker

SEED: Final = int(os.environ.get("SEED", "1"))
REQUESTS: Final = 8_000
RECORDS: Final = 30_000
TABLES: Final = 10_000
CONFIGS: Final = 300
"""Cases in CI, about 30 s of CPU together; the long tier goes on by the clock."""
SLOW_S: Final = 0.1
MEMORY_MAX: Final = 64 << 20
FACTOR: Final = 4 if "PYTEST_XDIST_WORKER" in os.environ or os.environ.get("CI") == "true" else 1


class Fuzz:
    """Runs cases; counts how they ended, and fails on the first that ends or lasts otherwise."""

    def __init__(self, declared: tuple[type[Exception], ...]) -> None:
        self.declared = declared
        self.ended: Counter[str] = Counter()
        self.slowest = 0.0

    def run(self, case: Callable[[bytes], Any], raw: bytes) -> None:
        """Runs a case on bytes."""
        begun = thread_time()
        try:
            case(raw)
            self.ended["ok"] += 1
        except self.declared as error:
            self.ended[type(error).__name__] += 1
        except Exception as error:
            raise AssertionError(f"repro: SEED={SEED}: {raw[:300]!r}") from error
        self.slowest = max(self.slowest, thread_time() - begun)
        assert self.slowest <= SLOW_S * FACTOR, f"repro: SEED={SEED}: {raw[:300]!r}"

    def run_many(self, case: Callable[[bytes], Any], sound: bytes, count: int) -> None:
        """Runs a case on so many mutations of bytes."""
        random = Random(SEED)
        for _ in range(count):
            self.run(case, mutated(random, sound))
        self.told(count)

    def told(self, cases_min: int) -> None:
        """Prints what was found and fail when there were too few cases."""
        count = sum(self.ended.values())
        print(f"{count} cases, seed {SEED}, slowest {self.slowest * 1000:.0f} ms: {self.ended}")
        assert count >= cases_min


# -- requests --------------------------------------------------------------------------------------
def sound_requests(broker: StoreBroker) -> list[tuple[str, bytes]]:
    """Returns a request of every method, its fields set."""
    found = []
    for name, method in broker.methods.items():
        if name == "Admin/Drain":
            continue
        request: Any = method.request()
        for field in request.DESCRIPTOR.fields:
            if field.type in TEXTS and not field.is_repeated:
                put(request, (field.name,), "orders")
            elif field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_INT64):
                put(request, (field.name,), 1)
        if name == "SendMessage":
            request.messages.add(
                topic="orders", body=b"body", tag="t", keys=["a", "b"], properties={"n": "v"},
                message_group="g", queue_id=0, born_host="10.0.0.1:1",
            )  # fmt: skip
        found.append((name, request.SerializeToString()))
    return found


async def test_requests(tmp_path: Path) -> None:
    random = Random(SEED)
    ended: Counter[str] = Counter()
    slowest = 0.0
    async with store_broker(tmp_path / "s", commit_log_file_size_bytes=1 << 22) as broker:
        await broker.talking.store.tables.topics.create("orders", queue_count=2)
        sound = sound_requests(broker)
        for _ in range(REQUESTS):
            name, raw = random.choice(sound)
            raw = mutated(random, raw)
            begun = thread_time()
            try:
                ended[await broker.outcome(name, raw)] += 1
            except Exception as error:
                raise AssertionError(f"repro: SEED={SEED}: {name} {raw[:300]!r}") from error
            slowest = max(slowest, thread_time() - begun)
        await broker.talking.settled()
        names = broker.talking.store.tables.topics.names()
    print(f"{sum(ended.values())} requests, seed {SEED}, slowest {slowest * 1000:.0f} ms: {ended}")
    assert sum(ended.values()) >= REQUESTS
    assert ended["MalformedRequest"] > REQUESTS // 50
    assert ended["ok"] > REQUESTS // 50
    assert slowest <= SLOW_S * FACTOR
    async with store_broker(tmp_path / "s", commit_log_file_size_bytes=1 << 22) as again:
        assert again.talking.store.tables.topics.names() == names


# -- records, the checksum put right ---------------------------------------------------------------
def with_right_crc(raw: bytes) -> bytes:
    """Returns a record whose size and body's CRC fit its bytes again, where that can be."""
    if len(raw) < 91:
        return raw
    found = bytearray(raw)
    struct.pack_into(">i", found, 0, len(found))
    size = struct.unpack_from(">i", found, 84)[0]
    if 0 <= size <= len(found) - 88:
        struct.pack_into(">i", found, 8, body_crc(found[88 : 88 + size]))
    return bytes(found)


def test_records_behind_their_checksum() -> None:
    random = Random(SEED)
    block = encode_properties({"KEYS": "a b", "TAGS": "t", "UNIQ_KEY": "ID", "x": "é"})
    sound = [record(0, b"body" * 20, properties=block), record(0, size=200), record(0, b"x")]
    fuzz = Fuzz((BadRecord, BrokerError))

    def look(raw: bytes) -> None:
        list(RecordScan(raw + bytes(64), 0, crc=True))
        if len(raw) >= 8:
            check_record(raw, 0, 0)
            decode_record(raw)

    for number in range(RECORDS):
        raw = mutated(random, random.choice(sound))
        fuzz.run(look, with_right_crc(raw) if number % 2 else raw)
    fuzz.told(RECORDS)
    assert fuzz.ended["ok"] > RECORDS // 100


# -- tables, settings, files -----------------------------------------------------------------------
def test_tables() -> None:
    version = {"counter": 1, "stateVersion": 0, "timestamp": 5}
    sound = encode_table({"dataVersion": version, "rows": {"T@G": {0: 250, 1: 7}, "x": {}}})
    fuzz = Fuzz((ValueError,))
    fuzz.run_many(lambda raw: decode_rows(raw, "rows"), sound, TABLES)
    for raw in (b"[" * 10_000, b'{"rows":' * 10_000, b'{"a":' + b"9" * 5_000 + b"}"):
        fuzz.run(lambda raw: decode_rows(raw, "rows"), raw)


async def test_tables_of_a_store(tmp_path: Path) -> None:
    """Whatever a table holds, the store opens and serves, or says that it cannot be read."""
    random = Random(SEED)
    async with store_broker(tmp_path / "s") as broker:
        await broker.talking.store.tables.topics.create("orders", queue_count=1)
        await broker.talking.store.tables.offsets.commit("g", "orders", 0, 0)
    config = tmp_path / "s" / "config"
    sound = {path: path.read_bytes() for path in config.glob("*.json")}
    ended: Counter[str] = Counter()
    for _ in range(60):
        for path, content in sound.items():
            path.write_bytes(content)
        path = random.choice(sorted(sound))
        path.write_bytes(mutated(random, sound[path]))
        for path in config.glob("*.bak"):
            path.unlink()
        try:
            async with store_broker(tmp_path / "s") as broker:
                for name in ("ListTopics", "TopicStats", "ListGroups", "GroupLag", "StoreStatus"):
                    await broker.outcome(f"Admin/{name}", b"")
                raw = pb.CommitOffsetRequest(group="g", topic="orders").SerializeToString()
                await broker.outcome("CommitOffset", raw)
            ended["ok"] += 1
        except (ValueError, BrokerError) as error:
            ended[type(error).__name__] += 1
    print(f"{sum(ended.values())} sets of tables, seed {SEED}: {ended}")
    assert sum(ended.values()) == 60
    assert ended["ok"]


def test_settings_of_rocketmq(tmp_path: Path) -> None:
    sound = (
        b"brokerName=a\nlistenPort = 10911\nflushDiskType : SYNC_FLUSH\nfileReservedTime=\\\n 72\n"
    )
    file = tmp_path / "broker.conf"

    def read(raw: bytes) -> None:
        file.write_bytes(raw)
        broker_conf.import_file(file)

    Fuzz((BrokerError,)).run_many(read, sound, CONFIGS)


def test_checkpoints() -> None:
    fuzz = Fuzz((ValueError, struct.error))
    fuzz.run_many(
        lambda raw: decode_checkpoint(raw.ljust(CHECKPOINT_FILE_SIZE, b"\0")), bytes(56), 10_000
    )


async def test_files_of_a_store_take_no_memory(tmp_path: Path) -> None:
    """Heads of files say anything; the store opens, or says what is wrong with it."""
    random = Random(SEED)
    async with store_broker(tmp_path / "s") as broker:
        for number in range(12):
            await broker.talking.send("orders", f"{number}", key=f"k{number}")
        await broker.talking.settled()
    files = [p for p in (tmp_path / "s").rglob("*") if p.is_file() and p.name != "lock"]
    sound = {path: path.read_bytes() for path in files if path.parent.name != "commitlog"}
    ended: Counter[str] = Counter()
    tracemalloc.start()
    for _ in range(30):
        for path, content in sound.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            head = bytearray(content)
            if random.random() < 0.3 and head:
                place = random.randrange(min(len(head), 64))
                head[place : place + 4] = random.randbytes(4)[: len(head) - place]
            path.write_bytes(head)
        try:
            async with store_broker(tmp_path / "s") as broker:
                await broker.outcome("Admin/TopicStats", b"")
            ended["ok"] += 1
        except (BrokerError, ValueError) as error:
            ended[type(error).__name__] += 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"{sum(ended.values())} stores, seed {SEED}, {peak >> 20} MiB at most: {ended}")
    assert peak <= MEMORY_MAX


# -- text in logs ----------------------------------------------------------------------------------
BREAKS: Final = ["\r", "\n", "\r\n", "\x1b[2J", "\x85", "\u2028", "\u2029", "\0", "\x0b", "\x9b"]


@pytest.fixture
def stream() -> Any:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize("form", ["json", "console"])
@pytest.mark.parametrize("text", BREAKS, ids=repr)
def test_no_text_begins_a_line_of_its_own(stream: io.StringIO, form: str, text: str) -> None:
    start_logs(stream, "info", form)
    said = f"a{text}12:00:00 ERROR store.failed{text}" + "x" * 5_000
    logger = logging.getLogger("broker.test")
    logger.error("rpc.refused", extra={"error": said, "method": ValueError(said)})
    logger.error("%s", said)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)
    if form == "json":
        row = json.loads(lines[0])
        assert len(row["error"]) == len(row["method"]) == 501


@pytest.mark.parametrize("form", ["json", "console"])
def test_the_trace_of_a_hostile_error_is_marked_as_one(stream: io.StringIO, form: str) -> None:
    start_logs(stream, "info", form)
    try:
        raise ValueError("a\n12:00:00 ERROR store.failed\u2028" + "x" * 100_000)
    except ValueError:
        logging.getLogger("broker.test").exception("rpc.failed")
    lines = stream.getvalue().splitlines()
    assert len(stream.getvalue()) < 20_000
    assert len(lines) == 1 if form == "json" else all(line[0] == " " for line in lines[1:])


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_flood_of_refusals_is_told_in_few_words(stream: io.StringIO, form: str) -> None:
    start_logs(stream, "info", form)
    logger = logging.getLogger("pocketmq.rpc.test")
    for number in range(20_000):
        logger.error("rpc.refused", extra={"method": "x" * 300, "error": f"{number}" + "y" * 9_000})
        logger.error("rpc.failed", extra={"method": "x" * 300, "incident": "z" * 300})
    assert len(stream.getvalue()) * 6 <= 1 << 20
