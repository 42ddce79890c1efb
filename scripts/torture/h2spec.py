"""h2spec, the independent conformance tests of HTTP/2 and HPACK, against an echo and a broker.

It is a program in Go: `go install github.com/summerwind/h2spec/cmd/h2spec@latest`, on the PATH or
named by H2SPEC. What it asks of a server that gRPC's never do (a body in answer to GET) is served
by the refusal in HTTP's words.
"""

import asyncio
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pocketmq.native import why_not_compiled
from pocketmq.wire.connection import Connection
from tests.e2e.daemon import Daemon
from torture.budget import Budget, NotHere

SUITES: Final = ("generic", "http2", "hpack")
TOTAL: Final = re.compile(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed")
ANSWER_S: Final = 2
ROUNDS: Final = 3


class EchoProtocol(asyncio.Protocol):
    """A connection on a socket whose calls are answered with their first message."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.connection = Connection()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sends the SETTINGS."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.flush()

    def data_received(self, data: bytes) -> None:
        """Answers all calls that are whole."""
        for stream in self.connection.receive(data):
            if stream.ended:
                self.connection.respond(stream, stream.messages[0] if stream.messages else b"")
        self.flush()

    def flush(self) -> None:
        """Sends what is to be sent."""
        while data := self.connection.take():
            self.transport.write(data)
        if self.connection.closing:
            self.transport.close()


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Runs all suites on the connection alone, then on a broker, as often as ROUNDS says.

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
