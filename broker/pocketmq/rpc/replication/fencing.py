"""Fences the former leader: a promoted broker repeatedly sends it the new term.

hello of a higher epoch ──► it refuses: it is fenced now, or follows; ask again after WATCH_S
                       ├──► it admits: its own term is the later one, this broker is fenced
                       └──► no connection: try again after PAUSE_S

The new leader never stops: a former leader that lost its disk would start with its settings, and
lead again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from pocketmq.rpc.replication.following import DIAL_S, Dial, answer_from, reason_of
from pocketmq.services.replication.handshake import (
    LATER_EPOCH,
    NOT_LEADER,
    FollowerRefused,
    Hello,
    encode_hello,
)
from pocketmq.store.tables.identity import StoreIdentity
from pocketmq.store.tables.terms import Fence, TermTable

PAUSE_S: Final = 2.0
WATCH_S: Final = 30.0
ENOUGH: Final = (LATER_EPOCH, NOT_LEADER)
"""Reasons with which a broker that does not lead any more refuses a hello."""

logger = logging.getLogger(__name__)


class Claim(NamedTuple):
    """The identity, terms and address with which a broker claims to lead.

    address   "host:port" that its clients use
    give_up   called with the other broker's term, if that is later
    """

    identity: StoreIdentity
    terms: TermTable
    file_size_bytes: int
    address: str
    give_up: Callable[[Fence], Awaitable[None]]

    def hello(self, token: str) -> Hello:
        """Returns the hello with this broker's terms."""
        identity, terms = self.identity, self.terms
        rows = tuple((term.epoch, term.begin) for term in terms.history)
        return Hello(
            identity.follower, terms.epoch, identity.store, self.file_size_bytes, 0, token=token,
            terms=rows, leader=self.address,
        )  # fmt: skip


class Fencer:
    """Sends the new leader's term to the former leader."""

    __slots__ = ("_claim", "_dial", "_task", "_trouble")

    def __init__(self, dial: Dial, claim: Claim) -> None:
        self._dial = dial
        self._claim = claim
        self._task: asyncio.Task[None] | None = None
        self._trouble: str | None = None
        """Why the former leader may still lead; "": it does not; None: it has not answered yet."""

    def start(self) -> None:
        """Begins; `end` must follow."""
        assert self._claim.terms.epoch > 0, "a leader without a term fences no other"
        self._task = asyncio.Task(self._run())

    async def end(self) -> None:
        """Stops, and closes the connection."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])  # Unlike `await task`, raises only for a cancelled caller.

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(DIAL_S):
                    trouble = await self._ask()
            except (OSError, TimeoutError) as error:
                trouble = reason_of(error) or "no answer"
            if trouble != self._trouble:
                leader = self._dial.leader
                if trouble:
                    logger.warning("leader.unfenced", extra={"leader": leader, "reason": trouble})
                else:
                    logger.warning("leader.fenced", extra={"leader": leader})
            self._trouble = trouble
            await asyncio.sleep(PAUSE_S if trouble else WATCH_S)

    async def _ask(self) -> str:
        """Returns why the broker may still lead, "" if it does not."""
        reader, writer = await self._dial.open()
        try:
            writer.write(encode_hello(self._claim.hello(self._dial.token())))
            answer, _ = await answer_from(reader)
        except FollowerRefused as refused:
            return "" if refused.reason in ENOUGH else str(refused)
        finally:
            writer.transport.abort()
        own = self._claim.terms.epoch
        if not answer.terms or answer.epoch < own:
            return "it does not know of epochs"
        await self._claim.give_up(Fence(answer.epoch, answer.terms[-1][1], self._dial.leader))
        return f"it leads since epoch {answer.epoch}, and this broker's is {own}"
