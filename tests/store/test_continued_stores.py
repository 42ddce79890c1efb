"""Stores of a real broker after more writes: each feature's data survives restart and kill -9."""

from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.consume_unit import (
    EXTENSION_HEAD,
    UNIT,
    extension_position,
    is_extension_address,
)
from pocketmq.format.java_hash import tags_code
from pocketmq.format.properties import encode_properties
from pocketmq.model.batch import Destination
from pocketmq.model.reading import PullStatus, ReadRange
from pocketmq.tools.verify.verification import verify
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import files_below
from tests.kit.rows import batch
from tests.kit.store_golden import golden_sizes
from tests.kit.store_language import (
    STORE_HOST,
    TalkingStore,
    at_once,
    put_row,
    queue_bodies,
    store_at,
    until,
)
from tests.kit.tool_sizes import golden_tool_sizes
from tests.sim.quick_disk import QuickDisk

TAGS = ("TagA", "TagB", "")
BODIES = [f"continued {number} " + "x" * 300 for number in range(30)]

POOL = {"flush": "async", "transient_pool": True, "transient_pool_file_count": 3}
FOUND_OUT = "no size is given"
FEATURES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "extension": ("cqext", "SqlTopic", {}),
    "property crc": ("propcrc", "", {"property_crc": True}),
    "transient pool": ("basic", "", POOL),
    "warm files": ("basic", "", {"warm_files": True}),
    FOUND_OUT: ("basic", "", {}),
}


def sizes(golden: GoldenStores, name: str, settings: dict[str, Any]) -> dict[str, Any]:
    found = golden_sizes(golden, name) | settings
    return {**found, "explicit": found["explicit"] | frozenset(settings)}


async def go_on(store: TalkingStore, topic: str) -> None:
    """Sends to one queue of a topic, and waits for commit and dispatch."""
    log = store.store.log
    for number, body in enumerate(BODIES):
        await store.stocked()
        await store.send(topic, body, tag=TAGS[number % 3], key=f"k{number}")
        store.store.writing.commit.request()
        await until(lambda: store.store.marks.committed.value == log.appended)
    await store.settled()


def findings(directory: Path, golden: GoldenStores, name: str) -> list[str]:
    report = verify(Disk(), directory, golden_tool_sizes(golden, name))
    return [f"{finding.kind} {finding.file}" for finding in report.findings]


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_real_store_goes_on(
    feature: str, is_killed: bool, golden: GoldenStores, tmp_path: Path
) -> None:
    name, topic, settings = FEATURES[feature]
    directory = golden.copy(name, tmp_path / name)
    old = {path: path.read_bytes() for path in sorted((directory / "commitlog").iterdir())}
    settings = {} if feature == FOUND_OUT else sizes(golden, name, settings)
    async with store_at(directory, **settings) as store:
        topic = topic or sorted(key[0] for key in store.store.views.queues.queues)[0]
        lower, upper = store.store.reading.queue_range(topic, 0)
        before = queue_bytes(store, topic)
        await go_on(store, topic)
        image = store.killed(tmp_path / "image")
    directory = image if is_killed else directory
    async with store_at(directory, **settings) as store:
        assert store.store.reading.queue_range(topic, 0) == (lower, upper + len(BODIES))
        assert queue_bytes(store, topic)[: len(before)] == before
        assert queue_bodies(store.store, topic)[-len(BODIES) :] == BODIES
        assert await store.found(topic, "k7") == [BODIES[7]]
    for path, content in old.items():
        kept = (directory / "commitlog" / path.name).read_bytes()
        assert kept[: len(content.rstrip(b"\0"))] == content.rstrip(b"\0")
    assert findings(directory, golden, name) == []


def queue_bytes(store: TalkingStore, topic: str) -> bytes:
    queue = store.store.views.queues.queues[topic, 0]
    first = queue.files.min_offset // 20
    return queue.units.read(first, 1 << 20)


async def test_the_extension_holds_the_tags_of_what_was_added(
    golden: GoldenStores, tmp_path: Path
) -> None:
    directory = golden.copy("cqext", tmp_path / "cqext")
    async with store_at(directory, **golden_sizes(golden, "cqext")) as store:
        begin = store.store.reading.queue_range("SqlTopic", 0)[1]
        await go_on(store, "SqlTopic")
        queue = store.store.views.queues.queues["SqlTopic", 0]
        codes = [row[2] for row in UNIT.iter_unpack(queue.units.read(begin, 1 << 20))]
        assert all(map(is_extension_address, codes))
        assert codes == sorted(codes)
        assert [queue.plain_code(code) for code in codes] == [
            tags_code(TAGS[number % 3]) for number in range(len(BODIES))
        ]
        wanted = ReadRange("SqlTopic", 0, begin, 9, 1 << 20)
        result = at_once(store.store.reading.pull(wanted, tags_code("TagB").__eq__))
        assert result.status is PullStatus.FOUND
        assert result.record_count == 9
        assert result.next_begin_offset == begin + 28


async def test_queues_and_extension_come_back_as_rocketmq_wrote_them(
    golden: GoldenStores, tmp_path: Path
) -> None:
    directory = golden.copy("cqext", tmp_path / "cqext")
    for name in ("consumequeue", "consumequeue_ext"):
        rmtree(directory / name)
    given = {"consume_queue_extension": True, "consume_queue_extension_file_size_bytes": 4096}
    async with store_at(directory, **sizes(golden, "cqext", given)) as store:
        await store.settled()
        await store.store.flush()
    for name in ("consumequeue", "consumequeue_ext"):
        assert files_below(directory / name) == files_below(golden.store("cqext") / name)


async def test_what_is_added_has_the_bits_of_those_who_want_it(
    golden: GoldenStores, tmp_path: Path
) -> None:
    directory = golden.copy("cqext", tmp_path / "cqext")
    async with store_at(directory, **golden_sizes(golden, "cqext")) as store:
        queue = store.store.views.queues.queues["SqlTopic", 0]
        begin = queue.max_offset
        for properties in ({"a": "7"}, {"a": "3", "b": "x", "c": "y"}, {"c": "z"}, {}):
            row = put_row("x")._replace(block=encode_properties(properties))
            run = (Destination("SqlTopic", 0, STORE_HOST), batch(row))
            await store.store.writing.put([run])
        await store.settled()
        units = [row[2] for row in UNIT.iter_unpack(queue.units.read(begin, 4))]
    found = []
    for address in units:
        position = extension_position(address)
        path = directory / f"consumequeue_ext/SqlTopic/0/{position - position % 4096:020d}"
        content = path.read_bytes()[position % 4096 :]
        bitmap = content[20 : 20 + EXTENSION_HEAD.unpack_from(content)[3]]
        assert len(bitmap) == 14
        found.append({n for n in range(112) if bitmap[n >> 3] >> (n & 7) & 1})
    big, between, has_c = {66, 10, 56}, {37, 26, 15}, {41, 109, 107}
    assert found == [big, between | has_c, has_c, set()]


async def test_a_table_of_subscriptions_that_cannot_be_read_costs_the_bits_alone(
    golden: GoldenStores, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = golden.copy("cqext", tmp_path / "cqext")
    (directory / "config/consumerFilter.json").write_text("{")
    async with store_at(directory, **golden_sizes(golden, "cqext")) as store:
        await go_on(store, "SqlTopic")
        queue = store.store.views.queues.queues["SqlTopic", 0]
        assert is_extension_address(UNIT.unpack(queue.units.read(queue.max_offset - 1, 1))[2])
    assert "subscriptions.unreadable" in caplog.messages


async def test_an_extension_that_is_switched_off_stays_with_the_units_that_lead_there(
    golden: GoldenStores, tmp_path: Path
) -> None:
    directory = golden.copy("cqext", tmp_path / "cqext")
    off = sizes(golden, "cqext", {"consume_queue_extension": False})
    content = extension_bytes(directory)
    for _ in range(2):  # The second start finds last units without an address.
        async with store_at(directory, **off) as store:
            queue = store.store.views.queues.queues["SqlTopic", 0]
            first = UNIT.unpack(queue.units.read(queue.min_offset, 1))
            assert queue.plain_code(first[2]) != first[2]
            await go_on(store, "SqlTopic")
    assert extension_bytes(directory) == content


def extension_bytes(directory: Path) -> dict[str, bytes]:
    root = directory / "consumequeue_ext"
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


async def test_an_extension_without_room_leaves_the_plain_code_and_warns(
    golden: GoldenStores, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory, disk = golden.copy("cqext", tmp_path / "cqext"), QuickDisk()
    async with store_at(directory, disk=disk, **golden_sizes(golden, "cqext")) as store:
        disk.full_below = directory / "consumequeue_ext"
        begin = store.store.reading.queue_range("SqlTopic", 1)[1]
        for body in BODIES * 8:  # More than a file of 4,096 bytes takes.
            await store.stocked()
            await store.send("SqlTopic", body, queue_id=1, tag="TagB")
        await store.settled()
        queue = store.store.views.queues.queues["SqlTopic", 1]
        codes = [row[2] for row in UNIT.iter_unpack(queue.units.read(begin, 1 << 20))]
        assert codes[-1] == tags_code("TagB")
        failures = store.store.views.queues.extension_failures
        assert failures == codes.count(tags_code("TagB")) > 0
        assert len(codes) == len(BODIES) * 8
        disk.full_below = None
    assert [r.message for r in caplog.records].count("extension.failed") == 1
