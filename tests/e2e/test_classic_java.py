"""RocketMQ's classic client for Java works as it is, with the broker's port as its name server."""

import json
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from pocketmq.wire.remoting import Command, CommandReader, encode
from tests.e2e.daemon import Daemon, here
from tests.e2e.official.classic import classic_program, java_command
from tests.e2e.official.programs import Row

RUN_S: Final = 500
CASES: Final = [
    "push by tag", "two members share", "the rest takes over", "retry", "dead letter by pull",
    "orderly", "broadcast", "lite pull", "push by sql", "replier is there", "reply to a callback",
    "no reply to a callback", "traces", "retry by a send", "dead letter in order",
]  # fmt: skip
OWN_CASES: Final = {
    "4.9.8": ["reply", "no reply"],
    "5.3.3": ["pop by tag", "pop retry", "dead letter of a pop"],
}
"""Cases of one version."""
STEPS: Final = ["Pub", "SubBefore", "SubAfter", "SubBefore", "SubAfter"]
"""What the clients trace of a message that is consumed by the second try."""


def pops(endpoint: str, group: str, topic: str) -> None:
    """Lets a group pop, as mqadmin setConsumeMode does."""
    assert not here("topic", "create", topic, "--endpoint", endpoint).code
    mode = {"consumerGroup": group, "mode": "POP", "popShareQueueNum": -1, "topic": topic}
    host, _, port = endpoint.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(encode(Command(401, {}, json.dumps(mode).encode())))
        (reply,) = CommandReader(lambda code: 0).receive(connection.recv(4_096))
    assert isinstance(reply, Command)
    assert reply.code == 0, reply.remark


def decoded_step(columns: Sequence[str]) -> tuple[str, Row]:
    """Returns the message id and the step that RocketMQ's decoder read of a trace."""
    message_id, step, at_ms, group, cost_ms, success, times, request_id = columns
    found: Row = {"step": step, "client_timestamp_ms": int(at_ms), "group": group}
    if step == "SubBefore":
        found |= {"reconsume_times": int(times)}
    else:
        found |= {"cost_ms": int(cost_ms), "status": "SUCCESS" if success == "true" else "FAILED"}
    return message_id, found | ({} if step == "Pub" else {"request_id": request_id})


def check_traces(daemon: Daemon, lines: Sequence[str]) -> None:
    """Compares the steps that `msg trace` shows with those that RocketMQ's decoder reads."""
    decoded = [decoded_step(line.split("\t")[1:]) for line in lines if line.startswith("trace\t")]
    wanted = sorted(
        (step for _, step in decoded),
        key=lambda step: (step["client_timestamp_ms"], STEPS.index(step["step"])),
    )
    done = daemon.ask_here("msg", "trace", decoded[0][0], "-o", "jsonl")
    assert done.code == 0, done.err
    shown = [row for row in done.rows if "client" in row]
    assert [row["step"] for row in shown] == STEPS
    assert [row["status"] for row in shown if row["step"] == "SubAfter"] == ["FAILED", "SUCCESS"]
    assert {row["client"] for row in shown} == {"127.0.0.1"}
    names = wanted[0].keys() | wanted[1].keys()
    assert [{name: row[name] for name in names & row.keys()} for row in shown] == wanted


class Running:
    """A version of the client that runs all cases, with a broker of its own."""

    def __init__(self, version: str, place: Path, stack: ExitStack) -> None:
        self.daemon = stack.enter_context(Daemon(place / "store"))
        pops(self.daemon.endpoint, "popped", "Popped")
        made = self.daemon.ask_here("group", "create", "popped-in-vain", "--max-attempts", "1")
        assert not made.code
        pops(self.daemon.endpoint, "popped-in-vain", "PoppedInVain")
        classes = classic_program(version, "Classic.java")
        self._out, self._errors = place / "out", place / "errors"
        with self._out.open("wb") as out, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                java_command(classes, "Classic", self.daemon.endpoint, home=place),
                stdout=out, stderr=errors,
            )  # fmt: skip
        stack.callback(self._process.wait)
        stack.callback(self._process.kill)

    def lines(self) -> list[str]:
        """Returns what it has printed when it has ended."""
        self._process.wait(RUN_S)
        return self._out.read_text("utf-8").splitlines()

    def errors(self) -> str:
        """Returns the end of its standard error."""
        return self._errors.read_text("utf-8")[-2_000:]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Running]]:
    """The versions side by side, as each waits for delays most of the time."""
    with ExitStack() as stack:
        yield {
            version: Running(version, tmp_path_factory.mktemp("classic"), stack)
            for version in OWN_CASES
        }


@pytest.mark.timeout(240, func_only=True)
@pytest.mark.parametrize("version", OWN_CASES)
def test_consumers_for_java(running: dict[str, Running], version: str) -> None:
    client = running[version]
    lines = client.lines()
    told = [line for line in lines if line.startswith(("ok ", "failed "))]
    wanted = [f"ok {name}" for name in [*CASES, *OWN_CASES[version]]]
    assert sorted(told) == sorted(wanted), client.errors()
    check_traces(client.daemon, lines)
