"""The command line lists, shows and recalls pending messages."""

import pytest

from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker


def produced(*options: str) -> dict[str, object]:
    """Sends a message for later; returns what is printed."""
    done = run("produce", "orders", "x", *options)
    assert done.code == 0
    document: dict[str, object] = done.document
    return document


def listed(broker: LocalBroker, *options: str) -> list[object]:
    """Returns the ids that are listed, once views know of all that was sent."""
    broker.do(broker.inner.talking.settled())
    done = run("delay", "ls", *options, "-o", "json")
    assert done.code == 0
    return [row["message_id"] for row in done.document]


def test_a_message_that_waits_is_listed_and_taken_back(broker: LocalBroker) -> None:
    first, second = produced("--delay", "1h"), produced("--delay", "2h")
    ids = [first["message_id"], second["message_id"]]
    assert listed(broker) == listed(broker, "orders") == ids
    assert listed(broker, "--max", "1") == ids[:1]
    assert run("topic", "create", "others").code == 0
    assert listed(broker, "others") == []
    shown = run("delay", "show", str(ids[0]), "-o", "json").document[0]
    assert (shown["topic"], shown["recall_handle"]) == ("orders", first["recall_handle"])
    assert run("delay", "recall", str(first["recall_handle"])).document["message_id"] == ids[0]
    assert listed(broker) == ids[1:]
    assert run("delay", "recall", str(ids[1])).document == {"message_id": ids[1], "topic": "orders"}
    assert listed(broker) == []


@pytest.mark.parametrize("options", [["--histogram"], []], ids=["histogram", "list"])
def test_a_list_of_an_unknown_topic_is_refused(broker: LocalBroker, options: list[str]) -> None:
    done = run("delay", "ls", "ordrs", *options)
    assert done.code == 3
    assert "topic 'ordrs' does not exist\nNext:  did you mean orders?" in done.err
    assert run("txn", "ls", "--topic", "ordrs").err == done.err


def test_what_does_not_wait_is_not_found(broker: LocalBroker) -> None:
    plain = produced()
    listed(broker)
    assert "recall_handle" not in plain
    assert run("delay", "show", str(plain["message_id"])).code == 3
    assert run("delay", "recall", str(plain["message_id"])).code == 3


def test_a_name_that_is_no_id_is_not_reported_as_delivered(broker: LocalBroker) -> None:
    done = run("delay", "recall", "orders")
    assert done.code == 3
    assert "was delivered or recalled, or never existed" in done.err


def test_a_recall_is_part_of_the_history(broker: LocalBroker) -> None:
    sent = str(produced("--delay", "1h")["message_id"])
    listed(broker)
    assert run("delay", "recall", sent).code == 0
    listed(broker)
    rows = run("msg", "trace", sent, "-o", "json").document
    assert [row["step"] for row in rows] == ["TIMED", "RECALLED"]
    assert ["deliver_at_ms" in row for row in rows] == [True, False]
    assert {row["origin_topic"] for row in rows} == {"orders"}


def test_a_message_of_a_level_is_not_taken_back(broker: LocalBroker) -> None:
    level = produced("--delay-level", "3")
    assert listed(broker) == [level["message_id"]]
    done = run("delay", "recall", str(level["message_id"]))
    assert done.code == 4
    assert "has a delay level" in done.err
