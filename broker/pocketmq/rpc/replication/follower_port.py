"""Serves PocketMQ followers on the port of clients, in clear or over TLS.

hello ──► answer ──► the stream of the log          (services/replication/handshake.py)
     └──► refusal, and the connection is closed
"""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pocketmq.model.errors import BrokerError
from pocketmq.rpc.replication.slave_port import READ_SIZE, carry
from pocketmq.services.replication.followers import Followers
from pocketmq.services.replication.handshake import (
    MALFORMED,
    NOT_LEADER,
    FollowerRefused,
    HandshakeReader,
    Hello,
    decode_hello,
    encode_answer,
    encode_refusal,
)

if TYPE_CHECKING:
    from pocketmq.rpc.replication.fencing import Fencer

CONNECTIONS_MAX: Final = 32
"""Upper limit of connections."""
HELLO_S: Final = 5.0
"""Time limit of a follower's hello."""
REFUSAL_S: Final = 1.0
"""Time limit for writing a refusal."""


class FollowerPort:
    """The part of the port for followers; `serve` admits them, `close` ends their connections."""

    __slots__ = ("_fencer", "_followers", "_open")

    def __init__(self) -> None:
        self._followers: Followers | None = None
        self._fencer: Fencer | None = None
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def serve(self, followers: Followers) -> None:
        """Admits followers from now on; before, their connections are closed."""
        assert self._followers is None, "followers are served already"
        self._followers = followers

    def connection(self, peer: str) -> asyncio.Protocol:
        """Returns the protocol of a connection whose first bytes are a hello's."""
        reader = asyncio.StreamReader()

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(asyncio.CancelledError):  # By `close`; asyncio would log it.
                await self._talk(peer.partition(":")[2], reader, writer)

        return asyncio.StreamReaderProtocol(reader, talk)

    def fence(self, fencer: "Fencer") -> None:
        """Begins to send this broker's term to the former leader."""
        self._fencer = fencer
        fencer.start()

    async def close(self) -> None:
        """Ends all connections, and admits no further follower."""
        self._followers = None
        if self._fencer is not None:
            await self._fencer.end()
        for task, writer in self._open.items():
            task.cancel()
            writer.transport.abort()
        if self._open:
            await asyncio.wait([*self._open])

    async def _talk(
        self, peer: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task, followers = asyncio.current_task(), self._followers
        assert task is not None
        if followers is None or len(self._open) >= CONNECTIONS_MAX:
            writer.close()
            return
        self._open[task] = writer
        assert len(self._open) <= CONNECTIONS_MAX
        try:
            async with asyncio.timeout(HELLO_S):
                hello = await _hello(reader)
            answer, stream = await followers.admit(hello, peer)
            writer.write(encode_answer(answer))
            await carry(followers.leader, stream, reader, writer)
        except (FollowerRefused, BrokerError) as error:
            followers.leader.refuse(peer, str(error))
            refused = error if isinstance(error, FollowerRefused) else _as_refusal(error)
            await _refuse(writer, refused)
        except (OSError, TimeoutError) as error:
            followers.leader.refuse(peer, str(error) or "no hello arrived")
        finally:
            del self._open[task]
            writer.transport.abort()


async def _hello(reader: asyncio.StreamReader) -> Hello:
    handshake = HandshakeReader()
    while content := await reader.read(READ_SIZE):
        members = handshake.receive(content)
        if members is not None:
            if handshake.rest:
                raise FollowerRefused(MALFORMED, "it speaks before it was answered")
            return decode_hello(members)
    raise ConnectionResetError("the connection was closed before its hello")


def _as_refusal(error: BrokerError) -> FollowerRefused:
    return FollowerRefused(NOT_LEADER, f"the leader cannot serve followers now: {error}")


async def _refuse(writer: asyncio.StreamWriter, refused: FollowerRefused) -> None:
    try:
        writer.write(encode_refusal(refused))
        async with asyncio.timeout(REFUSAL_S):
            await writer.drain()
            writer.close()
            await writer.wait_closed()
    except (OSError, TimeoutError):
        return
