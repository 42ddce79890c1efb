"""Messages of a queue come in order, page by page, from where it was said to the end."""

from dataclasses import replace

import pytest

from broker.cli.consume import PAGE_COUNT
from broker.client.values import ClientError, PullPage, PullQuery
from broker.model.results import PullStatus
from tests.cli.command_line import Ran, run
from tests.cli.fake_broker import FakeBroker, stored


def consume(*arguments: str) -> Ran:
    return run("consume", "orders", "--pull", "-o", "jsonl", *arguments)


def offsets(done: Ran) -> list[int]:
    assert done.code == 0, done.err
    return [row["queue_offset"] for row in done.rows]


def test_a_queue_is_read_from_its_begin_to_its_end(fake: FakeBroker) -> None:
    fake.fill(PAGE_COUNT + 10)
    assert offsets(consume("--queue", "0")) == list(range(PAGE_COUNT + 10))


def test_max_bounds_all_pages_together(fake: FakeBroker) -> None:
    fake.fill(600)
    assert offsets(consume("--queue", "0", "--max", "300")) == list(range(300))
    assert [query.max_messages for _, query in fake.pulls] == [256, 44]


@pytest.mark.parametrize(
    ("begin", "found"), [("min", [0, 1, 2]), ("max", []), ("2", [2]), ("3", [])]
)
def test_it_begins_where_it_is_told(fake: FakeBroker, begin: str, found: list[int]) -> None:
    fake.fill(3)
    assert offsets(consume("--queue", "0", "--from", begin)) == found


def test_without_a_queue_all_are_read_in_turn(fake: FakeBroker) -> None:
    fake.fill(2, queue_id=0)
    fake.fill(2, queue_id=1)
    done = consume("--max", "3")
    assert [(row["queue_id"], row["queue_offset"]) for row in done.rows] == [(0, 0), (0, 1), (1, 0)]


def test_a_tag_filter_and_a_wait_are_passed_on(fake: FakeBroker) -> None:
    consume("--queue", "1", "--tag-filter", "a||b", "--wait", "5s")
    ((_, query),) = fake.pulls
    assert query.expression == "a||b"
    assert query.wait_ms == 5_000


@pytest.mark.parametrize(
    ("topic", "who"),
    [("orders", "client"), ("SCHEDULE_TOPIC_XXXX", "admin"), ("%RETRY%G", "admin"),
     ("%DLQ%G", "admin"), ("rmq_sys_REVIVE_LOG_c", "admin")],
)  # fmt: skip
def test_topics_of_the_broker_are_read_as_an_operator(
    fake: FakeBroker, topic: str, who: str
) -> None:
    fake.fill(1, topic=topic)
    assert len(run("consume", topic, "--pull", "--queue", "0", "-o", "jsonl").rows) == 1
    assert {asked for asked, _ in fake.pulls} == {who}


def test_what_is_gone_is_passed_over_and_told(fake: FakeBroker) -> None:
    fake.queues["orders"][0] = [stored(5), stored(6)]
    done = consume("--queue", "0", "--from", "2")
    assert offsets(done) == [5, 6]
    assert done.err == "offset 2 is gone; going on at 5\n"


def test_behind_the_end_is_refused(fake: FakeBroker) -> None:
    fake.fill(3)
    done = consume("--queue", "0", "--from", "9")
    assert done.code == 4
    assert "from 0 to 3" in done.err
    assert "--from min" in done.err


def test_an_unknown_queue_is_not_found(fake: FakeBroker) -> None:
    done = consume("--queue", "7")
    assert done.code == 3
    assert "pocketmq topic info orders" in done.err


def test_a_queue_that_vanishes_meanwhile_is_not_found(
    fake: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def pull(query: PullQuery) -> PullPage:
        return PullPage(PullStatus.NO_SUCH_QUEUE, 0, 0, 0, [], b"")

    monkeypatch.setattr(fake, "pull", pull)
    assert consume("--queue", "0").code == 3


def test_pages_without_a_match_lead_on(fake: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    async def pull(query: PullQuery) -> PullPage:
        asked.append(query.queue_offset)
        begin = query.queue_offset
        if begin < 1_600:
            return PullPage(PullStatus.NO_MATCHED_MESSAGE, begin + 800, 0, 1_600, [], b"")
        return PullPage(PullStatus.OFFSET_OVERFLOW_ONE, begin, 0, 1_600, [], b"")

    monkeypatch.setattr(fake, "pull", pull)
    assert offsets(consume("--queue", "0")) == []
    assert asked == [0, 800, 1_600]


def test_a_table_shows_bodies(fake: FakeBroker) -> None:
    fake.queues["orders"][0] = [
        stored(0, b"hello", properties={"TAGS": "red", "KEYS": "a b"}),
        stored(1, b"\xff"),
    ]
    done = run("consume", "orders", "--pull", "--queue", "0", "-o", "table")
    title, first, second = done.out.splitlines()
    assert title.startswith("QUEUE  OFFSET  STORED")
    assert first.split()[-5:] == ["ID0", "red", "a,", "b", "hello"]
    assert second.split()[-2:] == ["ID1", "(/w==)"]


def test_how_to_read_must_be_said(fake: FakeBroker) -> None:
    done = run("consume", "orders")
    assert done.code == 2
    assert "--pull" in done.err


def test_an_error_in_the_middle_keeps_what_was_printed(
    fake: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.fill(1)
    real = fake.pull

    async def pull(query: PullQuery) -> PullPage:
        if query.queue_offset:
            raise ClientError("Corruption", "damaged", code="DATA_LOSS")
        return await real(query)

    monkeypatch.setattr(fake, "pull", pull)
    done = consume("--queue", "0")
    assert done.code == 1
    assert len(done.rows) == 1


def damage_at(query: PullQuery, number: int, **changes: str) -> ClientError:
    """What a broker answers whose message of this number is damaged."""
    fields = {
        "queue_offset": str(number),
        "next_begin_offset": str(number + 1),
        "physical_offset": "4711",
        "why": "the CRC of its body is wrong",
    }
    return ClientError("Corruption", "it cannot", code="DATA_LOSS", fields=fields | changes)


def damaged(
    fake: FakeBroker, monkeypatch: pytest.MonkeyPatch, *numbers: int, **changes: str
) -> None:
    """Let messages of a queue of ten be damaged: pulls end before one, or fail on it."""
    fake.fill(10)

    async def pull(query: PullQuery) -> PullPage:
        left = [n for n in numbers if n >= query.queue_offset]
        if left and left[0] == query.queue_offset:
            raise damage_at(query, left[0], **changes)
        count = left[0] - query.queue_offset if left else query.max_messages
        return fake._pull("client", replace(query, max_messages=min(count, query.max_messages)))

    monkeypatch.setattr(fake, "pull", pull)


def test_damaged_messages_are_told_and_passed_over(
    fake: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged(fake, monkeypatch, 0, 4, 5, 9)
    done = consume("--queue", "0")
    assert [row["queue_offset"] for row in done.rows] == [1, 2, 3, 6, 7, 8]
    assert done.code == 10
    assert done.err.splitlines()[1] == (
        "message 4 of queue 0 is damaged (physical offset 4711): the CRC of its body is wrong; "
        "going on at 5"
    )
    assert "Error: 4 messages are damaged and could not be read" in done.err
    assert "pocketmq store verify" in done.err


def test_damage_without_a_place_to_go_on_ends_the_command(
    fake: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged(fake, monkeypatch, 4, next_begin_offset="4")
    done = consume("--queue", "0")
    assert [row["queue_offset"] for row in done.rows] == [0, 1, 2, 3]
    assert done.code == 1
