"""Groups are created, listed, described, moved and removed; the last two only with --yes."""

from typing import Any

import pytest

from pocketmq.cli.output import duration
from pocketmq.model.administration import GroupSettings
from pocketmq.rpc.pb import admin_pb2 as pb
from pocketmq.rpc.pb import replication_pb2
from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ((), GroupSettings(True, False, 17, 1)),
        (("--fifo", "true", "--max-attempts", "3", "--retry-queues", "2", "--enabled", "false"),
         GroupSettings(False, True, 3, 2)),
    ],
)  # fmt: skip
def test_a_group_is_created_as_told_else_with_rocketmqs_defaults(
    broker: LocalBroker, options: tuple[str, ...], wanted: GroupSettings
) -> None:
    document = run("group", "create", "billing", *options).document
    assert (document["name"], document["max_attempts"]) == ("billing", wanted.max_attempts)
    assert broker.store.tables.groups.existing("billing").settings[:4] == wanted[:4]


def test_a_group_that_is_there_with_other_settings_is_refused(broker: LocalBroker) -> None:
    assert run("group", "create", "billing", "--fifo", "true").code == 0
    done = run("group", "create", "billing")
    assert done.code == 4
    assert "exists already with other settings: fifo is True, not False" in done.err
    assert "pocketmq group edit billing changes it" in done.err


def test_a_creation_reports_that_the_group_existed(broker: LocalBroker) -> None:
    assert "existed" not in run("group", "create", "billing").err
    again = run("group", "create", "billing")
    assert again.code == 0
    assert "group billing existed with these settings; nothing was changed" in again.err
    assert "existed" not in run("topic", "create", "steps").err
    assert "topic steps existed with these settings" in run("topic", "create", "steps").err


def test_what_is_given_is_changed(broker: LocalBroker) -> None:
    run("group", "create", "billing", "--max-attempts", "3")
    document = run("group", "edit", "billing", "--fifo", "true").document
    assert (document["fifo"], document["max_attempts"]) == (True, 3)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("max", "max"),
        ("earliest", "min"),
        ("2026-11-21T03:30:00+01:00", "2026-11-21T02:30:00Z"),
        ("1795228200000", "2026-11-21T02:30:00Z"),
    ],
)
def test_a_group_begins_where_it_is_told(broker: LocalBroker, text: str, shown: str) -> None:
    document = run("group", "create", "billing", "--begin", text).document
    assert (document["begin"], document["begins_at_min"]) == (shown, shown != "max")
    assert run("group", "edit", "billing", "--begin", "min").document["begin"] == "min"


def test_a_begin_that_is_none_is_wrong_use(broker: LocalBroker) -> None:
    done = run("group", "create", "billing", "--begin", "soon")
    assert (done.code, "'soon' is none of these: earliest, latest" in done.err) == (2, True)
    done = run("group", "create", "billing", "--begin", "15")
    assert done.code == 2


def test_a_group_goes_with_yes(broker: LocalBroker) -> None:
    broker.store.tables.topics.adopt("%RETRY%billing", 1)
    broker.stand("billing", "orders", q0=1)
    done = run("group", "rm", "billing", "--with-topics", "--yes")
    assert done.document == {"group": "billing", "removed_topics": ["%RETRY%billing"]}
    assert broker.store.tables.groups.names() == []


def test_without_yes_the_plan_is_shown(broker: LocalBroker) -> None:
    broker.stand("billing", "orders", q0=1)
    done = run("group", "rm", "billing")
    assert done.code == 4
    assert done.document == {"group": "billing", "offsets_in": ["orders"], "with_topics": False}
    assert "Plan:  the group would be removed, with its offsets in 1 topic\n" in done.err
    assert "--yes" in done.err
    assert broker.store.tables.groups.names() == ["billing"]
    broker.store.tables.topics.adopt("%RETRY%billing", 1)
    also = run("group", "rm", "billing", "--with-topics").err
    assert "with its offsets in 1 topic, and topic %RETRY%billing\n" in also


@pytest.fixture
def behind(broker: LocalBroker) -> LocalBroker:
    """Group billing has read one of three messages in orders."""
    broker.fill(3)
    broker.stand("billing", "orders", q0=1)
    broker.clock.advance(90_000)
    return broker


def test_all_pages_are_listed(broker: LocalBroker) -> None:
    for name in ("b", "a", "c"):
        broker.stand(name, "orders")
    assert [row["name"] for row in run("group", "ls", "-o", "jsonl").rows] == ["a", "b", "c"]


def test_a_list_as_a_table(behind: LocalBroker) -> None:
    assert run("group", "ls", "-o", "table").out.splitlines() == [
        "NAME     ENABLED  FIFO  MAX_ATTEMPTS  RETRY_QUEUE_COUNT  MEMBER_COUNT  LAG_MESSAGES",
        f"billing  yes      no    17            1                  0             2  {20 * '█'}",
    ]


def test_a_group_is_described_with_its_topics(behind: LocalBroker) -> None:
    document = run("group", "info", "billing").document
    assert (document["name"], document["topics"]) == ("billing", ["orders"])


def test_lag_of_a_group_by_queue(behind: LocalBroker) -> None:
    place = {
        "group": "billing", "topic": "orders", "min_offset": 0, "in_flight_count": 0,
        "in_flight_ms": 0,
    }  # fmt: skip
    first = {"queue_id": 0, "committed_offset": 1, "max_offset": 3, "lag_messages": 2}
    second = {"queue_id": 1, "max_offset": 0, "lag_messages": 0}
    assert run("group", "lag", "billing").document == [
        {**place, **first, "lag_ms": 90_000},
        {**place, **second, "lag_ms": 0},
    ]
    head, first_row, second_row = run("group", "lag", "billing", "-o", "table").out.splitlines()
    assert head.split() == [
        *("TOPIC", "QUEUE_ID", "COMMITTED_OFFSET", "MAX_OFFSET", "LAG_MESSAGES", "LAG"),
        "IN_FLIGHT_COUNT",
    ]
    assert first_row.split() == ["orders", "0", "1", "3", "2", 20 * "█", "90", "s", "0"]
    assert second_row.split() == ["orders", "1", "0", "0", "0"]


def test_lag_at_a_follower_notes_where_messages_in_flight_are_counted(behind: LocalBroker) -> None:
    def status(request: Any) -> replication_pb2.ReplicationStatusResponse:
        return replication_pb2.ReplicationStatusResponse(role="follower", leader="10.0.0.2:8081")

    assert run("group", "lag", "billing").err == ""
    behind.answers["Replication/ReplicationStatus"] = status
    noted = "this broker follows 10.0.0.2:8081: messages in flight are counted at the leader only\n"
    assert run("group", "lag", "billing").err == noted


def test_a_group_that_stands_nowhere_is_told(broker: LocalBroker) -> None:
    run("group", "create", "new")
    done = run("group", "lag", "new", "-o", "table")
    assert (done.code, done.out, done.err) == (0, "", "new has no offset yet\n")


def test_lag_of_one_topic(behind: LocalBroker) -> None:
    behind.store.tables.topics.adopt("audit", 1)
    behind.stand("billing", "audit", q0=0)
    rows = run("group", "lag", "billing", "--topic", "audit").document
    assert [row["topic"] for row in rows] == ["audit"]


def test_lag_of_all_groups(behind: LocalBroker) -> None:
    behind.stand("audit", "orders", q0=3)
    assert run("group", "lag").document == [
        {"group": "audit", "topic": "orders", "committed_sum": 3, "lag_messages": 0},
        {"group": "billing", "topic": "orders", "committed_sum": 1, "lag_messages": 2},
    ]
    assert run("group", "lag", "-o", "table").out.split()[:3] == ["GROUP", "TOPIC", "LAG_MESSAGES"]


@pytest.mark.parametrize(
    ("age_ms", "text"),
    [
        (0, ""),
        (250, "250 ms"),
        (1_999, "1999 ms"),
        (2_000, "2 s"),
        (119_999, "119 s"),
        (120_000, "2 m"),
        (7_200_000, "2 h"),
        (172_800_000, "2 d"),
    ],
)
def test_ages_for_people(age_ms: int, text: str) -> None:
    assert duration(age_ms) == text


EARLIEST, LATEST = pb.ResetOffsetsRequest.EARLIEST, pb.ResetOffsetsRequest.LATEST
RESET = ("group", "reset", "billing", "--topic", "orders")


@pytest.fixture
def standing(broker: LocalBroker) -> LocalBroker:
    """Group billing stands at 2 of queue 0."""
    broker.fill(3)
    broker.stand("billing", "orders", q0=2)
    return broker


def test_a_reset_tells_old_and_new(standing: LocalBroker) -> None:
    done = run(*RESET, "--to", "earliest", "--yes")
    assert done.code == 0
    assert done.document == [
        {"group": "billing", "topic": "orders", "queue_id": 0, "old_offset": 2, "new_offset": 0},
        {"group": "billing", "topic": "orders", "queue_id": 1, "new_offset": 0},
    ]
    assert standing.stands("billing") == {0: 0, 1: 0}


def test_without_yes_a_reset_is_a_plan(standing: LocalBroker) -> None:
    done = run(*RESET, "--to", "earliest")
    assert done.code == 4
    assert [row["new_offset"] for row in done.document] == [0, 0]
    assert "offsets of billing in 2 queues would change" in done.err
    assert "--yes" in done.err
    assert standing.stands("billing") == {0: 2}


@pytest.mark.parametrize(
    ("options", "target"),
    [
        (["--to", "earliest"], {"place": EARLIEST}),
        (["--to", "min"], {"place": EARLIEST}),
        (["--to", "latest"], {"place": LATEST}),
        (["--to", "max"], {"place": LATEST}),
        (["--to", "1795228200000"], {"time_ms": 1_795_228_200_000}),
        (["--to", "2026-11-21T02:30:00Z"], {"time_ms": 1_795_228_200_000}),
        (["--to-offset", "0"], {"offset": 0}),
    ],
)
def test_where_to(standing: LocalBroker, options: list[str], target: dict[str, Any]) -> None:
    assert run(*RESET, *options, "--yes").code == 0
    assert standing.requests("ResetOffsets") == [
        pb.ResetOffsetsRequest(group="billing", topic="orders", **target)
    ]


def test_an_offset_that_no_queue_has_is_refused(standing: LocalBroker) -> None:
    done = run(*RESET, "--to-offset", "7", "--yes")
    assert done.code == 4
    assert "not every queue of orders has this offset" in done.err
    assert "one queue: --queue N" in done.err
    of_one = run(*RESET, "--to-offset", "7", "--queue", "0", "--yes")
    assert of_one.code == 4
    assert "a queue of orders that --queue names lacks this offset: offset 7" in of_one.err
    assert "one queue" not in of_one.err
    assert "topic info orders" in of_one.err


def test_a_time_before_now_is_written_with_a_minus(standing: LocalBroker) -> None:
    assert run(*RESET, "--to", "-1h", "--yes").code == 0
    (request,) = standing.requests("ResetOffsets")
    assert request.time_ms


def test_some_queues_only(standing: LocalBroker) -> None:
    run(*RESET, "--to", "latest", "--queue", "1", "--queue", "0", "--yes")
    assert standing.requests("ResetOffsets")[0].queue_ids == [1, 0]


@pytest.mark.parametrize(
    "options",
    [[], ["--to", "earliest", "--to-offset", "1"], ["--to", "soon"], ["--to-offset", "-1"]],
)
def test_wrong_use_is_refused_without_asking(standing: LocalBroker, options: list[str]) -> None:
    assert run(*RESET, *options).code == 2
    assert run("group", "reset", "billing", "--to-offset", "1").code == 2
    assert run("group", "reset", "billing", "--to", "latest", "--queue", "0").code == 2
    assert standing.calls == []


def test_without_a_topic_all_of_the_group_are_meant(standing: LocalBroker) -> None:
    standing.stand("billing", "%RETRY%billing", q0=1)
    standing.stand("billing", "%DLQ%billing", q0=1)
    done = run("group", "reset", "billing", "--to", "earliest")
    assert {row["topic"] for row in done.document} == {"orders"}


def test_a_clone_stands_where_its_source_stands(standing: LocalBroker) -> None:
    assert run("group", "clone", "billing", "other").code == 4
    assert standing.stands("other") == {}
    done = run("group", "clone", "billing", "other", "--yes")
    assert done.document == [{"group": "other", "topic": "orders", "queue_id": 0, "new_offset": 2}]
    assert standing.stands("other") == {0: 2}


def test_a_clone_of_nothing_says_so(standing: LocalBroker) -> None:
    standing.store.tables.topics.adopt("audit", 1)
    done = run("group", "clone", "billing", "other", "--topic", "audit", "--yes")
    assert (done.code, done.document) == (0, [])
    assert done.err == "billing has no offset in audit: there is nothing to clone\n"
    plan = run("group", "clone", "billing", "other", "--topic", "audit")
    assert (plan.code, plan.err) == (0, done.err)


def test_what_waits_is_passed_over_with_yes(behind: LocalBroker) -> None:
    behind.add("%RETRY%billing", b"r")
    behind.add("%DLQ%billing", b"d")
    behind.stand("billing", "%RETRY%billing", q0=0)
    behind.stand("billing", "%DLQ%billing", q0=0)
    done = run("group", "skip", "billing")
    moved = [(row["topic"], row["queue_id"], row["new_offset"]) for row in done.document]
    assert (done.code, moved) == (
        4,
        [("%RETRY%billing", 0, 1), ("%RETRY%billing", 1, 0), ("orders", 0, 3), ("orders", 1, 0)],
    )
    assert behind.stands("billing")[0] == 1
    assert run("group", "skip", "billing", "--topic", "orders", "--yes").code == 0
    assert behind.stands("billing")[0] == 3
    assert behind.stands("billing", "%RETRY%billing") == {0: 0}
    assert run("group", "skip", "billing", "--yes").code == 0
    assert behind.stands("billing", "%RETRY%billing")[0] == 1
    assert behind.stands("billing", "%DLQ%billing") == {0: 0}


def test_a_plan_counts_what_is_skipped_in_queues_without_an_offset(broker: LocalBroker) -> None:
    """The group would begin there at the first message, as its lag shows."""
    broker.fill(3)
    broker.fill(2, queue_id=1)
    run("group", "create", "billing")
    broker.stand("billing", "orders", q0=1)
    assert "2 queues would change: 4 messages skipped" in run("group", "skip", "billing").err
    ahead = run("group", "reset", "billing", "--topic", "orders", "--to", "latest")
    assert "4 messages skipped" in ahead.err
    back = run("group", "reset", "billing", "--topic", "orders", "--to", "earliest")
    assert "2 queues would change: 1 message delivered again\n" in back.err


@pytest.mark.parametrize(
    ("begin", "skipped"), [("earliest", ": 5 messages skipped"), ("latest", ""), ("-1h", "")]
)
def test_a_plan_for_a_group_that_has_not_begun_counts_from_its_begin(
    broker: LocalBroker, begin: str, skipped: str
) -> None:
    broker.fill(3)
    broker.fill(2, queue_id=1)
    run("group", "create", "billing", "--begin", begin)
    ahead = run("group", "reset", "billing", "--topic", "orders", "--to", "latest")
    assert f"Plan:  offsets of billing in 2 queues would change{skipped}\n" in ahead.err


def test_a_change_of_no_offset_is_no_plan(broker: LocalBroker) -> None:
    broker.fill(3)
    run("group", "create", "billing")
    none = "billing has no offset yet: nothing to change; name a topic: --topic TOPIC\n"
    for options in (["skip", "billing"], ["reset", "billing", "--to", "latest"]):
        for yes in ([], ["--yes"]):
            done = run("group", *options, *yes)
            assert (done.code, done.document, done.err) == (0, [], none)
    broker.stand("billing", "orders", q0=3, q1=0)
    same = run("group", "skip", "billing", "--yes")
    assert same.err == "billing has these offsets already: nothing to change\n"


def test_a_done_reset_reports_how_many_queues_changed(broker: LocalBroker) -> None:
    broker.fill(3)
    run("group", "create", "billing")
    broker.stand("billing", "orders", q0=3, q1=0)
    done = run("group", "reset", "billing", "--topic", "orders", "--to", "earliest", "--yes")
    assert (done.code, done.err) == (0, "Changed: offsets of billing in 1 queue\n")
