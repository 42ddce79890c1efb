"""`pocketmq txn`, and `produce --transactional`: kept back, seen, decided."""

from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker


def bodies() -> list[str]:
    """Returns what a consumer sees."""
    rows = run("consume", "orders", "--pull", "-o", "jsonl").rows
    return sorted(row["body_text"] for row in rows)


def produced(*options: str) -> str:
    """Sends a message of a transaction; returns the transaction's id."""
    document = run("produce", "orders", *options, "--transactional").document
    text: str = document["transaction_id"]
    assert text.endswith(document["message_id"])
    return text


def test_transactions_are_listed_shown_and_decided(broker: LocalBroker) -> None:
    first = produced("a", "--producer-group", "payers")
    second = produced("b", "--producer-group", "payers")
    third = produced("c")
    broker.do(broker.inner.talking.settled())
    rows = run("txn", "ls").document
    assert [row["transaction_id"] for row in rows] == [first, second, third]
    assert [row["group"] for row in rows] == ["payers", "payers", "orders"]
    assert [row["state"] for row in run("txn", "ls", "--max", "1").document] == ["open"]
    assert len(run("txn", "ls", "--group", "payers").document) == 2
    assert run("topic", "create", "others").code == 0
    assert run("txn", "ls", "--topic", "others").document == []
    done = run("txn", "commit", first, third)
    assert [row["result"] for row in done.document] == ["committed", "committed"]
    assert run("txn", "rollback", second).document[0]["result"] == "rolled back"
    broker.do(broker.inner.talking.settled())
    assert bodies() == ["a", "c"]
    assert run("txn", "show", first).document["state"] == "committed"
    assert run("txn", "show", second).document["state"] == "rolled back"
    assert run("txn", "ls").document == []


def test_what_was_decided_first_holds(broker: LocalBroker) -> None:
    sent = produced("a")
    broker.do(broker.inner.talking.settled())
    assert run("txn", "commit", sent).code == 0
    assert run("txn", "commit", sent).code == 0
    done = run("txn", "rollback", sent)
    assert done.code == 4
    assert "is already committed" in done.err


def test_what_is_no_transaction_is_not_found(broker: LocalBroker) -> None:
    for text in ("nonsense", "1.2.K"):
        for command in ("show", "commit", "rollback"):
            done = run("txn", command, text)
            assert done.code == 3
            assert f"transaction {text!r} does not exist: " in done.err
            assert "Next:  pocketmq txn ls" in done.err


def test_a_message_has_one_wish(broker: LocalBroker) -> None:
    done = run("produce", "orders", "a", "--transactional", "--priority", "1")
    assert (done.code, "exclude each other" in done.err) == (2, True)
    done = run("produce", "orders", "a", "--transactional", "--delay", "5s")
    assert (done.code, "transaction_id" in done.document) == (0, True)
    done = run("produce", "orders", "a", "--producer-group", "payers")
    assert (done.code, "--transactional" in done.err) == (2, True)
    assert "transaction_id" not in run("produce", "orders", "a").document
