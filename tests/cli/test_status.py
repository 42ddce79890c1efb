"""The status as a table for people, as numbers for programs; rates are what grew between two
moments, drawn on a terminal, printed elsewhere."""

import asyncio
import sys

import pytest

from pocketmq.cli.connection import BrokerConnection
from pocketmq.cli.status import (
    RecentRates,
    Snapshot,
    TopicMoment,
    difference,
    disk_text,
    head_lines,
    readable_status,
    take_snapshot,
    top,
)
from pocketmq.rpc.pb import admin_pb2 as pb
from pocketmq.services.admin.status import Process, store_status
from tests.cli.command_line import run
from tests.cli.local_broker import STATUS, LocalBroker
from tests.kit.terminal import Terminal


def test_programs_get_every_number(broker: LocalBroker) -> None:
    wanted = asyncio.run(store_status(broker.store, Process()))
    assert run("status").document == wanted._asdict()


def test_people_get_a_few_lines(broker: LocalBroker) -> None:
    broker.answers["Admin/StoreStatus"] = lambda request: pb.StoreStatusResponse(**STATUS._asdict())
    lines = dict(line.split(maxsplit=1) for line in run("status", "-o", "table").out.splitlines())
    assert lines["broker"] == "broker-a of DefaultCluster, version 0.1.0 (commit 0123456789ab)"
    assert lines["state"].startswith("running since 20")
    assert lines["appended_offset"] == "3000, 3.0 kB from 0"
    assert lines["flushed_offset"] == "3000, up to date"
    assert lines["dispatched_offset"] == "2000, 1.0 kB behind"
    assert lines["disk_free_bytes"] == "30.0 MB free of 100 MB (30 %)"


def test_the_commit_of_a_broker_that_reports_none_is_unknown() -> None:
    old = readable_status(STATUS._replace(commit=""))
    assert old["broker"] == "broker-a of DefaultCluster, version 0.1.0 (commit unknown)"


def test_a_disk_of_unknown_size_is_no_error() -> None:
    unknown = STATUS._replace(disk_free_bytes=0, disk_total_bytes=0)
    assert disk_text(unknown) == "0 B free of 0 B"


def test_settings_come_with_their_origin(broker: LocalBroker) -> None:
    done = run("status", "--settings")
    assert done.document == [{"key": "store.flush", "value": "async", "origin": "--set"}]


def moment(stored: int, committed: int, lag: int = 0) -> TopicMoment:
    return TopicMoment(stored, stored, committed, lag, 1)


def test_a_snapshot_has_all_topics_and_what_groups_left(broker: LocalBroker) -> None:
    broker.fill(3)
    broker.store.tables.topics.adopt("audit", 1)
    broker.stand("billing", "orders", q0=1)
    broker.stand("other", "orders", q0=3)
    with BrokerConnection("x") as connected:
        taken = take_snapshot(connected)
    assert taken.topics == {
        "audit": TopicMoment(0, 0, 0, 0, 0),
        "orders": TopicMoment(3, 3, 4, 2, 2),
    }
    assert taken.status == asyncio.run(store_status(broker.store, Process()))


def test_rates_are_by_the_second_and_the_busiest_comes_first() -> None:
    before = Snapshot(10.0, STATUS, {"a": moment(5, 0), "b": moment(0, 0)})
    after = Snapshot(12.0, STATUS, {"a": moment(6, 0), "b": moment(10, 4, 6)})
    assert [tuple(row.values()) for row in difference(before, after)["topics"]] == [
        ("b", 5.0, 2.0, 6, 10, 1),
        ("a", 0.5, 0.0, 0, 6, 1),
    ]


@pytest.mark.parametrize(
    ("then", "now"), [(moment(9, 9), moment(0, 0)), (None, moment(7, 7))], ids=["reset", "new"]
)
def test_what_began_anew_has_no_rate_yet(then: TopicMoment | None, now: TopicMoment) -> None:
    before = Snapshot(0.0, STATUS, {"a": then} if then else {})
    (row,) = difference(before, Snapshot(1.0, STATUS, {"a": now}))["topics"]
    assert (row["in_per_s"], row["out_per_s"]) == (0.0, 0.0)


def test_the_document_sums_up() -> None:
    later = STATUS._replace(appended_offset=STATUS.appended_offset + 500)
    before = Snapshot(0.0, STATUS, {"a": moment(0, 0), "b": moment(0, 0)})
    after = Snapshot(2.0, later, {"a": moment(2, 0, 2), "b": moment(4, 4)})
    document = difference(before, after)
    assert (document["interval_s"], document["log_bytes_per_s"]) == (2.0, 250)
    assert (document["in_per_s"], document["out_per_s"]) == (3.0, 2.0)
    assert document["lag_messages"] == 2
    assert document["store"] == later._asdict()


@pytest.fixture
def busy(broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> LocalBroker:
    """Each interval a message comes in."""

    def pause(seconds: float) -> None:
        broker.fill(1)

    monkeypatch.setattr("pocketmq.cli.status.sleep", pause)
    return broker


def test_a_pipe_gets_one_document(busy: LocalBroker) -> None:
    document = run("top").document
    assert [row["name"] for row in document["topics"]] == ["orders"]
    assert document["topics"][0]["in_per_s"] > 0
    assert document["store"]["state"] == "running"


def test_as_many_as_asked_for(busy: LocalBroker) -> None:
    rows = run("top", "--count", "2", "-o", "jsonl").rows
    assert [row["topics"][0]["message_count"] for row in rows] == [1, 2]


def test_a_table_without_a_terminal_is_plain(busy: LocalBroker) -> None:
    lines = run("top", "-o", "table").out.splitlines()
    assert lines[0].split() == [
        "NAME", "IN_PER_S", "OUT_PER_S", "LAG_MESSAGES", "MESSAGE_COUNT", "GROUP_COUNT",
    ]  # fmt: skip
    assert lines[1].split()[0] == "orders"


def test_a_terminal_gets_a_picture(busy: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("TERM", "xterm")
    top.main(["--count", "1", "-o", "table"], standalone_mode=False, prog_name="pocketmq top")
    drawn = screen.getvalue()
    assert "IN_PER_S" in drawn
    assert "orders" in drawn
    assert "broker-a of DefaultCluster" in drawn
    assert "Ctrl-C ends" in drawn


def test_each_topic_has_a_line_of_its_last_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pocketmq.cli.status.can_draw_blocks", lambda: False)
    recent = RecentRates()
    for in_per_s in (0.0, 5.0, 10.0):
        recent.add({"topics": [{"name": "a", "in_per_s": in_per_s}]})
    assert recent.line("a") == "049"
    recent.add({"topics": [{"name": "b", "in_per_s": 1.0}]})
    assert recent.line("b") == "9"
    recent.add({"topics": [{"name": "a", "in_per_s": 1.0}]})  # Removed and created again.
    assert recent.line("a") == "9"


def test_the_picture_has_these_lines(busy: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr("pocketmq.cli.status.can_draw_blocks", lambda: False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    top.main(["--count", "2", "-o", "table"], standalone_mode=False, prog_name="pocketmq top")
    drawn = screen.getvalue()
    assert "RECENT_IN" in drawn
    last = [line for line in drawn.splitlines() if "orders" in line][-1]
    assert len(last.split()[-1]) == 2


def test_ctrl_c_ends_the_picture(busy: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setattr("pocketmq.cli.status.sleep", interrupt)
    top.main(["-o", "table"], standalone_mode=False, prog_name="pocketmq top")


def test_the_head_tells_of_the_store() -> None:
    moment = Snapshot(0.0, STATUS, {})
    text = "\n".join(head_lines(difference(moment, moment)))
    assert "disk 30.0 MB free of 100 MB" in text
    assert "log 3.0 kB, 0 B/s" in text
    assert "retention on" in text


def test_a_refusal_of_sends_has_no_begin() -> None:
    shown = readable_status(STATUS._replace(state="disk_full"))["state"]
    assert shown.startswith("disk_full: sends that need a new file are refused; the broker serves")
    nearly = STATUS._replace(state="disk_full", send_refusal="20 MB free")
    shown = readable_status(nearly)["state"]
    assert shown.startswith("disk_full: sends are refused as the disk has too little room; they")
    shown = readable_status(STATUS._replace(state="read_only"))["state"]
    assert shown.startswith("read_only: sends are refused; the broker serves since 2026-")
