"""Long tests of HTTP/2: beside other implementations, by h2spec, and under hostile peers.

wire      random header blocks, frames and conversations, compared with hpack, hyperframe and h2;
          the generators of tests/wire/test_chance.py. Eight of ten cases are header blocks
h2spec    conformance tests of HTTP/2 and HPACK, on an echo server and a broker; h2spec is a Go
          program on the PATH, or named by H2SPEC
hostile   hostile peers and mutated bytes of the tests; an attack lasts a twentieth of the time, at
          most 60 s; the figures are those of the last round
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from harness.budget import Budget, NotHere
from harness.process import ROOT, environment
from pocketmq.native import why_not_compiled
from pocketmq.wire.connection import Connection
from tests.e2e.daemon import Daemon
from tests.wire.cases import block_case, conversation_case, frames_case, time_limit

PORTION: Final = 50
"""Seeds of one task of a process."""
BLOCK_ROUNDS: Final = 16
HANG_S: Final = 120.0
Counts = tuple[int, int, int]
SUITES: Final = ("generic", "http2", "hpack")
TOTAL: Final = re.compile(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed")
ANSWER_S: Final = 2
ROUNDS: Final = 3
TESTS: Final = ("tests/faults/test_fuzz.py", "tests/faults/test_hostile_http2.py")
COUNTED: Final = re.compile(r"^\.?(\d+) (cases|requests|sets|stores|messages)", re.MULTILINE)
SUFFERED: Final = re.compile(r"^\.?(.+), repro: SEED=\d+\n(own|grpcio): (.+)$", re.MULTILINE)
ATTACK_MAX_S: Final = 60.0
ATTACK_MIN_S: Final = 2.0
ATTACKS_MAX: Final = 40
ROUND_S: Final = 600
TEST_S: Final = 120
"""Time limit of a test in addition to its attack."""


def wire(place: Path, budget: Budget) -> dict[str, Any]:
    """Runs cases until the time is over or `budget.cases` are done; returns the figures.

    Errors   AssertionError: a failed case, with its seed
    """
    blocks = frames = conversations = 0
    seeds = range(budget.seed << 32, (budget.seed << 32) + budget.cases)
    for some in budget.in_portions(seeds, PORTION, _portion):
        blocks, frames, conversations = (
            sum(pair) for pair in zip((blocks, frames, conversations), some, strict=True)
        )
        budget.progress(f"{blocks} blocks, {frames} frame sequences, {conversations} conversations")
        if blocks + frames + conversations >= budget.cases:
            break
    return {
        "cases": blocks + frames + conversations,
        "header blocks": blocks,
        "frame sequences": frames,
        "conversations": conversations,
        "form": why_not_compiled() or "compiled",
    }


def _portion(seeds: list[int]) -> Counts:
    """Runs the cases of some seeds; counts blocks, frame sequences and conversations."""
    blocks = frames = conversations = 0
    for seed in seeds:
        with time_limit(HANG_S):
            try:
                for at in range(BLOCK_ROUNDS):
                    blocks += block_case(Random((seed << 8) + at))
                frames += frames_case(Random(seed))
                frames += frames_case(Random(-seed))
                conversations += conversation_case(Random(seed))
            except Exception as error:
                raise AssertionError(f"seed {seed}") from error
    return blocks, frames, conversations


class EchoProtocol(asyncio.Protocol):
    """A server connection that replies to each call with its first message."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.connection = Connection()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sends the SETTINGS frame."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.flush()

    def data_received(self, data: bytes) -> None:
        """Replies to all complete calls."""
        for stream in self.connection.receive(data):
            if stream.ended:
                self.connection.respond(stream, stream.messages[0] if stream.messages else b"")
        self.flush()

    def flush(self) -> None:
        """Sends the pending bytes."""
        while data := self.connection.take():
            self.transport.write(data)
        if self.connection.closing:
            self.transport.close()


def h2spec(place: Path, budget: Budget) -> dict[str, Any]:
    """Runs all suites on the connection alone, then on a broker, ROUNDS times.

    Errors   AssertionError: a case failed; NotHere: h2spec is not installed
    """
    program = os.environ.get("H2SPEC") or shutil.which("h2spec")
    if program is None:
        raise NotHere(
            "h2spec is missing: go install github.com/summerwind/h2spec/cmd/h2spec@latest"
        )
    command = [program, *SUITES, "-o", str(ANSWER_S), "-j", str(place / "report.xml")]
    limit_s = max(60.0, budget.seconds)
    found = {"echo": asyncio.run(_of_echo(command, limit_s))}
    with Daemon(place / "store") as broker:
        host, _, port = broker.endpoint.rpartition(":")
        for number in range(1, ROUNDS + 1):
            found[f"broker, {number}"] = asyncio.run(_judged(command, host, port, limit_s))
    return {**found, "form": why_not_compiled() or "compiled"}


async def _of_echo(command: Sequence[str], limit_s: float) -> str:
    server = await asyncio.get_running_loop().create_server(EchoProtocol, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        return await _judged(command, "127.0.0.1", str(port), limit_s)
    finally:
        server.close()


async def _judged(command: Sequence[str], host: str, port: str, limit_s: float) -> str:
    run = await asyncio.create_subprocess_exec(
        *(*command, "-h", host, "-p", port),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await asyncio.wait_for(run.communicate(), limit_s)
    text = said.decode(errors="replace")
    found = TOTAL.search(text)
    assert found, f"h2spec did not finish:\n{text}"
    tests, passed, skipped, failed = map(int, found.groups())
    assert not failed, f"{failed} cases failed:\n{text[text.find('Failures:') :]}"
    return f"{passed} of {tests} passed, {skipped} skipped"


def hostile(place: Path, budget: Budget) -> dict[str, Any]:
    """Runs rounds until the time is over; returns the figures.

    Errors   AssertionError: a failed round, with its seed
    """
    counts: dict[str, int] = {}
    suffered: dict[str, str] = {}
    attack_s = min(ATTACK_MAX_S, max(ATTACK_MIN_S, budget.seconds / 20))
    rounds = 0
    for seed in budget.seeds():
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-s", f"--timeout={TEST_S + 2 * attack_s}"),
                *(f"--basetemp={place / 'round'}", *TESTS),
            ],
            cwd=ROOT,
            env=environment(more={"SEED": str(seed), "HOSTILE_S": str(attack_s)}),
            capture_output=True,
            text=True,
            check=False,
            timeout=ROUND_S + ATTACKS_MAX * attack_s,
        )
        assert done.returncode == 0, f"repro: SEED={seed} pytest {' '.join(TESTS)}\n{done.stdout}"
        for count, what in COUNTED.findall(done.stdout):
            counts[what] = counts.get(what, 0) + int(count)
        for attack, transport, figures in SUFFERED.findall(done.stdout):
            suffered[f"{transport}: {attack}"] = figures
        rounds += 1
        budget.progress(f"{rounds} rounds, {counts}")
    return {"rounds": rounds, "attack s": attack_s, **counts, **suffered}
