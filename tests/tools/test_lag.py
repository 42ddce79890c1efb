"""Lag is where a queue ends less what a group committed, from queues or from the log."""

import json
from pathlib import Path

import pytest

from broker.files.disk import Disk
from broker.tools.lag import GroupLag, ends_in_log, group_lags, has_queues, queue_ends
from broker.tools.selection import LogSearch, Selection
from tests.fakes.log_bytes import LogBytes, golden_files
from tests.fakes.tool_sizes import golden_tool_sizes
from tests.golden_stores import GoldenStores


@pytest.mark.parametrize("name", ["basic", "semantics", "v533"])
def test_where_queues_end(golden: GoldenStores, name: str) -> None:
    queues = golden.manifest(name)["queues"]
    expected = {(q["topic"], q["queueId"]): q["maxOffset"] for q in queues if q["maxOffset"]}
    sizes = golden_tool_sizes(golden, name)
    assert has_queues(Disk(), golden.store(name))
    assert queue_ends(Disk(), golden.store(name), sizes) == expected
    assert ends_in_log(LogSearch(golden_files(golden, name), Selection())) == expected


def test_lags(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    table = {"offsetTable": {"T@g": {0: 3, "1": 9}, "T@a": {"0": 0}, "gone@g": {"0": 7}}}
    (tmp_path / "config" / "consumerOffset.json").write_text(json.dumps(table))
    ends = {("T", 0): 5, ("T", 1): 8}
    assert group_lags(Disk(), tmp_path, ends) == [
        GroupLag("a", "T", 0, 0, 5, 5),
        GroupLag("g", "T", 0, 3, 5, 2),
        GroupLag("g", "T", 1, 9, 8, 0),
        GroupLag("g", "gone", 0, 7, None, 0),
    ]


def test_a_store_without_groups_or_queues(tmp_path: Path) -> None:
    assert group_lags(Disk(), tmp_path, {}) == []
    assert not has_queues(Disk(), tmp_path)
    log = LogBytes(tmp_path)
    log.add("T", 2, queue_offset=4)
    log.add("H", 0, queue_offset=9, flags=0x4)
    assert ends_in_log(LogSearch(log.close().found(), Selection())) == {("T", 2): 5}


def test_a_table_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "consumerOffset.json").write_text("{")
    with pytest.raises(ValueError):
        group_lags(Disk(), tmp_path, {})
