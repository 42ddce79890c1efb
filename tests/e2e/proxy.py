"""A TCP proxy between two brokers, which a test cuts, stalls and heals.

with Proxy(target) as proxy:
    proxy.address                "127.0.0.1:port", which forwards to the target
    proxy.stall(to_target=True)  bytes to the target are held; the other way they go on
    proxy.cut()                  all connections end
    proxy.heal()
"""

import asyncio
import threading
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

READ_SIZE: Final = 64 * 1024


class Proxy:
    """Forwards connections to "host:port"; runs in a thread of its own."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self.address = ""
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.StreamWriter] = set()
        self._goes: dict[bool, asyncio.Event] = {}
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._is_up.wait(10)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def stall(self, *, to_target: bool) -> None:
        """Holds the bytes of one direction."""
        self._loop.call_soon_threadsafe(self._goes[to_target].clear)

    def heal(self) -> None:
        """Lets all bytes go on."""
        for goes in self._goes.values():
            self._loop.call_soon_threadsafe(goes.set)

    def cut(self) -> None:
        """Ends all connections."""

        def cut() -> None:
            for writer in self._open:
                writer.transport.abort()

        self._loop.call_soon_threadsafe(cut)

    def _run(self) -> None:
        self._loop.run_until_complete(self._begin())
        self._is_up.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _begin(self) -> None:
        self._goes = {way: asyncio.Event() for way in (True, False)}
        for goes in self._goes.values():
            goes.set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # Transports close their sockets in the next turn.

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        with suppress(OSError, asyncio.CancelledError):
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            self._open.add(far_writer)
            ways = [
                asyncio.create_task(self._carry(reader, far_writer, to_target=True)),
                asyncio.create_task(self._carry(far_reader, writer, to_target=False)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            far_writer.transport.abort()
            self._open.discard(far_writer)
        writer.transport.abort()
        self._open.discard(writer)

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, to_target: bool
    ) -> None:
        with suppress(OSError):
            while content := await reader.read(READ_SIZE):
                await self._goes[to_target].wait()
                writer.write(content)
                await writer.drain()
