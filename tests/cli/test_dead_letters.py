"""Dead letters are counted, printed and let go; those that were dealt with do not wait any more."""

from typing import Any

import pytest

from pocketmq.client.async_admin import AsyncAdmin
from pocketmq.model.administration import RedriveResult
from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker

TOPIC = "%DLQ%billing"


@pytest.fixture
def given_up(broker: LocalBroker) -> LocalBroker:
    """Group billing gave up three messages and dealt with one of them; audit gave up none."""
    broker.stand("audit", "orders", q0=0)
    broker.clock.wall = 1_000
    broker.store.tables.topics.adopt(TOPIC, 1)
    broker.add(TOPIC, b"a", UNIQ_KEY="A", RETRY_TOPIC="orders")
    broker.clock.wall = 2_000
    broker.add(TOPIC, b"b", b"c", UNIQ_KEY="B", RETRY_TOPIC="orders")
    broker.stand("billing", TOPIC, q0=1)
    return broker


def test_groups_that_gave_messages_up_are_listed(given_up: LocalBroker) -> None:
    wanted = {
        "group": "billing", "topic": TOPIC, "waiting_count": 2, "stored_count": 3,
        "first_store_timestamp_ms": 2_000,
    }  # fmt: skip
    assert run("dlq", "ls").document == [wanted]
    assert run("dlq", "ls", "billing").document == [wanted]
    assert run("dlq", "ls", "audit").document[0]["waiting_count"] == 0
    done = run("dlq", "ls", "nope")
    assert (done.code, "pocketmq group ls" in done.err) == (3, True)


def test_what_waits_is_printed_and_stays(given_up: LocalBroker) -> None:
    def bodies(*options: str) -> list[str]:
        rows = run("dlq", "peek", "billing", *options, "-o", "jsonl").rows
        return [row["body_text"] for row in rows]

    assert bodies() == ["b", "c"]
    assert bodies("--max", "1") == ["b"]
    assert bodies("--all") == ["a", "b", "c"]
    done = run("dlq", "peek", "audit")
    assert (done.document, done.err) == ([], "audit has no pending dead letters\n")


def test_dead_letters_are_let_go_with_yes(given_up: LocalBroker) -> None:
    plan = [{"group": "billing", "topic": TOPIC, "queue_id": 0, "old_offset": 1, "new_offset": 3}]
    done = run("dlq", "purge", "billing")
    assert (done.code, done.document) == (4, plan)
    assert "--yes" in done.err
    assert given_up.stands("billing", TOPIC) == {0: 1}
    assert run("dlq", "purge", "billing", "--yes").code == 0
    assert given_up.stands("billing", TOPIC) == {0: 3}
    done = run("dlq", "purge", "billing", "--yes")
    assert (done.code, done.out) == (0, "")
    assert "nothing to purge" in done.err
    assert run("dlq", "peek", "billing").document == []


def test_dead_letters_of_a_group_that_was_removed_can_be_read(given_up: LocalBroker) -> None:
    assert run("group", "rm", "billing", "--yes").code == 0
    rows = run("dlq", "peek", "billing", "-o", "jsonl").rows
    assert [row["body_text"] for row in rows] == ["a", "b", "c"]


def test_dead_letters_are_sent_again_with_yes(given_up: LocalBroker) -> None:
    done = run("dlq", "redrive", "billing")
    wanted = {"message_id": "B", "dead_queue_id": 0, "topic": "orders"}
    plan = [
        {**wanted, "dead_queue_offset": 1, "queue_id": 1},
        {**wanted, "dead_queue_offset": 2, "queue_id": 0},
    ]
    assert (done.code, done.document) == (4, plan)
    assert "2 dead letters would be sent again" in done.err
    assert given_up.stands("billing", TOPIC) == {0: 1}
    done = run("dlq", "redrive", "billing", "--max", "1", "--yes")
    assert (done.code, done.document) == (0, [{**plan[0], "queue_offset": 0}])
    assert given_up.stands("billing", TOPIC) == {0: 2}
    assert run("dlq", "redrive", "billing", "--yes").document == [{**plan[1], "queue_offset": 0}]
    done = run("dlq", "redrive", "billing", "--yes")
    assert (done.code, done.document, done.err) == (0, [], "billing has no pending dead letters\n")
    given_up.do(given_up.inner.talking.settled())
    rows = run("consume", "orders", "--pull", "-o", "jsonl").rows
    assert [row["body_text"] for row in rows] == ["c", "b"]
    assert rows[0]["properties"] == {"UNIQ_KEY": "B", "WAIT": "true"}


def test_many_dead_letters_are_sent_again_in_pieces(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketmq.cli.dead_letters.REDRIVEN_MAX", 2)
    broker.store.tables.topics.adopt(TOPIC, 1)
    broker.add(TOPIC, *(b"%d" % n for n in range(5)), RETRY_TOPIC="orders")
    broker.stand("billing", "orders")
    assert len(run("dlq", "redrive", "billing", "--yes").document) == 5
    asked = broker.requests("Admin/RedriveDeadLetters")
    assert [dict(one.until) for one in asked] == [{}, {0: 5}, {0: 5}]
    assert broker.stands("billing", TOPIC) == {0: 5}


def test_dead_letters_that_come_while_others_are_sent_again_stay(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketmq.cli.dead_letters.REDRIVEN_MAX", 2)
    broker.store.tables.topics.adopt(TOPIC, 1)
    broker.add(TOPIC, b"0", b"1", b"2", RETRY_TOPIC="orders")
    broker.stand("billing", "orders")
    redrive = AsyncAdmin.redrive_dead_letters

    async def failing_again(admin: AsyncAdmin, *args: Any, **words: Any) -> RedriveResult:
        done = await redrive(admin, *args, **words)
        assert len(broker.requests("Admin/RedriveDeadLetters")) < 9, "it never ends"
        for _ in done.messages:
            await broker.inner.add(TOPIC, b"again", RETRY_TOPIC="orders")
        return done

    monkeypatch.setattr(AsyncAdmin, "redrive_dead_letters", failing_again)
    assert len(run("dlq", "redrive", "billing", "--yes").document) == 3
    assert broker.stands("billing", TOPIC) == {0: 3}


def test_dead_letters_go_where_they_are_told_to(given_up: LocalBroker) -> None:
    given_up.store.tables.topics.adopt("repaired", 1)
    done = run("dlq", "redrive", "billing", "--to-topic", "repaired", "--yes")
    assert [row["topic"] for row in done.document] == ["repaired", "repaired"]
    done = run("dlq", "redrive", "billing", "--to-topic", "missing", "--yes")
    assert (done.code, "pocketmq topic ls" in done.err) == (3, True)
    assert run("dlq", "redrive", "billing", "--to-topic", TOPIC, "--yes").code == 4


def test_a_dead_letter_without_origin_has_to_be_told_a_topic(given_up: LocalBroker) -> None:
    given_up.add(TOPIC, b"d", UNIQ_KEY="D")
    done = run("dlq", "redrive", "billing", "--yes")
    assert (done.code, "--to-topic TOPIC" in done.err) == (4, True)
    assert given_up.stands("billing", TOPIC) == {0: 1}
