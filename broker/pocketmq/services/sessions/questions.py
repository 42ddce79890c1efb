"""Questions: commands to clients, on their streams, that clients have to answer.

The answer repeats the nonce of the command. Questions are kept only in memory, and fail when the
client's stream ends.
Source: GrpcClientChannel, ResultFuture.
"""

import asyncio
from collections.abc import Callable
from secrets import token_hex
from typing import Final, NamedTuple

from pocketmq.model.administration import ClientAnswer
from pocketmq.model.errors import ClientSilent, shown_duration

ASKED_MAX: Final = 256
"""Upper limit of unanswered questions."""


class Reconnect(NamedTuple):
    """Command to connect again, as the broker is about to stop."""


class PrintStack(NamedTuple):
    """Command to report the stack of each thread; `group` is the client's consumer group."""

    nonce: str
    group: str


class Verify(NamedTuple):
    """Command to consume a message directly, and to report the result.

    record   the stored record
    topic    topic of the message
    group    consumer group of the client
    """

    nonce: str
    record: bytes
    topic: str
    group: str


Command = Reconnect | PrintStack | Verify
Say = Callable[[Command], bool]
"""Queues a command on a client's stream; returns False if the client does not read."""


class _Asked(NamedTuple):
    say: Say
    answer: "asyncio.Future[ClientAnswer]"


class Questions:
    """All unanswered questions, by nonce."""

    __slots__ = ("_asked",)

    def __init__(self) -> None:
        self._asked: dict[str, _Asked] = {}

    async def ask(
        self, say: Say, client_id: str, make: Callable[[str], Command], wait_ms: int
    ) -> ClientAnswer:
        """Sends a question to a client; returns the answer.

        make     returns the command for a nonce
        Errors   ClientSilent
        """
        nonce = token_hex(16)
        answer: asyncio.Future[ClientAnswer] = asyncio.get_running_loop().create_future()
        if len(self._asked) >= ASKED_MAX or not say(make(nonce)):
            raise ClientSilent(client_id=client_id, why="it has not read earlier commands")
        self._asked[nonce] = _Asked(say, answer)
        try:
            done, _ = await asyncio.wait((answer,), timeout=wait_ms / 1000)
        finally:
            del self._asked[nonce]
        if not done:
            why = f"it did not answer within {shown_duration(wait_ms)}"
            raise ClientSilent(client_id=client_id, why=why)
        if answer.cancelled():
            raise ClientSilent(client_id=client_id, why="its stream ended meanwhile")
        return answer.result()

    def answered(self, say: Say, nonce: str, answer: ClientAnswer) -> None:
        """Completes a question; ignores a late answer, or an answer from another stream.

        nonce   "": the answer belongs to the oldest question on the stream
        """
        asked = self._asked.get(nonce)
        if not nonce:
            asked = next((one for one in self._asked.values() if one.say == say), None)
        if asked is not None and asked.say == say and not asked.answer.done():
            asked.answer.set_result(answer)
        assert len(self._asked) <= ASKED_MAX

    def end(self, say: Say) -> None:
        """Fails the questions of a closed stream."""
        for asked in self._asked.values():
            if asked.say == say:
                asked.answer.cancel()
