"""Messages come from the command line, a file or a pipe, and are acknowledged one by one."""

import io
from pathlib import Path

from broker.cli.produce import BATCH_BYTES, batches, line_groups
from broker.client.values import ClientError, Outgoing, Wait
from broker.model.results import PutStatus
from tests.cli.command_line import run
from tests.cli.fake_broker import FakeBroker


def bodies(fake: FakeBroker) -> list[list[bytes]]:
    return [[message.body for message in request] for request in fake.requests]


def test_a_message_carries_what_is_said_of_it(fake: FakeBroker) -> None:
    done = run(
        "produce", "orders", "grün", "-k", "a", "-k", "b", "-t", "red", "-p", "x=1=2", "-p", "y=",
        "--queue", "1", "--group", "g",
    )  # fmt: skip
    assert done.code == 0
    assert fake.requests == [
        [
            Outgoing(
                "orders",
                "grün".encode(),
                tag="red",
                keys=("a", "b"),
                queue_id=1,
                message_group="g",
                properties={"x": "1=2", "y": ""},
            )
        ]
    ]
    assert done.document["status"] == "SEND_OK"
    assert done.document["message_id"] == "ID0"


def test_what_is_not_said_is_absent(fake: FakeBroker) -> None:
    run("produce", "orders", "x")
    assert fake.requests == [[Outgoing("orders", b"x")]]


def test_it_waits_for_the_disk_unless_told_not_to(fake: FakeBroker) -> None:
    run("produce", "orders", "x")
    run("produce", "orders", "x", "--no-wait")
    assert fake.waits == [Wait.DURABLE, Wait.APPENDED]


def test_each_line_of_a_pipe_is_a_message(fake: FakeBroker) -> None:
    done = run("produce", "orders", "--file", "-", "-o", "jsonl", given=b"a\n\nb\xff\nc")
    assert done.code == 0
    assert [body for request in bodies(fake) for body in request] == [b"a", b"b\xff", b"c"]
    assert [row["queue_offset"] for row in done.rows] == [0, 1, 2]
    assert {row["status"] for row in done.rows} == {"SEND_OK"}


def test_each_line_of_a_file_is_a_message(fake: FakeBroker, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("a\nb\n")
    assert run("produce", "orders", "--file", str(file)).document[1]["queue_offset"] == 1
    assert bodies(fake) == [[b"a", b"b"]]


def test_a_batch_has_so_many_messages_at_most(fake: FakeBroker) -> None:
    run("produce", "orders", "--file", "-", "--batch", "2", given="1\n2\n3\n4\n5\n")
    assert bodies(fake) == [[b"1", b"2"], [b"3", b"4"], [b"5"]]


def test_every_message_of_a_file_carries_the_same_key(fake: FakeBroker) -> None:
    run("produce", "orders", "--file", "-", "-k", "k", given="1\n2\n")
    assert [message.keys for message in fake.requests[0]] == [("k",), ("k",)]


def test_a_batch_that_is_too_large_goes_in_halves(fake: FakeBroker) -> None:
    fake.body_size_max = 5
    done = run("produce", "orders", "--file", "-", "-o", "jsonl", given="aa\nbb\ncc\ndd\nee\n")
    assert bodies(fake) == [[b"aa", b"bb"], [b"cc"], [b"dd", b"ee"]]
    assert [row["queue_offset"] for row in done.rows] == [0, 1, 2, 3, 4]


def test_a_message_that_is_too_large_ends_it_behind_those_acknowledged(fake: FakeBroker) -> None:
    fake.body_size_max = 5
    done = run("produce", "orders", "--file", "-", "-o", "jsonl", given="aa\ntoolarge\nbb\n")
    assert done.code == 4
    assert len(done.rows) == 1
    assert "too large" in done.err


def test_other_refusals_are_not_tried_in_halves(fake: FakeBroker) -> None:
    fake.error = ClientError("IllegalTopic", "no", code="INVALID_ARGUMENT")
    assert run("produce", "a.b", "--file", "-", given="1\n2\n").code == 4


def test_a_table_shows_each_receipt(fake: FakeBroker) -> None:
    done = run("produce", "orders", "--file", "-", "-o", "table", given="1\n2\n")
    title, first, second = done.out.splitlines()
    assert title.split() == ["MESSAGE", "ID", "QUEUE", "OFFSET", "STATUS"]
    assert first.split() == ["ID0", "0", "0", "SEND_OK"]
    assert second.split() == ["ID1", "0", "1", "SEND_OK"]


def test_wrong_use_says_how(fake: FakeBroker) -> None:
    assert "--file" in run("produce", "orders").err
    assert run("produce", "orders", "x", "--file", "-").code == 2
    assert "NAME=VALUE" in run("produce", "orders", "x", "-p", "nothing").err
    assert "no-such-file" in run("produce", "orders", "--file", "no-such-file").err
    assert fake.requests == []


def test_a_slow_pipe_is_sent_as_it_comes() -> None:
    class Pipe(io.BytesIO):
        pieces = [b"a\nb", b"c\n", b"d"]

        def read1(self, size: int | None = -1, /) -> bytes:
            return self.pieces.pop(0) if self.pieces else b""

    assert list(line_groups(Pipe())) == [[b"a"], [b"bc"], [], [b"d"]]


def test_a_batch_is_bounded_in_bytes_too() -> None:
    half = b"x" * (BATCH_BYTES // 2)
    groups = [[half, half, b"y", b"z" * (BATCH_BYTES + 1), b"w"]]
    sizes = [[len(body) for body in batch] for batch in batches(groups, 10)]
    assert sizes == [[len(half), len(half)], [1], [BATCH_BYTES + 1], [1]]


def test_the_statuses_that_are_known_have_names() -> None:
    from broker.cli.documents import SEND_STATUS_NAMES

    assert SEND_STATUS_NAMES.keys() == set(PutStatus)
