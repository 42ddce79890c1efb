"""The clients that load both sides: h2load, which costs least, and one on grpc-go (bench/go).

h2load sends the same bytes each time, with many streams on a connection. The Go client sends
headers that differ from call to call, as users' clients do, and can hold a rate. Both make an exact
number of calls or report their number, to compare it with the number of stored messages.
"""

import json
import re
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from bench.load import framed
from harness.process import CACHE, ended, need

CONNECTIONS: Final = 8
STREAMS: Final = 8
"""Calls in flight on each connection."""
RUN_SECONDS_MAX: Final = 300
GO_SOURCE: Final = Path(__file__).parents[1] / "go"
GO_PROGRAM: Final = CACHE / "bench" / "load"
HEADERS: Final = (
    "content-type: application/grpc", "te: trailers", "x-mq-client-id: bench",
    "x-mq-language: GO", "x-mq-client-version: 5.1.0", "x-mq-protocol: v2",
)  # fmt: skip
_DONE: Final = re.compile(r"requests: (\d+) total, \d+ started, (\d+) done, (\d+) succeeded")
_RATE: Final = re.compile(r"finished in \S+, ([\d.]+) req/s")
_BYTES: Final = re.compile(r"\((\d+)\) data")


class Run(NamedTuple):
    """Counters of a client.

    answer_bytes  bytes of all replies, 0 if the client reports none
    cpu_seconds   the server's processor time during the run, if requested
    """

    calls: int
    seconds: float
    p99_ms: float = 0.0
    answer_bytes: int = 0
    cpu_seconds: float = 0.0

    @property
    def per_second(self) -> float:
        """Calls answered each second."""
        return self.calls / self.seconds


def h2load(
    target: str, method: str, request: bytes, calls: int, *, connections: int = CONNECTIONS,
    streams: int = STREAMS,
) -> Run:  # fmt: skip
    """Makes `calls` calls, by default on 8 connections with 8 streams each.

    Errors   SystemExit: a call was not answered
    """
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(b"\0" + len(request).to_bytes(4) + request)
        command = ["h2load", "-n", str(calls), "-c", str(connections), "-m", str(streams)]
        command += ["-d", file.name]
        for header in HEADERS:
            command += ["-H", header]
        said = _said([*command, f"http://{target}{method}"])
    run = h2load_run(said)
    if run is None or run.calls != calls:
        raise SystemExit(f"h2load on {method}: not all of {calls} calls were answered\n{said}")
    return run


def h2load_run(said: str) -> Run | None:
    """Parses the output of h2load; returns None if calls failed or were not made."""
    done, rate, size = _DONE.search(said), _RATE.search(said), _BYTES.search(said)
    if done is None or rate is None or size is None or len(set(done.groups())) > 1:
        return None
    calls = int(done[1])
    return Run(calls, calls / float(rate[1]), answer_bytes=int(size[1]))


def check_clients() -> None:
    """Builds the clients.

    Errors   NotHere: h2load or Go is missing, with how to install it
    """
    need("h2load", "Debian's package is nghttp2-client")
    go_program()


@cache
def go_program() -> Path:
    """Returns the Go client, built from its source if that has changed.

    Errors   NotHere: there is no Go; Failed: it does not build
    """
    newest = max(file.stat().st_mtime for file in GO_SOURCE.iterdir())
    if not GO_PROGRAM.exists() or GO_PROGRAM.stat().st_mtime < newest:
        need("go", "install Go 1.26, it builds our client")
        GO_PROGRAM.parent.mkdir(parents=True, exist_ok=True)
        _said(["go", "-C", str(GO_SOURCE), "build", "-o", str(GO_PROGRAM), "."])
    return GO_PROGRAM


def go_load(
    target: str, method: str, *requests: bytes, calls: int = 0, seconds: float = 0,
    rate: float = 0, connections: int = CONNECTIONS, in_flight: int = STREAMS, warm: int = 0,
    callers: int = 0, pid: int = 0,
) -> Run:  # fmt: skip
    """Makes `calls` calls, or calls for `seconds`, as fast as replies arrive or at a rate.

    callers   concurrent callers in all, which switch connections; 0: `in_flight` on each connection
    warm      uncounted calls before the run
    pid       the server's process, whose processor time is measured; 0: none
    Errors   Failed: a call failed
    """
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(framed(requests))
        said = _said(
            [
                str(go_program()), "-target", target, "-method", method, "-requests", file.name,
                "-count", str(calls), "-seconds", str(seconds), "-rate", str(rate),
                "-connections", str(connections), "-in-flight", str(in_flight),
                "-warm", str(warm), "-pid", str(pid),
                "-callers", str(callers),
            ]
        )  # fmt: skip
    counted = json.loads(said)
    return Run(
        int(counted["calls"]), counted["seconds"], counted["p99_ms"],
        cpu_seconds=counted["cpu_seconds"],
    )  # fmt: skip


def go_consume(target: str, requests: Sequence[bytes], count: int, pid: int) -> Run:
    """Receives and acknowledges messages by CONNECTIONS callers; `calls` is the message count.

    requests   a TelemetryCommand with a simple consumer's settings, and a ReceiveMessageRequest
    count      messages; 0: all available messages
    Errors     Failed: an unexpected message, a duplicate, or a timeout
    """
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(framed(requests))
        said = _said(
            [
                str(go_program()), "-consume", "-target", target, "-requests", file.name,
                "-count", str(count), "-callers", str(CONNECTIONS), "-pid", str(pid),
                "-connections", str(CONNECTIONS),
            ]
        )  # fmt: skip
    counted = json.loads(said)
    return Run(int(counted["calls"]), counted["seconds"], cpu_seconds=counted["cpu_seconds"])


def _said(command: list[str]) -> str:
    return ended(command, timeout_s=RUN_SECONDS_MAX)
