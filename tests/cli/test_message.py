"""Single messages are found by id, by place and by key."""

from broker.client.values import KeyQuery
from tests.cli.command_line import run
from tests.cli.fake_broker import FakeBroker


def test_a_message_is_got_by_its_id(fake: FakeBroker) -> None:
    fake.fill(3)
    assert run("msg", "get", "ID2", "--topic", "orders").document["queue_offset"] == 2


def test_without_a_topic_every_topic_is_asked(fake: FakeBroker) -> None:
    fake.fill(1, topic="apples")
    fake.fill(3, topic="zebras")
    assert run("msg", "get", "ID2").document["topic"] == "zebras"
    done = run("msg", "get", "nope")
    assert done.code == 3
    assert "'nope'" in done.err


def test_a_message_is_got_by_its_place(fake: FakeBroker) -> None:
    fake.fill(3)
    assert run("msg", "get", "--offset", "orders:0:1").document["message_id"] == "ID1"
    assert run("msg", "get", "--offset", "orders:1:0").code == 3


def test_a_place_before_the_queue_is_not_the_next_one(fake: FakeBroker) -> None:
    fake.fill(3)
    del fake.queues["orders"][0][:2]
    assert run("msg", "get", "--offset", "orders:0:1").code == 3


def test_a_message_that_is_not_there_is_not_found(fake: FakeBroker) -> None:
    done = run("msg", "get", "nope", "--topic", "orders")
    assert done.code == 3
    assert "by-key" in done.err


def test_wrong_use_says_how(fake: FakeBroker) -> None:
    assert run("msg", "get").code == 2
    assert run("msg", "get", "ID", "--offset", "orders:0:1").code == 2
    assert "TOPIC:QUEUE:OFFSET" in run("msg", "get", "--offset", "orders").err
    assert "TOPIC:QUEUE:OFFSET" in run("msg", "get", "--offset", "orders:x:1").err


def test_matches_of_a_key_come_newest_first(fake: FakeBroker) -> None:
    fake.fill(3)
    done = run("msg", "by-key", "orders", "k", "-o", "jsonl")
    assert [row["queue_offset"] for row in done.rows] == [2, 1, 0]
    assert done.err == ""
    assert fake.queries == [
        {"service": "Broker", **KeyQuery("orders", "k", 64)._asdict()},
    ]


def test_a_list_that_was_cut_says_so(fake: FakeBroker) -> None:
    fake.fill(5)
    done = run("msg", "by-key", "orders", "k", "--max", "2", "-o", "jsonl")
    assert len(done.rows) == 2
    assert done.err == "there may be more than 2; see them with --all\n"


def test_all_matches_are_paged_through(fake: FakeBroker) -> None:
    fake.fill(600)
    done = run("msg", "by-key", "orders", "k", "--all", "-o", "jsonl")
    assert [row["queue_offset"] for row in done.rows] == list(range(599, -1, -1))
    assert done.err == ""


def test_the_broker_s_own_topics_are_searched_as_an_operator(fake: FakeBroker) -> None:
    for topic in ("SCHEDULE_TOPIC_XXXX", "%DLQ%group"):
        fake.fill(1, topic=topic)
        run("msg", "by-key", topic, "k")
    assert [query["service"] for query in fake.queries] == ["Admin", "Admin"]


def test_times_bound_the_search(fake: FakeBroker) -> None:
    run("msg", "by-key", "orders", "k", "--since", "2026-11-21T02:30:00Z", "--until", "9")
    assert fake.queries[0]["begin_ms"] == 1_795_228_200_000
    assert fake.queries[0]["end_ms"] == 9
    assert run("msg", "by-key", "orders", "k", "--since", "yesterday").code == 2


def test_a_table_names_the_topic(fake: FakeBroker) -> None:
    fake.fill(1)
    done = run("msg", "by-key", "orders", "k", "-o", "table")
    assert done.out.splitlines()[1].startswith("orders  0")
