"""Messages of a queue come in order, page by page, from where it was said to the end."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from pocketmq.cli.documents import PAGE_COUNT
from pocketmq.client import ClientError
from pocketmq.model.batch import Destination
from pocketmq.rpc.pb import broker_pb2 as pb
from tests.cli.command_line import Ran, run
from tests.cli.local_broker import LocalBroker
from tests.kit.store_language import STORE_HOST, put_row

PULL = "Broker/PullMessage"


def consume(*arguments: str) -> Ran:
    return run("consume", "orders", "--pull", "-o", "jsonl", *arguments)


def offsets(done: Ran) -> list[int]:
    assert done.code == 0, done.err
    return [row["queue_offset"] for row in done.rows]


def test_a_queue_is_read_from_its_begin_to_its_end(broker: LocalBroker) -> None:
    broker.fill(PAGE_COUNT + 10)
    assert offsets(consume("--queue", "0")) == list(range(PAGE_COUNT + 10))


def test_max_bounds_all_pages_together(broker: LocalBroker) -> None:
    broker.fill(600)
    assert offsets(consume("--queue", "0", "--max", "300")) == list(range(300))
    assert [query.max_messages for query in broker.requests("PullMessage")] == [256, 44]


@pytest.mark.parametrize(
    ("begin", "found"), [("min", [0, 1, 2]), ("max", []), ("2", [2]), ("3", [])]
)
def test_it_begins_where_it_is_told(broker: LocalBroker, begin: str, found: list[int]) -> None:
    broker.fill(3)
    assert offsets(consume("--queue", "0", "--from", begin)) == found


def test_it_begins_at_a_time(broker: LocalBroker) -> None:
    broker.fill(3)
    stored = [row["store_timestamp_ms"] for row in consume("--queue", "0").rows]
    moment = datetime.fromtimestamp(stored[2] / 1000, UTC).isoformat()
    first = stored.index(stored[2])
    assert offsets(consume("--queue", "0", "--from", moment)) == list(range(first, 3))
    assert offsets(consume("--queue", "0", "--from", "2100-01-01")) == []
    done = consume("--from", "soon")
    assert done.code == 2
    assert "-15m" in done.err


def test_without_a_queue_all_are_read_in_turn(broker: LocalBroker) -> None:
    broker.fill(2, queue_id=0)
    broker.fill(2, queue_id=1)
    done = consume("--max", "3")
    assert [(row["queue_id"], row["queue_offset"]) for row in done.rows] == [(0, 0), (0, 1), (1, 0)]


def test_a_read_without_a_message_is_reported(broker: LocalBroker) -> None:
    broker.fill(1)
    none = run("consume", "orders", "--pull", "--filter", "x > 1")
    assert (none.code, none.err) == (0, "no message of orders matches x > 1\n")
    late = run("consume", "orders", "--pull", "--from", "latest")
    assert late.err == "no message of orders to print from there on\n"


def test_a_tag_filter_and_a_wait_are_passed_on(broker: LocalBroker) -> None:
    consume("--queue", "1", "--tag-filter", "a||b", "--wait", "5s")
    there, more = broker.requests("PullMessage")
    assert {there.filter.expression, more.filter.expression} == {"a||b"}
    assert there.wait_ms == 0
    assert 0 < more.wait_ms <= 5_000


def test_all_queues_wait_together_and_what_comes_first_is_printed_first(
    broker: LocalBroker,
) -> None:
    """The poll of queue 0 ends after that of queue 1, which would otherwise not begin."""
    broker.fill(1, queue_id=0)
    waiting: list[int] = []
    is_over = asyncio.Event()

    async def pull(request: pb.PullMessageRequest) -> Any:
        if request.wait_ms:
            waiting.append(request.queue_id)
            if request.queue_id == 0:
                await is_over.wait()
            elif request.offset == 0:
                rows = [put_row(b"late", unique_key="late")]
                await broker.put(Destination("orders", 1, STORE_HOST), rows)
            else:
                is_over.set()
        return await broker.serve(PULL, request)

    broker.answers[PULL] = pull
    done = consume("--wait", "10s")
    assert [row["body_text"] for row in done.rows] == ["0", "late"]
    assert waiting == [0, 1, 1]


def test_a_poll_answered_before_its_time_is_the_last(broker: LocalBroker) -> None:
    """A broker that stops answers parked polls at once."""
    broker.fill(1)
    assert offsets(consume("--queue", "0", "--wait", "25s")) == [0]
    assert [query.wait_ms for query in broker.requests("PullMessage")][-1] == 15_000
    assert len([query for query in broker.requests("PullMessage") if query.wait_ms]) == 1


def test_damage_is_passed_over_while_waiting(broker: LocalBroker) -> None:
    broker.fill(1)

    def pull(request: pb.PullMessageRequest) -> Any:
        if request.wait_ms and request.offset == 1:
            raise damage_at(1)
        return broker.serve(PULL, request)

    broker.answers[PULL] = pull
    done = consume("--queue", "0", "--wait", "5s")
    assert done.code == 10
    assert "message 1 of queue 0 is damaged" in done.err


@pytest.mark.parametrize(
    ("topic", "who"),
    [("orders", "Broker"), ("SCHEDULE_TOPIC_XXXX", "Admin"), ("%RETRY%G", "Admin"),
     ("%DLQ%G", "Admin"), ("rmq_sys_REVIVE_LOG_c", "Admin")],
)  # fmt: skip
def test_topics_of_the_broker_are_read_as_an_operator(
    broker: LocalBroker, topic: str, who: str
) -> None:
    broker.fill(1, topic=topic)
    assert len(run("consume", topic, "--pull", "--queue", "0", "-o", "jsonl").rows) == 1
    assert {name for name, _ in broker.calls if "Pull" in name} == {f"{who}/PullMessage"}


def test_what_is_gone_is_passed_over_and_told(broker: LocalBroker) -> None:
    broker.fill(5)
    broker.do(broker.inner.expire())
    broker.fill(2)
    done = consume("--queue", "0", "--from", "2")
    assert offsets(done) == [5, 6]
    assert done.err == "offset 2 has expired; continuing at 5\n"


def test_behind_the_end_is_refused(broker: LocalBroker) -> None:
    broker.fill(3)
    done = consume("--queue", "0", "--from", "9")
    assert done.code == 4
    assert "from 0 to 3" in done.err
    assert "--from earliest" in done.err


def test_a_queue_that_is_not_there_or_vanishes_meanwhile_is_not_found(broker: LocalBroker) -> None:
    unknown = consume("--queue", "7")
    broker.answers[PULL] = lambda request: pb.PullMessageResponse(status="NO_SUCH_QUEUE")
    for done in (unknown, consume("--queue", "0")):
        assert done.code == 3
        assert "pocketmq topic info orders" in done.err


def test_pages_without_a_match_lead_on(broker: LocalBroker) -> None:
    def pull(request: pb.PullMessageRequest) -> pb.PullMessageResponse:
        begin, is_end = request.offset, request.offset == 1_600
        return pb.PullMessageResponse(
            status="OFFSET_OVERFLOW_ONE" if is_end else "NO_MATCHED_MESSAGE",
            next_begin_offset=begin if is_end else begin + 800,
            max_offset=1_600,
        )

    broker.answers[PULL] = pull
    assert offsets(consume("--queue", "0")) == []
    assert [request.offset for request in broker.requests(PULL)] == [0, 800, 1_600]


def test_a_table_shows_bodies(broker: LocalBroker) -> None:
    broker.add("orders", b"hello", UNIQ_KEY="ID0", TAGS="red", KEYS="a b")
    broker.add("orders", b"\xff", UNIQ_KEY="ID1")
    done = run("consume", "orders", "--pull", "--queue", "0", "-o", "table")
    title, first, second = done.out.splitlines()
    assert title.startswith("QUEUE_ID  QUEUE_OFFSET  STORE_TIMESTAMP")
    assert first.split()[-5:] == ["ID0", "red", "a,", "b", "hello"]
    assert second.split()[-2:] == ["ID1", "(/w==)"]


def test_an_error_in_the_middle_keeps_what_was_printed(broker: LocalBroker) -> None:
    broker.fill(1)

    def pull(request: pb.PullMessageRequest) -> Any:
        if request.offset:
            raise ClientError("Corruption", "damaged", status="DATA_LOSS")
        return broker.serve(PULL, request)

    broker.answers[PULL] = pull
    done = consume("--queue", "0")
    assert done.code == 1
    assert len(done.rows) == 1


def damage_at(number: int, **changes: str) -> ClientError:
    """Returns the error of a broker whose message of this number is damaged."""
    fields = {
        "queue_offset": str(number),
        "next_begin_offset": str(number + 1),
        "physical_offset": "4711",
        "why": "the CRC of its body is wrong",
    }
    return ClientError("Corruption", "it cannot", status="DATA_LOSS", fields=fields | changes)


def damaged(broker: LocalBroker, *numbers: int, **changes: str) -> None:
    """Damages messages of a queue of ten: pulls end before one, or fail on it."""
    broker.fill(10)

    def pull(request: pb.PullMessageRequest) -> Any:
        left = [n for n in numbers if n >= request.offset]
        if left and left[0] == request.offset:
            raise damage_at(left[0], **changes)
        count = left[0] - request.offset if left else request.max_messages
        request.max_messages = min(count, request.max_messages)
        return broker.serve(PULL, request)

    broker.answers[PULL] = pull


def test_damaged_messages_are_told_and_passed_over(broker: LocalBroker) -> None:
    damaged(broker, 0, 4, 5, 9)
    done = consume("--queue", "0")
    assert [row["queue_offset"] for row in done.rows] == [1, 2, 3, 6, 7, 8]
    assert done.code == 10
    assert done.err.splitlines()[1] == (
        "message 4 of queue 0 is damaged (physical offset 4711): the CRC of its body is wrong; "
        "continuing at 5"
    )
    assert "Error: 4 messages are damaged and could not be read" in done.err
    assert "pocketmq store verify" in done.err


def test_damage_without_a_place_to_go_on_ends_the_command(broker: LocalBroker) -> None:
    damaged(broker, 4, next_begin_offset="4")
    done = consume("--queue", "0")
    assert [row["queue_offset"] for row in done.rows] == [0, 1, 2, 3]
    assert done.code == 1
