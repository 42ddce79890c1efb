"""`pocketmq tail` prints in the order of the log; what comes when: client/test_tail.py."""

from typing import Any

import pytest

from pocketmq.client import Unreachable, following
from pocketmq.model.batch import Destination
from pocketmq.rpc.pb import broker_pb2 as pb
from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker
from tests.kit.store_language import STORE_HOST, put_row


def test_the_command_prints_and_commits_nothing(broker: LocalBroker) -> None:
    broker.fill(3)
    done = run("tail", "orders", "-n", "2", "--no-follow", "-o", "jsonl")
    assert [row["body_text"] for row in done.rows] == ["1", "2"]
    pulls = broker.requests("PullMessage")
    assert all(not pull.group and not pull.HasField("commit_offset") for pull in pulls)


def test_since_and_max(broker: LocalBroker) -> None:
    broker.fill(3)
    done = run("tail", "orders", "--since", "0", "--max", "2", "-o", "jsonl")
    assert [row["body_text"] for row in done.rows] == ["0", "1"]


def test_times_are_not_looked_up_in_topics_of_the_broker(broker: LocalBroker) -> None:
    broker.fill(1, topic="SCHEDULE_TOPIC_XXXX")
    done = run("tail", "SCHEDULE_TOPIC_XXXX", "--since", "0", "--no-follow", "-o", "jsonl")
    assert (len(done.rows), broker.requests("QueryByTime")) == (1, [])


def test_a_filter_goes_to_the_broker(broker: LocalBroker) -> None:
    run("tail", "orders", "--no-follow", "--tag-filter", "a||b")
    assert {pull.filter.expression for pull in broker.requests("PullMessage")} == {"a||b"}


def test_sql_chooses_what_is_printed(broker: LocalBroker) -> None:
    broker.fill(4)
    done = run(
        "tail",
        "orders",
        "--since",
        "0",
        "--no-follow",
        "-o",
        "jsonl",
        "--filter",
        "UNIQ_KEY IN ('ID1', 'ID3')",
    )
    assert [row["body_text"] for row in done.rows] == ["1", "3"]
    assert {pull.filter.kind for pull in broker.requests("PullMessage")} == {pb.Filter.SQL}
    both = run("tail", "orders", "--filter", "n > 1", "--tag-filter", "a")
    assert both.code == 2
    wrong = run("tail", "orders", "--no-follow", "--since", "0", "--filter", "n >")
    assert wrong.code != 0
    assert "at its end, expected" in wrong.err


def test_a_broker_that_comes_back_is_read_on(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "RETRY_S", 0.0)
    failures = [Unreachable("Unreachable", "no broker answers", retryable=True)]

    async def pull(request: pb.PullMessageRequest) -> Any:
        if request.wait_ms and failures:
            failure = failures.pop()
            rows = [put_row(b"late", unique_key="late")]
            await broker.put(Destination("orders", 0, STORE_HOST), rows)
            raise failure
        return await broker.serve("Broker/PullMessage", request)

    broker.fill(1)
    broker.answers["Broker/PullMessage"] = pull
    done = run("tail", "orders", "--max", "1", "-o", "jsonl")
    assert [row["body_text"] for row in done.rows] == ["late"]
    assert done.err == (
        "waiting for new messages of orders; --from earliest prints those before\n"
        "no broker answers; trying again until Ctrl-C\nThe broker answers again.\n"
    )


def test_a_wait_for_new_messages_is_announced_unless_the_topic_is_missing(
    broker: LocalBroker,
) -> None:
    broker.fill(1)
    announced = "waiting for new messages"
    assert announced not in run("tail", "oders").err
    assert announced not in run("tail", "orders", "--no-follow").err
    assert announced not in run("tail", "orders", "-n", "1", "--max", "1").err
