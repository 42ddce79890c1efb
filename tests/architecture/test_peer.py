"""The comparison with a real RocketMQ: verdicts, what its clients print, what they send."""

import json
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as some

from bench.peer.clients import h2load_run
from bench.peer.compare import SECTIONS, fitted, measured
from bench.peer.content import Content, equal_contents, mixed_contents, v1_request, v2_request
from bench.peer.rocketmq import checked_jars, is_sent
from bench.peer.rows import FLOOR, HELD, MISSED, NOT_RUN, Aim, Row, ratios, table
from bench.peer.sides import Extent
from pocketmq.rpc.pb import broker_pb2 as pb

PRINTED = """
finished in 2.00s, 25000.00 req/s, 3.10MB/s
requests: 50000 total, 50000 started, 50000 done, {} succeeded, {} failed, 0 errored, 0 timeout
status codes: 50000 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 6.20MB (6500164) total, 1.05MB (1100000) headers (80.00%), 4.96MB (5200000) data
"""


# --- rows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("aim", "value", "verdict"),
    [
        (Aim(3.0, 2.0), 3.0, HELD),
        (Aim(3.0, 2.0), 2.5, FLOOR),
        (Aim(3.0, 2.0), 1.99, MISSED),
        (Aim(0.4, at_most=True), 0.4, HELD),
        (Aim(0.4, at_most=True), 0.41, MISSED),
    ],
)
def test_a_median_holds_its_goal_or_its_floor_or_misses_both(
    aim: Aim, value: float, verdict: str
) -> None:
    assert Row("row", "a row", aim, [value, 0.0, 99.0]).verdict == verdict


def test_a_row_that_was_not_measured_says_why_in_table_and_document() -> None:
    row = Row("row", "a row", None, [], why="no\njava")
    assert table([row]).endswith(f"| a row | – | – | {NOT_RUN} | no java |")
    document = json.loads(row.line())
    assert (document["verdict"], document["why"], document["value"]) == (NOT_RUN, "no\njava", None)


def test_ratios_are_taken_round_by_round() -> None:
    assert ratios([6.0, 1.0], [2.0, 4.0]) == [3.0, 0.25]
    with pytest.raises(ValueError):
        ratios([1.0], [])


def test_runs_get_shorter_with_the_minutes_and_no_shorter_than_tells_something() -> None:
    names = [*SECTIONS]
    long, short, none = (fitted(names, 5, minutes) for minutes in (25, 18, 1))
    assert long.seconds > short.seconds > none.seconds >= 0.5
    assert sum(SECTIONS[name].seconds(long) for name in names) == pytest.approx(1500)


def test_what_does_not_fit_the_time_left_or_fails_is_told_and_the_rest_goes_on() -> None:
    (late,) = measured("sends", Path("/nowhere"), Extent(), 1.0)
    assert late.verdict == NOT_RUN
    assert "were left" in late.why


def test_jars_that_are_not_there_are_told_with_how_to_fetch_them(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"rocketmq-proxy-5\.5\.0\.jar.*\n?.*mvn .*copy-dep"):
        checked_jars(tmp_path)


# --- clients ------------------------------------------------------------------------------------


def test_a_run_is_read_from_what_h2load_prints() -> None:
    run = h2load_run(PRINTED.format(50000, 0))
    assert run is not None
    assert (run.calls, run.per_second, run.answer_bytes) == (50_000, 25_000.0, 5_200_000)


@pytest.mark.parametrize("printed", [PRINTED.format(49999, 1), "connection refused", ""])
def test_a_run_with_failed_calls_counts_nothing(printed: str) -> None:
    assert h2load_run(printed) is None


def test_only_ok_of_an_answer_in_v2_is_sent() -> None:
    assert is_sent(bytes.fromhex("0a0608a09c0112001200"))
    assert not is_sent(bytes.fromhex("0a0608a49d0112001200"))
    assert not is_sent(b"")


# --- content ------------------------------------------------------------------------------------


def v2_message() -> type[Message]:
    """The request's messages as apache.rocketmq.v2 has them, as far as they are set here."""
    file = FileDescriptorProto(name="v2.proto", package="v2", syntax="proto3")
    texts, numbers = {1: "tag", 3: "message_id", 8: "born_host"}, {5: "encoding", 6: "type"}
    fields = {
        "Resource": [(2, "name", 9, "")],
        "Timestamp": [(1, "seconds", 3, "")],
        "System": [
            *((number, name, 9, "") for number, name in texts.items()),
            *((number, name, 5, "") for number, name in numbers.items()),
            (2, "keys", -9, ""), (7, "born", 11, ".v2.Timestamp"),
        ],
        "Message": [
            (1, "topic", 11, ".v2.Resource"), (3, "system", 11, ".v2.System"), (4, "body", 12, ""),
        ],
        "Request": [(1, "messages", -11, ".v2.Message")],
    }  # fmt: skip
    for name, rows in fields.items():
        message = file.message_type.add(name=name)
        for number, field, kind, type_name in rows:
            label = 3 if kind < 0 else 1
            one = message.field.add(name=field, number=number, label=label)
            one.type = abs(kind)  # type: ignore[assignment]
            if type_name:
                one.type_name = type_name
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("v2.Request"))


V2 = v2_message()
texts = some.text(max_size=200)
contents = some.builds(
    Content, some.binary(max_size=300), texts, some.lists(texts, max_size=3).map(tuple), texts
)


@given(some.lists(contents, max_size=4))
def test_both_protocols_carry_the_same_messages(given_contents: list[Content]) -> None:
    ours = pb.SendMessageRequest.FromString(v1_request(given_contents)).messages
    assert [(m.body, m.tag, (*m.keys,), m.message_id) for m in ours] == given_contents
    parsed = V2.FromString(v2_request(given_contents))
    theirs = [
        (m.body, m.system.tag, (*m.system.keys,), m.system.message_id)
        for m in parsed.messages  # type: ignore[attr-defined]
    ]
    assert theirs == given_contents


def test_batches_of_equal_and_mixed_messages_are_as_their_names_say() -> None:
    assert {len(one.body) for one in equal_contents(100)} == {1024}
    mixed = mixed_contents(100)
    assert len({len(one.body) for one in mixed}) == 6
    assert {len(one.keys) for one in mixed} == {0, 1, 2, 3}
    assert len({one.message_id for one in [*mixed, *equal_contents(100)]}) == 200
    assert mixed == mixed_contents(100)
