"""Tables that hold anything: a start opens or refuses with a typed error, and goes on to work.

Each file of JSON holds values of other kinds in every place, one after the other. Junk of systems
and editors is passed over; another stray file is refused with what to do.
"""

import asyncio
import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.order_row import DELIVERIES_MAX, decode_order
from pocketmq.model.errors import StorageError, StrayFile, TableUnreadable
from pocketmq.rebuild.log_files import find_log_files, find_readable_files
from pocketmq.tools.lag import group_lags
from pocketmq.tools.verify.verification import verify
from tests.kit.backed_up import SIZES, stocked
from tests.kit.store_language import store_at

ODD: list[Any] = [
    *(None, True, -1, 0, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 1.5, "", "x", [], [1], {}, {"a": 1}),
    *({"0": 2**63 - 1}, {"T@g": None}, {"T@g": {"0": [], "-1": 3, "²": 4}}, "\ud800", [[[[]]]]),
]
TABLES = (
    *("config/topics.json", "config/subscriptionGroup.json", "config/consumerOffset.json"),
    *("config/delayOffset.json", "config/consumerOrderInfo.json", "config/timermetrics"),
    *("config/consumerFilter.json", "pocketmq/store.json", "pocketmq/removed.json"),
    *("pocketmq/left_over.json", "pocketmq/queue_ends.json", "pocketmq/floors.json"),
    *("config/messageRequestMode.json", "config/kvConfig.json", "pocketmq/clock.json"),
)
SAMPLES: dict[str, Any] = {
    "config/delayOffset.json": {
        "dataVersion": {"counter": 1}, "offsetTable": {"1": 3},
        "pocketmq": {"deliveredBefore": 5, "clocks": {"2": [[0, 3600000], [7, 0]]}},
    },
    "config/consumerOrderInfo.json": {
        "pocketmqVersion": 7, "orderInfoCount": 1, "table": {"T@g": {"0": {
            "o": [0, 1], "cm": 0, "oc": {"0": 3}, "ot": {"0": 5}, "i": 3, "l": 4, "popTime": 2,
            "pocketmq": {"delivered": [[0, 1, 2, 3, ""]], "next": 0, "settled": [[1, 2]]},
        }}},
    },
    "config/consumerOffset.json": {
        "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 5},
        "offsetTable": {"T@g": {"0": 3}}, "pullOffsetTable": {"T@p": {"0": 1}},
        "pocketmqLeases": {"adopted": True, "begin": 0, "known": 0, "set": {"T@g": {"0": 1}}},
    },
    "config/timermetrics": {"dataVersion": {"counter": 1}, "timingCount": {"T": {"count": 1}}},
    "config/consumerFilter.json": {"filterDataByTopic": {"T": {"groupFilterData": {"g": {
        "bloomFilterData": {"bitNum": 64, "bitPos": [1]}, "expressionType": "SQL92",
        "expression": "a > 1"}}}}},
    "pocketmq/removed.json": {"R": {"0": 7}},
    "config/messageRequestMode.json": {"messageRequestModeMap": {"T": {"g": {
        "consumerGroup": "g", "mode": "POP", "popShareQueueNum": -1, "topic": "T"}}}},
    "config/kvConfig.json": {"configTable": {"ORDER_TOPIC_CONFIG": {"T": "broker-a:4"}}},
    "pocketmq/floors.json": {"T": {"0": 1}},
    "pocketmq/clock.json": {"believed_ms": 1},
    "pocketmq/left_over.json": {"topics": [[5, ["T"]]], "places": [["T", 0, 5]], "starts": []},
}  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the path of every value of a document, its own first."""
    yield path
    named = value.items() if isinstance(value, dict) else ()
    numbered = enumerate(value) if isinstance(value, list) else ()
    for key, inner in (*named, *numbered):
        yield from places(inner, (*path, key))


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Returns a copy of a document with another value in one place."""
    if not path:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[path[0]] = changed(copy[path[0]], path[1:], value)
    return copy


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a topic, a group, its offsets, and samples of what else there may be."""
    directory = tmp_path_factory.mktemp("hostile") / "s"
    asyncio.run(_fill(directory))
    for name, sample in SAMPLES.items():
        (directory / name).write_text(json.dumps(sample))
        (directory / f"{name}.bak").unlink(missing_ok=True)
    return directory


async def _fill(directory: Path) -> None:
    await stocked(directory, 0, 6)
    async with store_at(directory) as store:
        await store.store.tables.topics.ensure("T", 1)
        await store.store.tables.commit("g", "T", 0, 2)


async def use(directory: Path) -> None:
    """Opens a store and change each table."""
    async with store_at(directory) as store:
        tables = store.store.tables
        await tables.topics.ensure("U", 1)
        await tables.commit("h", "U", 0, 1)
        await tables.offsets.remove_topic("T")
        await tables.orders.remove_topic("T")
        await tables.orders.folded()
        await tables.delay_offsets.put({1: 9}, 5, {})
        await tables.removed.add("V", {0: 3})
        await store.send("U", "a")


def cases(document: Any, name: str) -> list[Any]:
    """Returns documents with one odd value each: every place at least once, half of the values.

    Of several tables together all values come; scripts/torture/run directories tries more.
    """
    chance, paths, odd = Random(name), [*places(document)], [*ODD]
    chance.shuffle(paths)
    chance.shuffle(odd)
    count = max(len(paths), len(odd) // 2)
    pairs = zip(islice(cycle(paths), count), cycle(odd), strict=False)
    return [changed(document, path, value) for path, value in pairs]


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", TABLES)
async def test_values_of_other_kinds_are_read_over_or_refused(
    made: Path, memory: Path, name: str
) -> None:
    content = (made / name).read_bytes()
    document = json.loads(content.partition(b"\n")[2] if name.endswith("ends.json") else content)
    for number, case in enumerate(cases(document, name)):
        store = memory / str(number)
        shutil.copytree(made, store)
        (store / name).write_text(json.dumps(case))
        (store / f"{name}.bak").unlink(missing_ok=True)
        with suppress(StorageError):
            await use(store)
            await use(store)
        verify(Disk(), store, SIZES)
        shutil.rmtree(store)


@pytest.mark.parametrize("text", ["null", "[]", '{"offsetTable":[]}', '{"offsetTable":{"T@g":1}}'])
async def test_offsets_of_another_kind_are_refused_by_name(
    made: Path, tmp_path: Path, text: str
) -> None:
    store = Path(shutil.copytree(made, tmp_path / "s"))
    (store / "config/consumerOffset.json").write_text(text)
    (store / "config/consumerOffset.json.bak").unlink(missing_ok=True)
    with pytest.raises(TableUnreadable, match=r"consumerOffset\.json"):
        await use(store)
    with pytest.raises(TableUnreadable, match=r"consumerOffset\.json"):
        group_lags(Disk(), store, {})
    assert verify(Disk(), store, SIZES).counts == {"table": 1}


@pytest.mark.parametrize("count", [2**31 - 1, 2**31, 2**63 - 1])
def test_deliveries_beyond_all_counting_leave_room_to_count_on(count: int) -> None:
    real = {"o": [4], "cm": 0, "oc": {"4": count}, "i": 1, "popTime": 2}
    own = {"pocketmq": {"delivered": [[4, count, 2, 3, ""]], "next": 4, "settled": []}}
    for row in (real, own):
        assert decode_order(row, 4).delivered[4].number == DELIVERIES_MAX


def test_settled_spans_without_end_take_bounded_memory() -> None:
    spans = [[n, 2**63 - 1] for n in range(64)]
    row = {"pocketmq": {"delivered": [], "next": 1 << 40, "settled": spans}}
    assert decode_order(row, 0).settled == frozenset()


# -- counts and junk -------------------------------------------------------------------------------
@pytest.mark.parametrize("content", [b"", b'{"timingCount":{"T":{"cou', b"\0" * 64, b"[]"])
async def test_counts_that_cannot_be_read_are_made_anew(
    made: Path, tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store = Path(shutil.copytree(made, tmp_path / "s"))
    (store / "config/timermetrics").write_bytes(content)
    with caplog.at_level(logging.WARNING):
        await use(store)
    assert "table.counted" in caplog.messages


JUNK = [".nfs000000000012d68700000001", ".DS_Store", "._00000000000000000000", "notes~", ".x.swp"]
PLACES = ["commitlog", "index", "config", "pocketmq", "consumequeue", "consumequeue/T/0", "."]


@pytest.mark.parametrize("place", [*PLACES, "timerlog"])
@pytest.mark.parametrize("name", JUNK)
async def test_what_systems_and_editors_leave_is_passed_over(
    made: Path, tmp_path: Path, place: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = Path(shutil.copytree(made, tmp_path / "s"))
    (store / place).mkdir(exist_ok=True)
    (store / place / name).write_bytes(b"left behind")
    with caplog.at_level(logging.WARNING):
        await use(store)
    assert (store / place / name).read_bytes() == b"left behind"
    is_told = place not in ("pocketmq", "consumequeue/T/0")
    assert ("store.junk" in caplog.messages) is is_told
    assert len(find_log_files(store, 4096)) == len(find_readable_files(store, 4096).files) >= 1
    assert "stray_file" not in verify(Disk(), store, SIZES).counts


@pytest.mark.parametrize("place", ["commitlog", "consumequeue/T/0"])
async def test_another_stray_file_is_refused_with_what_to_do(
    made: Path, tmp_path: Path, place: str
) -> None:
    store = Path(shutil.copytree(made, tmp_path / "s"))
    (store / place).mkdir(exist_ok=True)
    (store / place / "holiday.jpg").touch()
    with pytest.raises(StrayFile, match=r"holiday\.jpg .* move it out of the directory"):
        await use(store)
