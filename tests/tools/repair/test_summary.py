"""Plans and reports in sentences."""

from broker.model.finding import Finding
from broker.tools.repair.actions import RepairPlan
from broker.tools.repair.summary import summary
from tests.tools.repair.test_actions import ACTION, FILE

FINDING = Finding("missing_file", "commitlog/1", 0, "a file of the log", "no file", False)


def test_a_plan() -> None:
    plan = RepairPlan(
        log=[ACTION], files=[FILE], view_findings={"unit": 2}, checkpoint=True, missing=(5, 9),
        blocked=[FINDING], notes=["odd"],
    )  # fmt: skip
    assert summary(plan.document) == [
        "commitlog/0 at 10, 20 bytes: torn: stand-in records",
        "  lost: 2 messages of T:0 from 7 on",
        "  lost: 1 messages of U:1 from 0 on",
        "config/topics.json: torn: its .bak takes its place",
        "the log ends at 5, but was durable up to 9: what lay between is gone",
        "checkpoint: brought down to what the log holds",
        "queues and index: 2 × unit",
        "queues and index: built anew",
        (
            "commitlog/1 at byte 0: missing_file, expected a file of the log, found no file: "
            "cannot be mended"
        ),
        "note: odd",
    ]


def test_a_report() -> None:
    views = {"records": 3, "queues": 2, "index_files": 1, "old_ones_kept_in": "/old"}
    report = {**RepairPlan().document, "views": views, "numbers": {"mark": None}}
    assert summary(report) == [
        "checkpoint: brought down to what the log holds",
        "queues and index: built anew, 3 records in 2 queues and 1 index files",
        "the old ones are kept in /old",
    ]


def test_nothing() -> None:
    assert summary(RepairPlan().document) == []
