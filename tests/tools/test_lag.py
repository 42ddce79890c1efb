"""Lag is where a queue ends less what a group committed, from queues or from the log."""

import json
from pathlib import Path

import pytest

from broker.files.disk import Disk
from broker.format.index_layout import IndexGeometry
from broker.tools.lag import GroupLag, group_lags, queue_ranges, ranges_in_log
from broker.tools.selection import LogSearch
from tests.fakes.log_bytes import LogBytes, golden_files
from tests.fakes.tool_sizes import golden_tool_sizes, known_shape
from tests.golden_stores import GoldenStores


@pytest.mark.parametrize("name", ["basic", "semantics", "v533"])
def test_what_queues_hold(golden: GoldenStores, name: str) -> None:
    queues = [queue for queue in golden.manifest(name)["queues"] if queue["maxOffset"]]
    expected = {(q["topic"], q["queueId"]): (q["minOffset"], q["maxOffset"]) for q in queues}
    sizes = golden_tool_sizes(golden, name)
    search = LogSearch(golden_files(golden, name))
    assert queue_ranges(Disk(), golden.store(name), sizes, search) == expected
    assert ranges_in_log(search) == expected


def test_lags(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    table = {"offsetTable": {"T@g": {0: 3, "1": 9}, "T@a": {"0": 0}, "gone@g": {"0": 7}}}
    (tmp_path / "config" / "consumerOffset.json").write_text(json.dumps(table))
    ranges = {("T", 0): (2, 5), ("T", 1): (0, 8)}
    assert group_lags(Disk(), tmp_path, ranges) == [
        GroupLag("a", "T", 0, 0, 5, 3),
        GroupLag("g", "T", 0, 3, 5, 2),
        GroupLag("g", "T", 1, 9, 8, 0),
        GroupLag("g", "gone", 0, 7, None, 0),
    ]


def test_a_store_without_groups_or_queues(tmp_path: Path) -> None:
    assert group_lags(Disk(), tmp_path, {}) == []
    log = LogBytes(tmp_path)
    log.add("T", 2, queue_offset=4)
    log.add("H", 0, queue_offset=9, flags=0x4)
    log.add("T", 2, queue_offset=5)
    search = LogSearch(log.close().found())
    sizes = known_shape(4096, 200, IndexGeometry(7, 10))
    assert queue_ranges(Disk(), tmp_path, sizes, search) == {("T", 2): (4, 6)}


def test_a_table_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "consumerOffset.json").write_text("{")
    with pytest.raises(ValueError):
        group_lags(Disk(), tmp_path, {})
