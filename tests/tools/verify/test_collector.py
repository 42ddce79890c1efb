"""Findings: all counted, the first kept, files named as below the store."""

from pathlib import Path

from broker.model.finding import Finding
from broker.tools.verify.collector import Collector


def test_counts_go_on_when_no_more_are_kept() -> None:
    collector = Collector(Path("/s"), 2)
    for number in range(4):
        collector.add("unit", Path(f"/s/a/{number}"), number, expected="x", found="y", count=2)
    assert collector.findings == [
        Finding("unit", "a/0", 0, "x", "y"), Finding("unit", "a/1", 1, "x", "y"),
    ]  # fmt: skip
    assert (collector.counts["unit"], collector.is_cut) == (8, True)


def test_notes_come_once_and_other_paths_stay() -> None:
    collector = Collector(Path("/s"))
    collector.remark("a")
    collector.remark("a")
    assert collector.notes == ["a"]
    assert collector.shown("/elsewhere/x") == "/elsewhere/x"
    assert not collector.is_cut
