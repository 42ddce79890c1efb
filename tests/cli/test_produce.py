"""Messages come from the command line, a file or a pipe, and are acknowledged one by one."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from pocketmq.cli import options
from pocketmq.cli import produce as command
from pocketmq.cli.produced_lines import BATCH_BYTES, batches, line_groups
from pocketmq.client import Message
from pocketmq.model.batch import PutStatus
from pocketmq.model.errors import BodyTooLarge, BrokerError, DiskNearlyFull, NotLeader
from pocketmq.rpc.pb import broker_pb2 as pb
from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker, shown

SEND = "Broker/SendMessage"
TIMER = "rmq_sys_wheel_timer"


def bodies(broker: LocalBroker) -> list[list[bytes]]:
    return [[m.body for m in request.messages] for request in broker.requests(SEND)]


PIPE = ("produce", "orders", "--queue", "0", "--file", "-", "-o", "jsonl")


def refuse_more_than(broker: LocalBroker, size_bytes: int) -> None:
    """Makes the broker refuse requests whose bodies are larger together."""

    def send(request: pb.SendMessageRequest) -> Any:
        found = sum(len(message.body) for message in request.messages)
        if found > size_bytes:
            raise shown(BodyTooLarge(size_bytes=found, limit_bytes=size_bytes))
        return broker.serve(SEND, request)

    broker.answers[SEND] = send


def test_a_message_carries_what_is_said_of_it(broker: LocalBroker) -> None:
    done = run(
        "produce", "orders", "grün", "-k", "a", "-k", "b", "-t", "red", "-p", "x=1=2", "-p", "y=z",
        "--queue", "1", "--group", "g",
    )  # fmt: skip
    assert done.code == 0
    message = pb.Message(
        topic="orders",
        body="grün".encode(),
        tag="red",
        keys=["a", "b"],
        queue_id=1,
        message_group="g",
        properties={"x": "1=2", "y": "z"},
    )
    (request,) = broker.requests(SEND)
    message.message_id = request.messages[0].message_id
    assert len(message.message_id) == 32
    assert request == pb.SendMessageRequest(messages=[message], wait="DURABLE")
    assert done.document["status"] == "SEND_OK"
    (stored,) = broker.do(broker.inner.messages())
    assert done.document["message_id"] == stored.unique_key


def test_a_property_may_be_empty_as_far_as_the_broker_lets_it(broker: LocalBroker) -> None:
    assert run("produce", "orders", "x", "-p", "y=").code == 4
    assert broker.requests(SEND)[0].messages[0].properties == {"y": ""}


def test_what_is_not_said_is_absent(broker: LocalBroker) -> None:
    run("produce", "orders", "x")
    run("produce", "orders", "x", "--no-wait")
    requests = broker.requests(SEND)
    for request in requests:
        assert len(request.messages[0].message_id) == 32
        request.messages[0].message_id = ""
    message = pb.Message(topic="orders", body=b"x")
    assert requests == [
        pb.SendMessageRequest(messages=[message], wait=wait) for wait in ("DURABLE", "APPENDED")
    ]


def test_each_line_of_a_pipe_is_a_message(broker: LocalBroker) -> None:
    done = run(*PIPE, given=b"a\n\nb\xff\nc")
    assert done.code == 0
    assert [body for request in bodies(broker) for body in request] == [b"a", b"b\xff", b"c"]
    assert [row["queue_offset"] for row in done.rows] == [0, 1, 2]
    assert {row["status"] for row in done.rows} == {"SEND_OK"}


def test_each_line_of_a_file_is_a_message(broker: LocalBroker, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("a\nb\n")
    assert run("produce", "orders", "--file", str(file)).document[1]["queue_offset"] == 1
    assert bodies(broker) == [[b"a", b"b"]]


def test_a_batch_has_so_many_messages_at_most(broker: LocalBroker) -> None:
    run("produce", "orders", "--file", "-", "--batch", "2", "-k", "k", given="1\n2\n3\n4\n5\n")
    assert bodies(broker) == [[b"1", b"2"], [b"3", b"4"], [b"5"]]
    assert all(m.keys == ["k"] for request in broker.requests(SEND) for m in request.messages)


def test_a_batch_that_is_too_large_goes_in_halves(broker: LocalBroker) -> None:
    refuse_more_than(broker, 5)
    done = run(*PIPE, given="aa\nbb\ncc\ndd\nee\n")
    assert [len(request) for request in bodies(broker)] == [5, 2, 3, 1, 2]
    assert [m.body[:1] for m in broker.do(broker.inner.messages())] == [*map(bytes, zip(b"abcde"))]
    assert [row["queue_offset"] for row in done.rows] == [0, 1, 2, 3, 4]


def test_a_message_that_is_too_large_ends_it_behind_those_acknowledged(broker: LocalBroker) -> None:
    refuse_more_than(broker, 5)
    done = run(*PIPE, given="aa\ntoolarge\nbb\n")
    assert done.code == 4
    assert len(done.rows) == 1
    assert "exceed the limit of 5" in done.err
    assert "1 message was sent before this error; the broker refused" in done.err
    assert "stored nothing of it" in done.err


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NotLeader(leader="b:8081"), "may be stored or not"),
        (
            DiskNearlyFull(path="/s", used_percent=95, free_bytes=1, needed_bytes=9),
            "stored nothing",
        ),
    ],
)
def test_the_note_tells_whether_the_failed_request_may_be_stored(
    broker: LocalBroker, error: BrokerError, told: str
) -> None:
    """A fenced leader may have appended the messages before it learned of its successor."""

    def send(request: pb.SendMessageRequest) -> Any:
        raise shown(error)

    broker.answers[SEND] = send
    done = run(*PIPE, given="aa\n")
    assert done.code == 4
    assert "0 messages were sent before this error" in done.err
    assert told in done.err


def test_other_refusals_are_not_tried_in_halves(broker: LocalBroker) -> None:
    assert run("produce", "a.b", "--file", "-", given="1\n2\n").code == 4
    assert len(broker.calls) == 1


def test_a_table_shows_each_receipt(broker: LocalBroker) -> None:
    done = run("produce", "orders", "--queue", "0", "--file", "-", "-o", "table", given="1\n2\n")
    title, first, second = done.out.splitlines()
    assert title.split() == ["MESSAGE_ID", "QUEUE_ID", "QUEUE_OFFSET", "STATUS"]
    ids = [message.unique_key for message in broker.do(broker.inner.messages())]
    assert first.split() == [ids[0], "0", "0", "SEND_OK"]
    assert second.split() == [ids[1], "0", "1", "SEND_OK"]


def test_wrong_use_says_how(broker: LocalBroker) -> None:
    assert "--jsonl reads lines" in run("produce", "orders", "x", "--jsonl").err
    assert "need a BODY" in run("produce", "orders", "--file", "-", "--count", "2").err
    assert run("produce", "orders", "x", "--file", "-").code == 2
    assert "NAME=VALUE" in run("produce", "orders", "x", "-p", "nothing").err
    assert "no-such-file" in run("produce", "orders", "--file", "no-such-file").err
    assert broker.calls == []


def test_a_slow_pipe_is_sent_as_it_comes() -> None:
    class Pipe(io.BytesIO):
        pieces = [b"a\nb", b"c\n", b"d"]

        def read1(self, size: int | None = -1, /) -> bytes:
            return self.pieces.pop(0) if self.pieces else b""

    assert list(line_groups(Pipe())) == [[b"a"], [b"bc"], [], [b"d"]]


def test_a_batch_is_bounded_in_bytes_too() -> None:
    half = b"x" * (BATCH_BYTES // 2)
    bodies = [half, half, b"y", b"z" * (BATCH_BYTES + 1), b"w"]
    groups = [[Message("orders", body) for body in bodies]]
    sizes = [[len(one.body) for one in batch] for batch in batches(groups, 10)]
    assert sizes == [[len(half), len(half)], [1], [BATCH_BYTES + 1], [1]]


def test_the_statuses_that_are_known_have_names() -> None:
    from pocketmq.cli.documents import SEND_STATUS_NAMES

    assert SEND_STATUS_NAMES.keys() == set(PutStatus)


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        (("--delay", "30s"), {"delay_ms": 30_000}),
        (("--at", "2026-11-23T00:00:00Z"), {"deliver_at_ms": 1_795_392_000_000}),
        (("--delay-level", "3"), {"delay_level": 3}),
        (("--priority", "0"), {"priority": 0}),
    ],
)
def test_a_message_says_when_it_is_to_be_delivered(
    broker: LocalBroker, options: tuple[str, ...], fields: dict[str, Any]
) -> None:
    run("produce", "orders", "x", *options)
    (message,) = broker.requests(SEND)[0].messages
    message.message_id = ""
    assert message == pb.Message(topic="orders", body=b"x", **fields)


def test_a_message_is_asked_for_one_kind_only(broker: LocalBroker) -> None:
    done = run("produce", "orders", "x", "--delay", "30s", "--group", "g")
    assert done.code == 2
    assert "--message-group and --delay exclude each other" in done.err
    assert broker.requests(SEND) == []


def sent(broker: LocalBroker) -> list[pb.Message]:
    return [one for request in broker.requests(SEND) for one in request.messages]


def test_without_a_body_standard_input_is_read(broker: LocalBroker) -> None:
    assert run("produce", "orders", given=b"a\r\nb\n\r\n").code == 0
    assert bodies(broker) == [[b"a", b"b"]]


def test_a_body_is_sent_as_often_as_asked(broker: LocalBroker) -> None:
    assert run("produce", "orders", "x{n}", "--count", "3").code == 0
    assert bodies(broker) == [[b"x{n}"] * 3]


def test_a_template_numbers_its_messages(broker: LocalBroker) -> None:
    options = ("-k", "k{n}", "-p", "number={n}", "--message-group", "g{n}", "--template")
    assert run("produce", "orders", "x{n}", "--count", "2", *options).code == 0
    assert run("produce", "orders", "y{n}", *options).code == 0
    found = [
        (one.body, [*one.keys], dict(one.properties), one.message_group) for one in sent(broker)
    ]
    assert found == [
        (b"x0", ["k0"], {"number": "0"}, "g0"),
        (b"x1", ["k1"], {"number": "1"}, "g1"),
        (b"y0", ["k0"], {"number": "0"}, "g0"),
    ]


JSON_LINES = b"""\
{"body": "a", "keys": ["k1", "k2"], "tag": "t", "properties": {"x": "1"}, "message_group": "g"}

{"body_base64": "/w==", "keys": "k3", "delay_ms": 5}
{"body": {"order": 1}}
"""


def test_lines_of_json_are_messages(broker: LocalBroker) -> None:
    assert run("produce", "orders", "--jsonl", "-p", "y=2", given=JSON_LINES).code == 0
    first, second, third = sent(broker)
    assert (first.body, first.tag, [*first.keys]) == (b"a", "t", ["k1", "k2"])
    assert (dict(first.properties), first.message_group) == ({"x": "1", "y": "2"}, "g")
    assert (second.body, [*second.keys], second.delay_ms) == (b"\xff", ["k3"], 5)
    assert third.body == b'{"order":1}'


def test_what_consume_prints_can_be_sent_again(broker: LocalBroker) -> None:
    run("produce", "orders", "--jsonl", "--queue", "0", given=JSON_LINES.split(b"\n")[0])
    run("produce", "orders", "--jsonl", "--queue", "0", given=b'{"body_base64": "/w=="}')
    broker.do(broker.inner.talking.settled())
    printed = run("consume", "orders", "--pull", "--from", "earliest", "-o", "jsonl").out
    before = sent(broker)
    assert run("produce", "copies", "--jsonl", given=printed.encode()).code == 0
    copies = sent(broker)[len(before) :]
    assert [one.body for one in copies] == [b"a", b"\xff"]
    assert [dict(one.properties) for one in copies] == [{"x": "1"}, {}]
    assert (copies[0].tag, [*copies[0].keys], copies[0].message_group) == ("t", ["k1", "k2"], "g")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"[]", "not a JSON object"),
        (b"{", "line 2: '{' is not JSON, such as {\"body\": "),
        (b"order 1", "'order 1' is not JSON"),
        (b"\xff", "is not JSON"),
        (b"{}", "it has no body"),
        (b'{"body": "a", "body_base64": "YQ=="}', "exclude each other"),
        (b'{"body_base64": "%"}', "line 2"),
        (b'{"body": "a", "keys": 1}', "keys is neither"),
        (b'{"body": "a", "keys": [1]}', "keys is neither"),
        (b'{"body": "a", "properties": {"x": 1}}', "a value that is no text"),
        (b'{"body": "a", "delay_ms": "5"}', "delay_ms is no integer"),
        (b'{"body": "a", "delay_ms": true}', "delay_ms is no integer"),
        (b'{"body": "a", "delay": 5}', "unknown field 'delay'; there are body, body_base64"),
    ],
)
def test_a_bad_line_of_json_is_named_and_those_before_it_are_sent(
    broker: LocalBroker, line: bytes, why: str
) -> None:
    good = b'{"body": "good"}'
    done = run("produce", "orders", "--jsonl", given=b"\n".join([good, line, good]))
    assert done.code == 1
    assert why in done.err
    assert "line 2" in done.err
    assert "the lines before it were sent" in done.err
    assert bodies(broker) == [[b"good"]]


def test_a_number_without_a_template_is_noted(broker: LocalBroker) -> None:
    done = run("produce", "orders", "order {n}", "--count", "2")
    assert done.err == "Note: {n} is sent as it is; --template replaces it by a number\n"
    assert bodies(broker) == [[b"order {n}"] * 2]
    assert run("produce", "orders", "order {n}", "--count", "2", "--template").err == ""
    assert run("produce", "orders", "order {n}").err == ""


def test_a_time_of_delivery_is_ahead(broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "wall_ms", broker.clock.wall_ms)
    now_ms = broker.clock.wall_ms()
    assert run("produce", "orders", "x", "--at", "+15m").code == 0
    (message,) = sent(broker)
    assert message.deliver_at_ms == now_ms + 900_000


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("15m", "write +15m, or use --delay"),
        ("-15m", "write +15m"),
        ("soon", "+15m"),
        ("72", "unit"),
    ],
)
def test_a_time_of_delivery_is_no_time_ago(broker: LocalBroker, text: str, told: str) -> None:
    done = run("produce", "orders", "x", "--at", text)
    assert done.code == 2
    assert told in done.err
    assert sent(broker) == []


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("fifo", "Next:  add --message-group NAME"),
        ("delay", "Next:  add --delay 30s"),
        ("transaction", "Next:  add --transactional"),
        ("priority", "Next:  add --priority N"),
    ],
)
def test_the_kind_that_a_topic_lacks_leads_to_its_option(
    broker: LocalBroker, kind: str, told: str
) -> None:
    run("topic", "create", "typed", "--type", kind)
    done = run("produce", "typed", "x")
    assert done.code == 4
    assert told in done.err


def test_lines_without_a_body_are_noted(broker: LocalBroker) -> None:
    done = run("produce", "orders", given="\n\n")
    assert (done.code, done.document) == (0, [])
    assert done.err == "Note: nothing was sent to orders: no line had a body\n"


def test_a_tag_taken_for_the_topic_is_reported_where_nothing_was_sent(
    broker: LocalBroker,
) -> None:
    done = run("produce", "-t", "orders", "hi", given="")
    assert (done.code, done.out) == (3, "")
    assert "nothing was sent: no line had a body, and topic 'hi' does not exist" in done.err
    assert "-t orders is the tag; hi to topic orders: pocketmq produce orders hi" in done.err
    assert run("produce", "-t", "paid", "hi", given="").code == 0
    assert run("produce", "-t", "orders", "orders", given="").code == 0


def test_a_delivery_time_in_the_past_is_reported(broker: LocalBroker) -> None:
    past = run("produce", "orders", "x", "--at", "2026-01-01")
    assert "Note: the time of --at is past, so the message is in orders at once" in past.err
    assert "pocketmq delay ls orders" in run("produce", "orders", "x", "--delay", "15m").err


def stored_line(topic: str, stored_ms: int, **properties: str) -> bytes:
    """A line as of `store export`."""
    fields = {
        "topic": topic, "queue_offset": 0, "store_timestamp_ms": stored_ms, "body": "YQ==",
        "properties": {"REAL_TOPIC": "orders", "REAL_QID": "0", **properties},
    }  # fmt: skip
    return json.dumps(fields).encode()


def test_exported_delayed_messages_keep_their_delivery_times(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "wall_ms", broker.clock.wall_ms)
    now_ms = broker.clock.wall_ms()
    due_ms = now_ms // 1_000 * 1_000 + 60_000
    lines = [
        stored_line(TIMER, now_ms, TIMER_DELIVER_MS=str(due_ms), TIMER_OUT_MS=str(due_ms - 1)),
        stored_line(TIMER, due_ms - 50_000, TIMER_DELAY_MS="50000", TIMER_OUT_MS=str(due_ms - 1)),
        stored_line(TIMER, 1, TIMER_DELIVER_MS="5000", TIMER_OUT_MS="4999"),
        stored_line(TIMER, now_ms, TIMER_DEL_UNIQKEY="ID", TIMER_OUT_MS=str(due_ms - 1)),
        stored_line("SCHEDULE_TOPIC_XXXX", 1, DELAY="3"),
        stored_line("orders", now_ms, TIMER_DELIVER_MS=str(due_ms)),
        stored_line("RMQ_SYS_TRANS_HALF_TOPIC", now_ms),
    ]
    done = run("produce", "orders", "--jsonl", given=b"\n".join(lines))
    assert done.code == 0
    first, second, third, fourth, *rest = sent(broker)
    assert [one.deliver_at_ms for one in (first, second, third)] == [due_ms, due_ms, 5_000]
    assert fourth.delay_level == 3
    assert [one.HasField("deliver_at_ms") for one in rest] == [False, False]
    assert "Note: 1 line had a delivery time that is past" in done.err
    assert "1 line had a delay level; the delay begins again" in done.err
    assert "1 line left out: each recalls a delayed message" in done.err
    assert "1 line had a transaction" in done.err
    assert "topics; all were sent" not in done.err


def test_a_delay_of_the_command_line_replaces_that_of_exported_lines(broker: LocalBroker) -> None:
    line = stored_line(TIMER, 1, TIMER_DELIVER_MS="5000", TIMER_OUT_MS="4999")
    assert run("produce", "orders", "--jsonl", "--delay", "30s", given=line).code == 0
    (message,) = sent(broker)
    assert (message.delay_ms, message.HasField("deliver_at_ms")) == (30_000, False)


def test_a_stored_line_of_the_timer_has_a_store_time(broker: LocalBroker) -> None:
    line = stored_line(TIMER, 1).replace(b": 1,", b': "1",')
    assert "store_timestamp_ms is no time" in run("produce", "orders", "--jsonl", given=line).err
    assert bodies(broker) == []


def test_exported_lines_of_several_topics_are_noted(broker: LocalBroker) -> None:
    lines = [stored_line(topic, 1, REAL_TOPIC="") for topic in ("a", "b", "c")]
    done = run("produce", "mixed", "--jsonl", given=b"\n".join(lines))
    assert "Note: the lines were of 3 topics; all were sent to mixed" in done.err
