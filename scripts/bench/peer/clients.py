"""The clients that load both sides: h2load, which costs least, and one on grpc-go (bench/go).

h2load sends the same bytes each time, many streams to a connection; the Go client sends headers
that differ from call to call, as users' clients do, and can hold a rate. Both make an exact number
of calls or say how many they made, so that what is stored can be counted against it.
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
    """Counters of a client; bytes are those of the answers, 0 where it reports none.

    cpu_seconds   what the server took meanwhile, where the client was asked for it
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
    """Makes so many calls, 8 × 8 in flight unless told otherwise.

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
    """Returns what h2load printed, None where calls failed or were not made."""
    done, rate, size = _DONE.search(said), _RATE.search(said), _BYTES.search(said)
    if done is None or rate is None or size is None or len(set(done.groups())) > 1:
        return None
    calls = int(done[1])
    return Run(calls, calls / float(rate[1]), answer_bytes=int(size[1]))


def check_clients() -> None:
    """Builds what has to be built.

    Errors   NotHere: h2load or Go is missing, with how to install it
    """
    need("h2load", "Debian's package is nghttp2-client")
    go_program()


@cache
def go_program() -> Path:
    """Returns the Go client, built from its source where that changed.

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
    """Makes so many calls, or calls for some seconds, as fast as answers come or at a rate.

    callers   so many in all, which go from connection to connection, not `in_flight` on each
    warm   calls that are made before and not counted
    pid    the server's process, to tell what it takes
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
    """Receives and acknowledge so many messages by CONNECTIONS callers; `calls` counts messages.

    requests   a TelemetryCommand with a simple consumer's settings, and a ReceiveMessageRequest
    count      0: whatever is there, until there is nothing
    Errors     Failed: others came, or one twice, or they did not come in time
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
