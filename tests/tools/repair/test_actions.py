"""A plan knows whether it does anything, and shows all of it, in sentences too."""

import json

import pytest

from pocketmq.format.filler_record import Style
from pocketmq.model.finding import Finding, Loss
from pocketmq.tools.repair.actions import (
    FileAct,
    FileAction,
    LogAct,
    LogAction,
    RepairPlan,
    summary,
)

ACTION = LogAction(
    file="commitlog/0", begin=10, end=30, reason="torn", act=LogAct.STAND_IN,
    style=Style(0, property_crc=False), losses=(Loss("T", 0, 7, 2), Loss("U", 1, 0, 1)),
)  # fmt: skip
FILE = FileAction("config/topics.json", "torn", FileAct.RESTORE)
FINDING = Finding("born_time", "commitlog/0", 5, "a time", "-1")


@pytest.mark.parametrize(
    ("plan", "builds_views"),
    [
        (RepairPlan(log=[ACTION]), True),
        (RepairPlan(view_findings={"unit": 1}), True),
        (RepairPlan(is_continued=True), True),
        (RepairPlan(files=[FILE]), False),
        (RepairPlan(checkpoint=True), False),
        (RepairPlan(missing=(1, 2)), False),
    ],
)
def test_what_makes_work(plan: RepairPlan, builds_views: bool) -> None:
    assert not plan.is_empty
    assert plan.builds_views == builds_views
    json.dumps(plan.document)


MISSING = Finding("missing_file", "commitlog/1", 0, "a file of the log", "no file", False)


def test_a_plan() -> None:
    plan = RepairPlan(
        log=[ACTION], files=[FILE], view_findings={"unit": 2}, checkpoint=True, missing=(5, 9),
        lost_behind=(Loss("T", 0, 9, 4),), blocked=[MISSING], notes=["odd"],
    )  # fmt: skip
    assert plan.lost_count == 7
    assert summary(plan.document) == [
        "messages lost: 7",
        "  lost: T:0 from offset 7 on: 2",
        "  lost: U:1 from offset 0 on: 1",
        "  lost: T:0 from offset 9 on: 4",
        "commitlog/0 at byte 10 (physical offset 10), 20 bytes: torn: filler records",
        "config/topics.json: torn: its .bak takes its place",
        "the log ends at 5, but was durable up to 9: the records between are lost",
        "checkpoint: lowered to the log's end",
        "queues and index: 2 × unit",
        "queues and index: rebuilt",
        (
            "commitlog/1 at byte 0: missing_file, expected a file of the log, found no file: "
            "not repaired"
        ),
        "note: odd",
    ]


def test_an_empty_plan() -> None:
    plan = RepairPlan(left=[FINDING], blocked=[FINDING])
    assert plan.is_empty
    assert not plan.builds_views
    assert plan.document["left_as_it_is"] == [FINDING.document]
    assert summary(RepairPlan().document) == []


def test_a_report() -> None:
    views = {"records": 3, "queues": 2, "index_files": 1, "old_ones_kept_in": "/old"}
    report = {**RepairPlan().document, "views": views, "numbers": {"mark": None}}
    assert summary(report) == [
        "checkpoint: lowered to the log's end",
        "queues and index: rebuilt, 3 records in 2 queues and 1 index files",
        "the old ones are kept in /old",
    ]
