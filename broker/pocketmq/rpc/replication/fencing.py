"""Fences the former leader: a promoted broker tells it of the new term until it has an answer.

hello of a higher epoch ──► it refuses: it is fenced now, or follows another broker
                       └──► no connection: try again
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from pocketmq.rpc.replication.following import DIAL_S, READ_SIZE, Dial
from pocketmq.services.replication.handshake import (
    LATER_EPOCH,
    NOT_LEADER,
    FollowerRefused,
    HandshakeReader,
    Hello,
    decode_answer,
    encode_hello,
)

PAUSE_S: Final = 2.0
ENOUGH: Final = (LATER_EPOCH, NOT_LEADER)
"""Reasons of a broker that does not lead any more."""

logger = logging.getLogger(__name__)


class Fencer:
    """Tells one broker of a new leader.

    hello   returns the hello to send now
    """

    __slots__ = ("_dial", "_hello", "_task", "_trouble")

    def __init__(self, dial: Dial, hello: Callable[[], Hello]) -> None:
        self._dial = dial
        self._hello = hello
        self._task: asyncio.Task[None] | None = None
        self._trouble = ""

    def start(self) -> None:
        """Begins; `end` must follow."""
        assert self._hello().epoch > 0, "a leader without a term fences nobody else"
        self._task = asyncio.Task(self._run())

    async def end(self) -> None:
        """Gives up."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(DIAL_S):
                    trouble = await self._ask()
            except (OSError, TimeoutError) as error:
                trouble = str(error) or "no answer"
            if not trouble:
                logger.warning("leader.fenced", extra={"leader": self._dial.leader})
                return
            if trouble != self._trouble:
                extra = {"leader": self._dial.leader, "reason": trouble}
                logger.warning("leader.unfenced", extra=extra)
            self._trouble = trouble
            await asyncio.sleep(PAUSE_S)

    async def _ask(self) -> str:
        """Returns why the broker may still lead, "" if it does not."""
        reader, writer = await self._dial.open()
        try:
            writer.write(encode_hello(self._hello()))
            handshake = HandshakeReader()
            while content := await reader.read(READ_SIZE):
                if (members := handshake.receive(content)) is not None:
                    decode_answer(members)
                    return "it does not know of epochs"
        except FollowerRefused as refused:
            return "" if refused.reason in ENOUGH else str(refused)
        finally:
            writer.transport.abort()
        return "it closed the connection"
