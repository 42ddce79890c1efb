"""A group receives what its consumers would; what was printed is acknowledged."""

import pytest

from pocketmq.model.begin import begin_text
from tests.cli.command_line import Ran, run
from tests.cli.local_broker import LocalBroker


@pytest.fixture
def ready(broker: LocalBroker) -> LocalBroker:
    """Group billing has three messages to receive."""
    run("group", "create", "billing")
    broker.fill(3)
    return broker


def pop(*options: str) -> Ran:
    return run("consume", "orders", "-g", "billing", "--pop", "-o", "jsonl", *options)


def bodies(done: Ran) -> list[str]:
    assert done.code == 0, done.err
    return [row["body_text"] for row in done.rows]


def test_what_was_printed_is_done(ready: LocalBroker) -> None:
    assert bodies(pop()) == ["0", "1", "2"]
    ready.do(ready.inner.pass_time(3_600_000))
    done = pop()
    assert bodies(done) == []
    assert done.err == "no message of orders for billing now; --wait 30s waits for some\n"


def test_without_a_message_the_leased_and_the_dead_ones_are_reported(ready: LocalBroker) -> None:
    run("group", "edit", "billing", "--max-attempts", "1")
    assert bodies(pop("--no-ack", "--invisible", "10s")) == ["0", "1", "2"]
    none = pop("--wait", "0s").err
    assert "3 messages leased, or waiting for a redelivery: pocketmq group lag billing" in none
    other = pop("--tag", "x").err
    assert other == "no message of orders for billing matches x now; --wait 30s waits for some\n"
    ready.do(ready.inner.pass_time(20_000))
    dead = pop().err
    assert "3 dead letters: pocketmq dlq peek billing" in dead
    assert "redelivery" not in dead


@pytest.mark.parametrize(
    ("begin", "expected"), [("min", ["0", "1", "2"]), ("earliest", ["0", "1", "2"]), ("max", [])]
)
def test_a_new_group_begins_where_it_is_told(
    ready: LocalBroker, begin: str, expected: list[str]
) -> None:
    run("group", "edit", "billing", "--begin", "latest")
    assert bodies(pop("--from", begin)) == expected
    assert ready.requests("Receive")[0].begin == begin.replace("earliest", "min")


def test_a_new_group_begins_at_a_time(ready: LocalBroker) -> None:
    ready.clock.advance(60_000)
    since = begin_text(ready.clock.wall_ms())
    ready.fill(1)
    assert bodies(pop("--from", since)) == ["3"]


def test_without_ack_it_comes_again_after_its_time(ready: LocalBroker) -> None:
    done = pop("--no-ack", "--invisible", "5s", "--max", "2")
    assert bodies(done) == ["0", "1"]
    assert [row["attempt"] for row in done.rows] == [1, 1]
    assert len({row["receipt_handle"] for row in done.rows}) == 2
    assert bodies(pop()) == ["2"]
    ready.do(ready.inner.pass_time(5_000))
    done = pop()
    assert sorted(bodies(done)) == ["0", "1"]
    assert [row["attempt"] for row in done.rows] == [2, 2]


def test_more_than_one_receive_holds_is_printed_up_to_the_bound(ready: LocalBroker) -> None:
    ready.fill(70)
    assert len(bodies(pop("--max", "40"))) == 40
    assert [asked.max_messages for asked in ready.requests("Receive")] == [32, 8]
    assert len(bodies(pop())) == 33


def test_a_filter_chooses(ready: LocalBroker) -> None:
    ready.add("orders", b"x", TAGS="paid")
    assert bodies(pop("--tag-filter", "paid")) == ["x"]


def test_what_comes_late_is_told(ready: LocalBroker) -> None:
    from pocketmq.rpc.pb import broker_pb2 as pb

    late = pb.AckResponse(results=[{"status": pb.INVALID_RECEIPT_HANDLE}])
    ready.answers["Broker/Ack"] = lambda request: late
    done = pop("--max", "1")
    assert bodies(done) == ["0"]
    assert "1 leases expired" in done.err


def test_a_group_alone_receives(ready: LocalBroker) -> None:
    first = run("consume", "orders", "-g", "billing", "-o", "jsonl", "--limit", "2")
    assert bodies(first) == ["0", "1"]
    assert bodies(pop()) == ["2"]


def test_a_group_that_is_not_there_is_made_by_the_next_command(broker: LocalBroker) -> None:
    done = run("consume", "orders", "-g", "nobody", "--pop")
    assert (done.code, "Next:  pocketmq group create 'nobody'" in done.err) == (3, True)


def test_as_a_table(ready: LocalBroker) -> None:
    done = run("consume", "orders", "-g", "billing", "--pop", "--max", "1", "-o", "table")
    assert done.out.split()[:3] == ["ATTEMPT", "QUEUE_ID", "QUEUE_OFFSET"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "add either --pull, or -g GROUP"),
        (("--pull", "--pop", "-g", "g"), "exclude each other"),
        (("-g", "g", "--queue", "0"), "--queue is for --pull"),
        (("-g", "g", "--from", "7"), "--to OFFSET"),
        (("--pop",), "-g GROUP"),
        (("--pop", "-g", "g", "--queue", "0"), "--pull"),
        (("--pop", "-g", "g", "--from", "7"), "--to OFFSET"),
        (("--pull", "-g", "g"), "--pop"),
        (("--pull", "--no-ack"), "--pop"),
        (("--pull", "--invisible", "5s"), "--pop"),
    ],
)
def test_wrong_use_says_how(broker: LocalBroker, options: tuple[str, ...], says: str) -> None:
    done = run("consume", "orders", *options)
    assert (done.code, says in done.err) == (2, True)


def test_who_consumes_is_listed(ready: LocalBroker) -> None:
    pop()
    (row,) = run("group", "members", "billing").document
    assert (row["mode"], row["topics"]) == ("receive", ["orders"])
    assert "@" in row["client_id"]
    ready.clock.advance(120_000)
    done = run("group", "members", "billing")
    assert (done.document, "no client has consumed" in done.err) == ([], True)
    assert run("group", "members", "nobody").code == 3
