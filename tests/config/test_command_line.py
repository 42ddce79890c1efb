"""Command lines of RocketMQ's image are found behind shells and paths; others stay as they are."""

import pytest

from pocketmq.config.command_line import program_line

BROKER = ["mqbroker", "-n", "ns:9876", "--enable-proxy", "-c", "/b.conf"]
REST = BROKER[1:]
IMAGE = {"POCKETMQ_IMAGE": "pocketmq"}


@pytest.mark.parametrize(
    "line",
    [
        BROKER,
        ["sh", *BROKER],
        ["bash", "./mqbroker", *REST],
        ["/bin/sh", "/home/rocketmq/rocketmq-5.3.2/bin/mqbroker", *REST],
        ["./mqbroker", *REST],
        ["sh", "-c", "mqbroker -n ns:9876 --enable-proxy -c /b.conf"],
        ["bash", "-c", "exec ./mqbroker -n ns:9876 --enable-proxy -c '/b.conf'"],
    ],
)
def test_a_broker_is_found(line: list[str]) -> None:
    assert program_line(line, {}) == BROKER


@pytest.mark.parametrize(
    "line",
    [
        [],
        ["sh"],
        ["sh", "-c"],
        ["sh", "-c", ""],
        ["sh", "-c", "mqbroker 'open"],
        ["sh", "-c", "cd /x && mqbroker"],
        ["sh", "-c", "mqbroker $OPTIONS"],
        ["broker", "-c", "/b.conf"],
        ["produce", "orders", "mqbroker"],
        ["serve"],
    ],
)
def test_other_lines_stay(line: list[str]) -> None:
    assert program_line(line, {"NODE_ROLE": "broker"}) == line


def test_roles_of_the_entry_point_count_in_the_image() -> None:
    assert program_line(["broker", "-c", "/b"], IMAGE) == ["mqbroker", "-c", "/b"]
    assert program_line(["nameserver"], IMAGE) == ["mqnamesrv"]
    role = {**IMAGE, "NODE_ROLE": "broker"}
    assert program_line(["serve"], role) == ["mqbroker"]
    assert program_line(["status"], role) == ["status"]
    assert program_line(["serve"], {**IMAGE, "NODE_ROLE": "controller"}) == ["serve"]


def test_a_command_of_mqadmin_is_left_alone_so_that_its_error_names_ours() -> None:
    assert program_line(["sh", "mqadmin", "updateTopic", "-t", "o"], {}) == [
        "updateTopic", "-t", "o"
    ]  # fmt: skip
    assert program_line(["./mqadmin"], {}) == ["--help"]
