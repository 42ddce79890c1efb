"""S1: whatever a client, a file or a directory is called, nothing is made outside the store.

Odd names go into every field of every method that takes text, into the store behind the edge of the
API, into the tables a store is opened with, and into the names of its directories. What lies around
the store is the same before and after, names inside it are those of a store, and a broker starts
and serves again afterwards.
"""

import json
import os
import shutil
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pocketmq.config import broker_conf
from pocketmq.format.names import queue_directory, queue_id_from_name
from pocketmq.format.table_json import decode_table, encode_table
from pocketmq.model.errors import BrokerError, IllegalTopic
from pocketmq.rpc.pb import broker_pb2 as pb
from tests.faults.requests import TEXTS, good_request, put, ways_to
from tests.kit.records import entry
from tests.kit.store_broker import StoreBroker, store_broker
from tests.kit.store_language import store_at

SEED: Final = int(os.environ.get("SEED", "1"))
CORPUS_MIN: Final = 500
REQUESTS_MIN: Final = 8_000
PARTS: Final = 3
"""A field of a method takes one third of the corpus, the next field of it the next third: each
name comes to all methods of three fields, and to all kinds of fields."""

PIECES: Final = [
    *("", ".", "..", "/", "\\", "-rf", "-", "~", "*", "?", "|", "%", "%2e%2e", "@", ":", ";", "'"),
    *('"', "$HOME", "`id`", "${x}", "\0", "\r", "\n", "\r\n", "\t", "\x1b[2J", "\x7f", "\x85"),
    *("\u202e", "\u200b", "\ufeff", "\u2028", "\u2029", "\u0130", "\u00df", "\ue000", "\U0001f600"),
    *("e\u0301", "\u00e9", "\uff0f", "\u2215", "\u2024\u2024", "con", "nul", "COM1", "aux.txt"),
]  # fmt: skip
WHOLE: Final = [
    *("../x", "../../x", "a/../../x", "/etc/x", "//x", "..\\..\\x", "C:\\x", "\\\\host\\x", "./x"),
    *("a/b", "a/", "/a", "a//b", "a/.", "a/..", "x/00000000000000000000", "\0x", "x\0/../y"),
    *("commitlog", "consumequeue", "index", "config", "abort", "checkpoint", "lock", "pocketmq"),
    *("orders", "Orders", "ORDERS", "TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"),
    *("%RETRY%../x", "%DLQ%../x", "%RETRY%", "%DLQ%", "RMQ_SYS_../x", "rmq_sys_x", "CID_RMQ_SYS_x"),
    *("orders@../x", "@", "a@b@c", "007", "-1", "1e9", "NaN", "null", "true", "{}", "[]", "None"),
    *("x" * 63, "x" * 64, "x" * 120, "x" * 121, "x" * 127, "x" * 128, "x" * 255, "x" * 256),
    *("\u20ac" * 85, "\u20ac" * 86, "x" * 4096, "../" * 40 + "x", "%n%s%d", "{0.__class__}", " "),
]  # fmt: skip


def corpus() -> list[str]:
    """Returns odd names: whole ones, pieces alone, and pieces around and inside a word."""
    words = [*PIECES, *WHOLE]
    for piece in PIECES:
        words += [f"{piece}x", f"x{piece}", f"a{piece}b", f"../{piece}", f"{piece}/../x"]
        words += [piece * 2, piece * 127, f"%RETRY%{piece}", f"{piece}.."]
    return list(dict.fromkeys(words))


CORPUS: Final = corpus()


def outside(place: Path, store: Path) -> set[str]:
    """Returns every path beside and above a store, as far as the test's own directory goes."""
    found = set()
    for root, directories, files in os.walk(place):
        found |= {str(Path(root) / name) for name in (*directories, *files)}
        if Path(root) == store.parent:
            directories[:] = [name for name in directories if name != store.name]
    return found | {str(store)}


def odd_places(store: Path) -> list[str]:
    """Returns directories of queues that no topic and no queue is named by."""
    found = []
    for topic in sorted((store / "consumequeue").iterdir()):
        for queue in sorted(topic.iterdir()):
            try:
                is_named = queue == queue_directory(topic.parent, topic.name, int(queue.name))
            except (IllegalTopic, ValueError):
                is_named = False
            if not is_named:
                found.append(str(queue))
    return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory deep enough that `../..` stays inside the test's own; nothing but s gets in."""
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    before = outside(tmp_path, deep / "s")
    yield deep
    assert outside(tmp_path, deep / "s") == before


# -- through the API -------------------------------------------------------------------------------
async def flood(broker: StoreBroker, names: list[str]) -> Counter[str]:
    """Puts names into every text field of every method; returns how calls ended."""
    ended: Counter[str] = Counter()
    for first, (name, method) in enumerate(broker.methods.items()):
        for number, way in enumerate(ways_to(method.request.DESCRIPTOR, TEXTS), first):
            for text in names[number % PARTS :: PARTS]:
                request = good_request(method.request)
                put(request, way, text)
                ended[await broker.outcome(name, request.SerializeToString())] += 1
    return ended


async def test_no_name_leads_out_of_the_store(place: Path) -> None:
    assert len(CORPUS) >= CORPUS_MIN
    async with store_broker(
        place / "s", commit_log_file_size_bytes=1 << 22, consume_queue_file_size_bytes=2_000
    ) as broker:
        await broker.talking.store.tables.topics.create("orders", queue_count=1)
        await broker.talking.store.tables.groups.ensure("g")
        ended = await flood(broker, [*CORPUS, "orders"])
        await broker.talking.settled()
        topics = broker.talking.store.tables.topics.names()
    assert sum(ended.values()) >= REQUESTS_MIN
    assert ended["ok"] > 1_000, ended
    assert ended["IllegalTopic"] > 1_000, ended
    assert odd_places(place / "s") == []
    async with store_broker(place / "s", commit_log_file_size_bytes=1 << 22) as again:
        assert again.talking.store.tables.topics.names() == topics
        sent = pb.SendMessageRequest(messages=[pb.Message(topic="Orders", body=b"x")])
        assert await again.outcome("SendMessage", sent.SerializeToString()) == "ok"


# -- where paths are built -------------------------------------------------------------------------
def is_refused(root: Path, topic: str) -> bool:
    try:
        return queue_directory(root, topic, 0).parent.parent != root
    except BrokerError:
        return True


@given(st.one_of(st.text(), st.sampled_from(CORPUS), st.text(alphabet="./\\\0%|-_aA\r\n")))
@settings(max_examples=1_000)
def test_a_path_is_made_of_checked_names_only(topic: str) -> None:
    root = Path("/store/consumequeue")
    if not is_refused(root, topic):
        path = queue_directory(root, topic, 0)
        assert os.path.normpath(path) == str(path) == f"/store/consumequeue/{topic}/0"
        assert topic.isascii()
        assert topic.isprintable()


async def test_names_are_checked_where_directories_are_made(place: Path) -> None:
    """As if the edge let everything pass: the names come to the queues in records of the log."""
    async with store_at(place / "s") as talking:
        await talking.send("orders", "a")
        await talking.settled()
        queues = talking.store.views.queues
        keys = [(name, 0) for name in CORPUS] + [("orders", -1), ("orders", 2**31)]
        for number, (topic, queue_id) in enumerate(keys, 9):
            queues.apply([entry(number * 100, topic=topic, queue_id=queue_id)])
    assert odd_places(place / "s") == []


async def test_a_record_with_an_odd_topic_holds_nothing_up(place: Path) -> None:
    async with store_at(place / "s") as talking:
        for topic in ("../x", "..", "a/../../../x", "a b"):
            await talking.send(topic, "odd", wait=False)
        await talking.send("orders", "good")
        assert await talking.pulled("orders") == ["good"]
    shutil.rmtree(place / "s" / "consumequeue")  # All is built anew from the log.
    async with store_at(place / "s") as talking:
        assert await talking.pulled("orders") == ["good"]
        assert set(talking.store.tables.topics.names()) == {"orders"}
    assert odd_places(place / "s") == []


# -- tables and directories ------------------------------------------------------------------------
ROW: Final = {"perm": 6, "readQueueNums": 1, "writeQueueNums": 1}


async def test_tables_with_odd_names_are_read_and_kept(place: Path) -> None:
    async with store_at(place / "s") as talking:
        await talking.store.tables.topics.create("orders", queue_count=1)
        await talking.store.tables.offsets.commit("g", "orders", 0, 0)
    config = place / "s" / "config"
    rows = {name: {**ROW, "topicName": name} for name in ["good", *CORPUS] if "\ue000" not in name}
    (config / "topics.json").write_bytes(encode_table({"topicConfigTable": rows}))
    groups = {name: {"groupName": name} for name in rows}
    (config / "subscriptionGroup.json").write_bytes(
        encode_table({"subscriptionGroupTable": groups})
    )
    offsets = {f"{name}@{name}": {0: 5, "x": 1, "-1": 2} for name in rows}
    (config / "consumerOffset.json").write_bytes(encode_table({"offsetTable": offsets}))
    (place / "s" / "pocketmq" / "removed.json").write_text(
        json.dumps({name: {"0": 5, "x": 1, "../y": 3, "-1": 4} for name in rows})
    )
    async with store_broker(place / "s") as broker:
        assert broker.talking.store.tables.topics.find("good") is not None
        for name in rows:
            assert broker.talking.store.tables.topics.find("../x") is None
            sent = pb.SendMessageRequest(messages=[pb.Message(topic=name, body=b"x")])
            await broker.outcome("SendMessage", sent.SerializeToString())
        await broker.talking.settled()
        for method in ("ListTopics", "TopicStats", "ListGroups", "GroupLag", "StoreStatus"):
            assert await broker.outcome(f"Admin/{method}", b"") == "ok"
        await broker.talking.store.tables.topics.create("another", queue_count=1)
    assert odd_places(place / "s") == []
    kept = decode_table((config / "topics.json").read_bytes())["topicConfigTable"]
    assert rows.keys() <= kept.keys()


async def test_directories_with_odd_names_are_no_queues(place: Path) -> None:
    async with store_at(place / "s") as talking:
        await talking.send("orders", "a")
        await talking.settled()
    root = place / "s" / "consumequeue"
    file = next((root / "orders" / "0").iterdir())
    names = [n for n in CORPUS if n not in ("", ".", "..", "orders")]
    names = [n for n in names if "/" not in n and "\0" not in n and len(n.encode()) < 256]
    for name in names:
        (root / name).mkdir(exist_ok=True)
        (root / name / "x").touch()
    for name in ("00", "007", "-1", "+1", "1e3", " 1", "4294967296", "9" * 200, "\u0661", "x"):
        (root / "orders" / name).mkdir()
        shutil.copy(file, root / "orders" / name / file.name)
    async with store_broker(place / "s") as broker:
        assert list(broker.talking.store.views.queues.queues) == [("orders", 0)]
        assert await broker.talking.pulled("orders") == ["a"]
        await broker.talking.send("orders", "b")
        assert await broker.talking.pulled("orders") == ["a", "b"]
        assert await broker.outcome("Admin/TopicStats", b"") == "ok"


@given(st.text(max_size=12))
@settings(max_examples=500)
def test_a_queue_has_one_name(name: str) -> None:
    queue_id = queue_id_from_name(name)
    assert queue_id is None or str(queue_id) == name


def repro(name: str) -> str:
    return f"repro: SEED={SEED} pytest tests/faults/test_names.py, the name {name!r}"


# -- an imported broker.conf -----------------------------------------------------------------------
def test_no_value_of_a_broker_conf_escapes_its_line(tmp_path: Path) -> None:
    keys = ("brokerName", "brokerClusterName", "brokerIP1", "storePathRootDir", "messageDelayLevel")
    random = Random(SEED)
    for name in CORPUS:
        file = tmp_path / "broker.conf"
        escaped = "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c for c in name)
        file.write_text("".join(f"{key}={escaped}\n" for key in random.sample(keys, 3)))
        imported = broker_conf.import_file(file)
        sections = tomllib.loads(imported.text)
        assert sections.keys() <= {"preset", "broker", "store", "delay"}, repro(name)
        for section in sections.values():
            if isinstance(section, dict):
                assert not section.keys() & {"x", name}, repro(name)
    assert {path.name for path in tmp_path.iterdir()} == {"broker.conf"}


@given(st.lists(st.one_of(st.text(max_size=300), st.sampled_from(CORPUS)), min_size=5, max_size=5))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_in_any_field(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    import asyncio

    async def work() -> None:
        place = tmp_path_factory.mktemp("names") / "a" / "b"
        place.mkdir(parents=True)
        async with store_broker(place / "s") as broker:
            await broker.talking.store.tables.topics.create("orders", queue_count=1)
            storable = [n for n in names if not any(0xD800 <= ord(c) < 0xE000 for c in n)]
            await flood(broker, storable)
        assert [path.name for path in place.iterdir()] == ["s"]
        assert [path.name for path in place.parent.iterdir()] == ["b"]
        shutil.rmtree(place)

    asyncio.run(work())
