"""A whole broker in this process, as an operator would start it.

async with broker_with(tmp_path, "broker.name=b7") as broker:
    await broker.client.admin.store_status()
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from pocketmq.app import serve as app
from pocketmq.app.stage import Stage
from pocketmq.client import AsyncClient, Message, Receipt
from pocketmq.config.addresses import split_address
from pocketmq.config.live import LiveConfig
from pocketmq.config.load import load

SMALL: Final = (
    "store.commit_log_file_size_bytes=64KiB",
    "store.consume_queue_file_size_bytes=2000",
    "store.index_slot_count=8",
    "store.index_entry_count_max=16",
    "store.time_zone=UTC",
    "limits.max_message_size_bytes=16KiB",
)
"""Files are small, so that everything rolls."""


class RunningBroker(NamedTuple):
    """A broker that serves: the addresses it bound, a client, how to stop it, and its end."""

    addresses: Mapping[str, Any]
    client: AsyncClient
    stop: asyncio.Future[str]
    serving: asyncio.Task[int]

    async def send(self, message: Message) -> Receipt:
        """Sends a message; returns its receipt once it can be read and found by key."""
        receipt = await self.client.send(message)
        await self.dispatched()
        return receipt

    async def dispatched(self) -> None:
        """Waits until all stored messages can be read and found by key."""
        while True:
            status = await self.client.admin.store_status()
            if status.dispatched_offset >= status.appended_offset:
                return

    async def page(self, path: str) -> str:
        """Returns what a page of the HTTP port says."""
        return await page(self.addresses["http"], path)


async def page(address: str, path: str) -> str:
    """Returns an answer to a GET, head and body."""
    reader, writer = await asyncio.open_connection(*split_address(address))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer.decode()


@asynccontextmanager
async def broker_with(
    directory: Path, *assignments: str, stage: Stage | None = None
) -> AsyncIterator[RunningBroker]:
    """Starts a broker in this process as the settings say, and stops it in the end."""
    ports = ("rpc.listen=127.0.0.1:0", "http.listen=127.0.0.1:0")
    config = load(assignments=[*SMALL, *ports, f"store.directory={directory}", *assignments])
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[Mapping[str, Any]] = loop.create_future()
    stop: asyncio.Future[str] = loop.create_future()
    running = app.serve(LiveConfig(config), ready.set_result, stop, stage=stage)
    serving = asyncio.create_task(running)
    await asyncio.wait((serving, ready), return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        serving.result()
    async with AsyncClient(ready.result()["grpc"], retry_ms=0) as client:
        try:
            yield RunningBroker(ready.result(), client, stop, serving)
        finally:
            if not stop.done():
                stop.set_result("test")
            await serving
