"""Serves the commit log to slave brokers of RocketMQ, on a port of its own.

The protocol has no signatures and no TLS: only peers in `allowed` networks are served.
Source: DefaultHAService.AcceptSocketService, DefaultHAConnection.
"""

import asyncio
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Final

from pocketmq.model.errors import BrokerError
from pocketmq.model.page import bare_address
from pocketmq.rpc.own.listener import listen_on
from pocketmq.services.replication.leader import Leader
from pocketmq.services.replication.protocol import SlaveRefused, SlaveStream

Networks = Sequence[IPv4Network | IPv6Network]
READ_SIZE: Final = 64 * 1024
CONNECTIONS_MAX: Final = 32
"""Upper limit of connections."""


class SlavePort:
    """The listening port of slaves; `start` opens it, `close` ends all connections.

    number   bound port; 0 before `start`
    """

    __slots__ = ("_allowed", "_leader", "_open", "_server", "number")

    def __init__(self, allowed: Networks) -> None:
        self._allowed = allowed
        self._leader: Leader | None = None
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.number = 0

    async def start(self, leader: Leader, address: str) -> None:
        """Listens on "host:port"; port 0: any free port.

        Errors   AddressUnavailable
        """
        assert self._server is None, "the port is open already"
        self._leader = leader
        (listening,) = listen_on(address, "replication.listen")
        self._server = await asyncio.start_server(self._serve, sock=listening)
        self.number = self._server.sockets[0].getsockname()[1]
        assert 0 < self.number < 1 << 16

    async def close(self) -> None:
        """Closes the port and its connections; may be called before `start`."""
        if self._server is None:
            return
        self._server.close()
        for writer in self._open.values():
            writer.transport.abort()  # A peer that does not read would delay a close for ever.
        if self._open:
            await asyncio.wait([*self._open])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task, leader = asyncio.current_task(), self._leader
        assert task is not None
        assert leader is not None, "a connection before the start"
        host, port = writer.get_extra_info("peername")[:2]
        refusal = self._refusal(host)
        if refusal:
            leader.refuse(host, refusal)
            writer.close()
            return
        self._open[task] = writer
        try:
            await carry(leader, leader.connect(f"{host}:{port}"), reader, writer)
        finally:
            del self._open[task]
            writer.transport.abort()

    def _refusal(self, host: str) -> str:
        if len(self._open) >= CONNECTIONS_MAX:
            return f"{CONNECTIONS_MAX} slaves are connected"
        address = bare_address(host)
        if any(address in network for network in self._allowed):
            return ""
        return "its address is in no network of replication.peers"


async def carry(
    leader: Leader, stream: SlaveStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Sends the log to a slave or follower, and reads its reports, until the connection ends."""
    why = "the call was cancelled"
    try:
        async with asyncio.TaskGroup() as parts:
            parts.create_task(_send(leader, stream, writer))
            parts.create_task(leader.watch(stream))
            await _read(leader, stream, reader)
    except* SlaveRefused as refused:
        why = str(refused.exceptions[0])
    finally:
        leader.disconnect(stream, why)


async def _read(leader: Leader, stream: SlaveStream, reader: asyncio.StreamReader) -> None:
    """Reads reports until the connection ends.

    Errors   SlaveRefused
    """
    try:
        while content := await reader.read(READ_SIZE):
            leader.receive(stream, content)
    except OSError as error:
        raise SlaveRefused(error.strerror or str(error)) from error
    raise SlaveRefused("the connection was closed")


async def _send(leader: Leader, stream: SlaveStream, writer: asyncio.StreamWriter) -> None:
    """Sends tables, pieces of the log and marks until the connection ends.

    Errors   SlaveRefused
    """
    while True:
        try:
            table = await leader.table(stream)
        except BrokerError as error:
            raise SlaveRefused(str(error)) from error
        piece, marks = None if table else leader.next_piece(stream), leader.marks(stream)
        if piece is None and not marks and not table:
            await leader.woken(stream)
            continue
        try:
            if table:
                writer.write(table)
            if piece is not None:
                writer.writelines((piece.head, await leader.content(piece)))
                leader.said(stream, piece)
            if marks:
                writer.write(marks)
            await writer.drain()
        except (OSError, BrokerError) as error:
            raise SlaveRefused(str(error)) from error
