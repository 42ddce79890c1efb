"""Receives messages under leases, in single calls and in a loop that acknowledges them.

    receive ─► messages one by one ─► requesting the next one marks the previous as processed
       ▲                                  └─► acknowledged in batches, within the lease
       └── no message left: all processed ones are acknowledged

If the loop's body leaves the loop or raises, unprocessed messages become visible again.
"""

from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from secrets import token_hex
from time import monotonic
from typing import Any, Final

from pocketmq.client.channel import Stub
from pocketmq.client.client_error import ClientError
from pocketmq.client.following import BrokerWait, asked_until_answered
from pocketmq.client.messages import stored_message
from pocketmq.client.values import Leased, ReceiveQuery
from pocketmq.client.wire import Wire
from pocketmq.model.consuming import RECEIVE_MAX, Settled, SettleStatus
from pocketmq.model.errors import TopicNotFound
from pocketmq.rpc.pb import broker_pb2

WAIT_MS: Final = 15_000
"""Wait of a loop's receive for messages, in ms, if the query sets none."""
INVISIBLE_MS: Final = 30_000
"""The broker's default invisible duration, in ms."""
EMPTY_S: Final = 0.02
"""Pause after an empty reply: a stopping broker answers without waiting for messages."""
ACK_WITHIN: Final = 4
"""A loop acknowledges processed messages when 1/ACK_WITHIN of the lease has passed."""


async def receive(stub: Stub, query: ReceiveQuery) -> list[Leased]:
    """Receives messages; a repeat with the query's attempt id returns the same messages."""
    try:
        return await _received(stub, query)
    except TopicNotFound as error:
        error.add_note(f"group {query.group!r}, topic {query.topic!r}: ReceiveQuery(group, topic)")
        raise


async def _received(stub: Stub, query: ReceiveQuery) -> list[Leased]:
    kind = broker_pb2.Filter.SQL if query.sql else broker_pb2.Filter.TAG
    answer = await stub.ask(
        "Receive",
        is_repeatable=bool(query.attempt_id),
        wait_for_ms=query.wait_ms,
        group=query.group,
        topic=query.topic,
        filter=broker_pb2.Filter(kind=kind, expression=query.expression),
        max_messages=query.max_messages,
        invisible_ms=query.invisible_ms,
        wait_ms=query.wait_ms,
        client_id=query.client_id,
        attempt_id=query.attempt_id,
        auto_renew=query.auto_renew,
        broadcast=query.broadcast,
        begin=query.begin,
    )
    handles = answer.receipt_handles or [""] * len(answer.messages)
    rows = zip(answer.messages, handles, answer.attempts, strict=True)
    until_ms = answer.invisible_until_ms
    return [
        Leased(stored_message(message), handle, attempt, until_ms)
        for message, handle, attempt in rows
    ]


def checked_handles(handles: Sequence[str]) -> Sequence[str]:
    """Returns handles as a call gets them.

    Errors   TypeError: one handle alone, or anything else that is not a handle
    """
    if isinstance(handles, str):
        raise TypeError(f"handles is a str, but a call has several: write [{handles!r}]")
    for one in handles:
        given: object = one
        if not isinstance(given, str):
            kind = type(given).__name__
            raise TypeError(f"a handle is a str, not {kind}: write [leased.receipt_handle]")
    return handles


def checked_entries(entries: Sequence[tuple[str, int]]) -> Sequence[tuple[str, int]]:
    """Returns pairs of handle and number as a call gets them.

    Errors   TypeError: anything else, such as one pair alone
    """
    for pair in entries:
        given: object = pair
        if not (isinstance(given, tuple | list) and len(given) == 2):
            raise TypeError(f"entries are pairs: write [(leased.receipt_handle, n)], not {given!r}")
    checked_handles([handle for handle, _ in entries])
    return entries


async def settle(stub: Stub, method: str, group: str, topic: str, **fields: Any) -> list[Settled]:
    """Settles leases; returns a result for each handle, in order."""
    answer = await stub.ask(method, group=group, topic=topic, **fields)
    return [Settled(_STATUSES[row.status], row.receipt_handle) for row in answer.results]


_STATUSES: Final = {
    broker_pb2.SETTLED: SettleStatus.OK,
    broker_pb2.INVALID_RECEIPT_HANDLE: SettleStatus.INVALID_RECEIPT_HANDLE,
    broker_pb2.ILLEGAL_INVISIBLE_TIME: SettleStatus.ILLEGAL_INVISIBLE_TIME,
}


class ReceiveLoop:
    """Receives messages again and again, and acknowledges those that the caller has processed.

    count_max  number of messages after which the loop ends
    patience   waits for an unreachable broker; None: the error is raised
    """

    __slots__ = ("_done", "_left", "_patience", "_query", "_rest", "_stub", "_wire")

    def __init__(
        self,
        stub: Stub,
        wire: Wire,
        query: ReceiveQuery,
        *,
        count_max: float = inf,
        patience: BrokerWait | None = None,
    ) -> None:
        assert count_max > 0, "count_max is not positive"
        self._stub = stub
        self._wire = wire
        self._query = replace(query, wait_ms=query.wait_ms or WAIT_MS)
        self._left = count_max
        self._patience = patience
        self._rest: deque[Leased] = deque()
        """Received messages that are not processed yet; the first is the body's current one.
        """
        self._done: list[str] = []
        """Handles of processed messages that are not acknowledged."""

    async def messages(self) -> AsyncGenerator[Leased, None]:
        """Yields messages until `count_max` are processed.

        Errors   ClientError
        """
        try:
            while self._left > 0:
                await self._receive()
                acked_s = monotonic()
                while self._rest:
                    first = self._rest[0]
                    yield first
                    self._rest.popleft()
                    self._done.append(first.receipt_handle)
                    self._left -= 1
                    if (monotonic() - acked_s) * ACK_WITHIN * 1000 > self._lease_ms:
                        await self._ack()
                        acked_s = monotonic()
                await self._ack()
        finally:
            await self._leave()

    @property
    def _lease_ms(self) -> int:
        return self._query.invisible_ms or INVISIBLE_MS

    async def _receive(self) -> None:
        count = min(self._query.max_messages or RECEIVE_MAX, self._left)
        query = replace(self._query, max_messages=int(count), attempt_id=token_hex(8))
        if self._patience is not None and not self._patience.has_answered:
            query = replace(query, wait_ms=0)

        async def ask() -> list[Leased]:
            return await receive(self._stub, query)

        self._rest.extend(await asked_until_answered(self._wire, self._patience, ask))
        if not self._rest:
            await self._wire.sleep(EMPTY_S)

    async def _ack(self) -> None:
        """Acknowledges processed messages; those with expired leases are redelivered."""
        if self._done:

            async def ask() -> None:
                await self._settle("Ack", receipt_handles=self._done)

            await asked_until_answered(self._wire, self._patience, ask)
            self._done = []

    async def _leave(self) -> None:
        """Acknowledges processed messages; redelivers the current one later, others at once."""
        with suppress(ClientError):
            if self._done:
                await self._settle("Ack", receipt_handles=self._done)
            if self._rest:
                failed = self._rest.popleft()
                await self._settle("SendBack", entries=[{"receipt_handle": failed.receipt_handle}])
            if self._rest:
                unseen = [{"receipt_handle": one.receipt_handle} for one in self._rest]
                await self._settle("ChangeInvisible", entries=unseen)

    async def _settle(self, method: str, **fields: Any) -> None:
        await settle(self._stub, method, self._query.group, self._query.topic, **fields)
