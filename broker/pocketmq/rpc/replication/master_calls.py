"""Requests to a master of RocketMQ on one connection, one after the other.

Source: BrokerOuterAPI, SlaveSynchronize; AclClientRPCHook for the signature.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from pocketmq.services.replication.follower import LeaderBroken
from pocketmq.wire.remoting import Command as Command
from pocketmq.wire.remoting import CommandReader, RemotingError, encode

READ_SIZE: Final = 256 * 1024
OK: Final = 0
UNSUPPORTED: Final = 3
"""REQUEST_CODE_NOT_SUPPORTED: the answer of an older RocketMQ."""
REMARK_MAX: Final = 300

Sign = Callable[[Command], Mapping[str, str]]
"""Returns the fields that sign a request; {}: unsigned."""


class MasterCalls:
    """Sends requests on a connection that only this object uses."""

    __slots__ = ("_number", "_reader", "_sign", "_stream", "_turn", "_writer")

    def __init__(
        self, stream: asyncio.StreamReader, writer: asyncio.StreamWriter, sign: Sign
    ) -> None:
        self._stream = stream
        self._writer = writer
        self._sign = sign
        self._reader = CommandReader(lambda code: 0)
        self._number = 0
        self._turn = asyncio.Lock()

    async def ask(self, code: int, fields: Mapping[str, str] | None = None) -> bytes:
        """Returns the body of the answer.

        Errors   LeaderBroken: the master refuses, or breaks RocketMQ's protocol; OSError
        """
        body = await self.find(code, fields)
        if body is None:
            raise LeaderBroken(f"the master does not support request {code}")
        return body

    async def find(self, code: int, fields: Mapping[str, str] | None = None) -> bytes | None:
        """Returns the body of the answer; None if the master does not know the code.

        Errors   LeaderBroken, OSError
        """
        answer = await self.answer(code, fields)
        if answer.code == UNSUPPORTED:
            return None
        if answer.code != OK:
            why = answer.remark[:REMARK_MAX]
            raise LeaderBroken(f"the master refuses request {code} ({answer.code}): {why}")
        return answer.body

    async def answer(self, code: int, fields: Mapping[str, str] | None = None) -> Command:
        """Returns the answer, whatever its code.

        Errors   LeaderBroken: the master breaks RocketMQ's protocol; OSError
        """
        async with self._turn:
            self._number += 1
            assert self._number < 1 << 31, "no number is left"
            request = Command(code, fields or {}, opaque=self._number)
            signed = request._replace(fields={**request.fields, **self._sign(request)})
            self._writer.write(encode(signed))
            while True:
                content = await self._stream.read(READ_SIZE)
                if not content:
                    raise ConnectionResetError("the master closed the connection")
                for found in self._received(content):
                    if found.is_reply and found.opaque == self._number:
                        return found

    def _received(self, content: bytes) -> list[Command]:
        try:
            found = self._reader.receive(content)
        except RemotingError as error:
            raise LeaderBroken(f"it does not speak RocketMQ's protocol: {error}") from error
        return [one for one in found if isinstance(one, Command)]
