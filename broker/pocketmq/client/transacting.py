"""Transactions of a producer.

    send half message ─► local work ─► commit, or roll back if the work fails
    no resolution ─► the broker sends a check to a producer of the group

Local work and the checker are callables. Each returns a resolution; with AsyncClient it may also
return an awaitable of one.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Final

from pocketmq.client.channel import Stub
from pocketmq.client.client_error import ClientError
from pocketmq.client.following import BrokerWait, asked_until_answered
from pocketmq.client.messages import stored_message
from pocketmq.client.values import Ended, EndStatus, PendingTransaction
from pocketmq.client.wire import Wire
from pocketmq.model.transaction import Resolution

Said = Resolution | Awaitable[Resolution]
Checker = Callable[[PendingTransaction], Said]
"""Returns the resolution of a transaction; UNKNOWN: not decided yet."""
WAIT_MS: Final = 15_000
"""Longest wait of one CheckTransactions call, in ms."""
EMPTY_S: Final = 0.05
"""Pause before the next call after an answer without checks."""


async def end_transactions(
    stub: Stub, group: str, decisions: Sequence[tuple[str, Resolution]]
) -> list[Ended]:
    """Ends transactions, given as (id, resolution); returns their results in order."""
    answer = await stub.ask(
        "EndTransaction",
        is_repeatable=True,
        group=group,
        decisions=[
            {"transaction_id": text, "resolution": resolution.name}
            for text, resolution in decisions
        ],
    )
    return [Ended(EndStatus(row.status), row.why) for row in answer.results]


async def end_transaction(
    stub: Stub, group: str, transaction_id: str, resolution: Resolution
) -> None:
    """Ends one transaction.

    Errors   ClientError: the transaction did not end; the reason is the name of the status
    """
    (ended,) = await end_transactions(stub, group, [(transaction_id, resolution)])
    if ended.status is not EndStatus.ENDED:
        raise ClientError(ended.status.name, ended.why)


async def said(by: Said) -> Resolution:
    """Returns the resolution, awaited if necessary."""
    return await by if isawaitable(by) else by


def check_resolution(given: object) -> None:
    """Checks what work or a checker returned; if it is wrong, the transaction stays open.

    Errors   TypeError: no resolution
    """
    if not isinstance(given, Resolution):
        raise TypeError(
            f"{given!r} was returned, but a transaction is ended by Resolution.COMMIT or "
            "Resolution.ROLLBACK (UNKNOWN: not decided yet); it is still open"
        )


class Checks:
    """A loop that receives the broker's transaction checks for a group."""

    __slots__ = ("_client_id", "_group", "_patience", "_stub", "_wire")

    def __init__(
        self, stub: Stub, wire: Wire, group: str, client_id: str, patience: BrokerWait | None
    ) -> None:
        assert group
        self._stub = stub
        self._wire = wire
        self._group = group
        self._client_id = client_id
        self._patience = patience

    async def pending(self) -> AsyncGenerator[PendingTransaction, None]:
        """Yields the transactions that the broker checks.

        Errors   ClientError
        """
        while True:
            checks = await asked_until_answered(self._wire, self._patience, self._asked)
            for check in checks:
                yield check
            if not checks:
                await self._wire.sleep(EMPTY_S)

    async def _asked(self) -> list[PendingTransaction]:
        is_first = self._patience is not None and not self._patience.has_answered
        wait_ms = 0 if is_first else WAIT_MS
        answer = await self._stub.ask(
            "CheckTransactions",
            is_repeatable=True,
            wait_for_ms=wait_ms,
            group=self._group,
            client_id=self._client_id,
            wait_ms=wait_ms,
        )
        return [
            PendingTransaction(check.transaction_id, stored_message(check.message), check.checks)
            for check in answer.checks
        ]


async def answer_checks(
    stub: Stub, group: str, checks: Checks, checker: Checker, count_max: float
) -> int:
    """Ends checked transactions as the checker decides; returns their number."""
    count = 0
    pending = checks.pending()
    try:
        async for one in pending:
            resolution = await said(checker(one))
            check_resolution(resolution)
            if resolution is Resolution.UNKNOWN:
                continue
            # Another producer may have decided meanwhile, so the result is ignored.
            await end_transactions(stub, group, [(one.transaction_id, resolution)])
            count += 1
            if count >= count_max:
                break
    finally:
        await pending.aclose()
    return count
