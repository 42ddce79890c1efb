"""A master of RocketMQ that a test plays: its port of clients, and its HA port, on loopback.

async with played_master(log, answers, 65536) as master:
    … follow master.endpoint …
    assert master.reports[0] == [1, 929]        what the follower sent on its first connection
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from struct import Struct
from typing import Any

from pocketmq.wire.remoting import RESPONSE, Command, CommandReader, Oversized, encode

HEAD, REPORT, SIZE = Struct(">qi"), Struct(">q"), Struct(">i")
RECORDED = Path(__file__).parents[1] / "services" / "replication" / "recorded"
SESSIONS = ("small.ha-3", "small-kill.ha-6")
FILE_SIZE = 64 * 1024
PIECE_SIZE = 32 * 1024
CONFIG, RUNTIME, MESSAGE = 26, 28, 33

Work = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


def recorded_frames(session: str) -> list[tuple[int, bytes]]:
    """Returns (offset, bytes) of each frame of the log that a real master sent in a session."""
    content, at, found = (RECORDED / f"{session}.down").read_bytes(), 0, []
    while at < len(content):
        offset, size = HEAD.unpack_from(content, at)
        at += HEAD.size + size
        if size:
            found.append((offset, content[at - size : at]))
    return found


def recorded_log() -> bytes:
    """Returns the log that the recorded master had in the end."""
    return b"".join(part for session in SESSIONS for _, part in recorded_frames(session))


def recorded_reports(session: str) -> list[int]:
    """Returns what the recorded slave reported, without repetitions."""
    content = (RECORDED / f"{session}.up").read_bytes()
    return list(dict.fromkeys(number for (number,) in REPORT.iter_unpack(content)))


def recorded_answers() -> dict[int, bytes]:
    """Returns the bodies of the tables that the recorded master sent, by request code."""
    found = json.loads((RECORDED / "tables.json").read_text())
    del found["files"]
    bodies = {int(code): str(body).encode() for code, body in found.items()}
    return {**bodies, 60: base64.b64decode(bodies[60])}


def recorded_files() -> dict[str, str]:
    """Returns the tables of the recorded slave's store, by name."""
    files: dict[str, str] = json.loads((RECORDED / "tables.json").read_text())["files"]
    return files


class PlayedMaster:
    """The state of a played master; a test may change it at any time.

    log       bytes of the log from `begin` on
    answers   bodies by request code; other codes are refused as unknown
    settings  lines of its configuration that differ
    ends      where frames end; other frames end at a file's end, or have 32 KiB
    """

    def __init__(self, log: bytes, answers: Mapping[int, bytes], file_size: int) -> None:
        self.log, self.begin = log, 0
        self.answers = dict(answers)
        self.settings: dict[str, str] = {"mappedFileSizeCommitLog": str(file_size)}
        self.file_size = file_size
        self.ends: Sequence[int] = ()
        self.held = 1 << 62
        """Physical offset from which on the master sends nothing."""
        self.is_paced = False
        """Whether each frame waits for the report of the one before."""
        self.reports: list[list[int]] = []
        """What followers sent on each HA connection."""
        self.requests: list[Command] = []
        self.grown = asyncio.Event()
        self.writers: list[asyncio.StreamWriter] = []
        self.endpoint = ""

    @property
    def end(self) -> int:
        """The end of the log."""
        return self.begin + len(self.log)

    def grow(self, more: bytes) -> None:
        """Appends bytes to the log."""
        self.log += more
        self.grown.set()

    def cut(self) -> None:
        """Closes all connections."""
        for writer in self.writers:
            writer.transport.abort()
        self.writers.clear()

    # -- port of clients -----------------------------------------------------------------------
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of a connection."""
        self.writers.append(writer)
        commands = CommandReader(lambda code: 0)
        with suppress(OSError):
            while content := await reader.read(1 << 16):
                for request in commands.receive(content):
                    assert not isinstance(request, Oversized)
                    self.requests.append(request)
                    writer.write(encode(self._answer(request)))

    def _answer(self, request: Command) -> Command:
        code, body = 0, self.answers.get(request.code)
        if request.code == CONFIG:
            body = "".join(f"{key}={value}\n" for key, value in self.settings.items()).encode()
        elif request.code == RUNTIME:
            ends = {"commitLogMinOffset": str(self.begin), "commitLogMaxOffset": str(self.end)}
            body = json.dumps({"table": ends}).encode()
        elif request.code == MESSAGE:
            at = int(request.fields["offset"]) - self.begin
            size = SIZE.unpack_from(self.log, at)[0] if 0 <= at <= len(self.log) - 4 else 0
            body = self.log[at : at + size] if size > 0 else b""
            code = 0 if body else 1
        elif body is None:
            code = 3
        return Command(code, {}, body or b"", request.opaque, RESPONSE, "as played")

    # -- HA port -------------------------------------------------------------------------------
    async def replicate(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Sends the log from the first report on."""
        self.writers.append(writer)
        reports: list[int] = []
        self.reports.append(reports)
        heard = asyncio.Event()

        async def listen() -> None:
            with suppress(OSError, asyncio.IncompleteReadError):
                while True:
                    reports.extend(REPORT.unpack(await reader.readexactly(REPORT.size)))
                    heard.set()

        async with asyncio.TaskGroup() as both:
            listening = both.create_task(listen())
            await heard.wait()
            at = reports[0]
            while not listening.done():
                if at >= min(self.end, self.held):
                    self.grown.clear()
                    growing = asyncio.create_task(self.grown.wait())
                    await asyncio.wait((listening, growing), return_when="FIRST_COMPLETED")
                    growing.cancel()
                    continue
                end = self._frame_end(at)
                content = self.log[at - self.begin : end - self.begin]
                writer.write(HEAD.pack(at, len(content)) + content)
                at = end
                while self.is_paced and reports[-1] < at and not listening.done():
                    heard.clear()
                    await heard.wait()

    def _frame_end(self, at: int) -> int:
        above = [end for end in self.ends if end > at]
        file_end = at - at % self.file_size + self.file_size
        return min(*above[:1], self.end, self.held, file_end, at + PIECE_SIZE)


@asynccontextmanager
async def played_master(
    log: bytes, answers: Mapping[int, bytes], file_size: int
) -> AsyncIterator[PlayedMaster]:
    """Serves a played master until the block ends."""
    master, begun = PlayedMaster(log, answers, file_size), list[asyncio.Task[None]]()
    async with asyncio.TaskGroup() as tasks:

        def kept(work: Work) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
            return lambda reader, writer: begun.append(tasks.create_task(work(reader, writer)))

        clients = await asyncio.start_server(kept(master.serve), "127.0.0.1", 0)
        slaves = await asyncio.start_server(kept(master.replicate), "127.0.0.1", 0)
        ports = [one.sockets[0].getsockname()[1] for one in (clients, slaves)]
        master.settings["haListenPort"] = str(ports[1])
        master.endpoint = f"rocketmq://127.0.0.1:{ports[0]}"
        try:
            yield master
        finally:
            for server in (clients, slaves):
                server.close()
            master.cut()
            for task in begun:
                task.cancel()
