"""Questions to clients that await an answer.

    ask ─► command with a nonce, down the client's stream ─► its answer, by the nonce
                                                          └► or ClientSilent: too late, gone

They are held in memory only; a question ends with its stream at once.
Source: GrpcClientChannel, ResultFuture.
"""

import asyncio
from collections.abc import Callable
from secrets import token_hex
from typing import Final, NamedTuple

from pocketmq.model.administration import ClientAnswer
from pocketmq.model.errors import ClientSilent

ASKED_MAX: Final = 256
"""Questions without an answer at a time."""


class Reconnect(NamedTuple):
    """A command: the broker is about to end, dial again."""


class PrintStack(NamedTuple):
    """A command: report each thread's activity.

    group   that it consumes for
    """

    nonce: str
    group: str


class Verify(NamedTuple):
    """A command: consume this message once more, and report the result.

    record   as it is stored
    topic    its name
    group    that the client consumes for
    """

    nonce: str
    record: bytes
    topic: str
    group: str


Command = Reconnect | PrintStack | Verify
Say = Callable[[Command], bool]
"""Sends a command down a client's stream; returns whether there is room for it."""


class _Asked(NamedTuple):
    say: Say
    answer: "asyncio.Future[ClientAnswer]"


class Questions:
    """All questions, by their nonce."""

    __slots__ = ("_asked",)

    def __init__(self) -> None:
        self._asked: dict[str, _Asked] = {}

    async def ask(
        self, say: Say, client_id: str, make: Callable[[str], Command], wait_ms: int
    ) -> ClientAnswer:
        """Returns a client's answer.

        make     returns the question with a nonce
        Errors   ClientSilent
        """
        nonce = token_hex(16)
        answer: asyncio.Future[ClientAnswer] = asyncio.get_running_loop().create_future()
        if len(self._asked) >= ASKED_MAX or not say(make(nonce)):
            raise ClientSilent(client_id=client_id, why="it has not read what it was told before")
        self._asked[nonce] = _Asked(say, answer)
        try:
            done, _ = await asyncio.wait((answer,), timeout=wait_ms / 1000)
        finally:
            del self._asked[nonce]
        if not done:
            raise ClientSilent(client_id=client_id, why=f"it did not answer within {wait_ms} ms")
        if answer.cancelled():
            raise ClientSilent(client_id=client_id, why="its stream ended meanwhile")
        return answer.result()

    def answered(self, say: Say, nonce: str, answer: ClientAnswer) -> None:
        """Takes an answer; drops it if it is late, or to no question of this stream.

        nonce   "" if the client sends none: the answer is to the question asked first
        """
        asked = self._asked.get(nonce)
        if not nonce:
            asked = next((one for one in self._asked.values() if one.say == say), None)
        if asked is not None and asked.say == say and not asked.answer.done():
            asked.answer.set_result(answer)
        assert len(self._asked) <= ASKED_MAX

    def end(self, say: Say) -> None:
        """Ends the questions of a closed stream."""
        for asked in self._asked.values():
            if asked.say == say:
                asked.answer.cancel()
