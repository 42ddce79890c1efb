"""The client for asyncio: one method for each of a broker's; those of Admin are `admin`'s.

Answers are plain values (values.py, model/administration.py); stored messages are as everywhere
else. What fails and what is asked again: channel.py.
"""

import os
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from math import inf
from secrets import token_bytes, token_hex
from socket import gethostname
from threading import Lock
from types import TracebackType
from typing import Final, Self

from pocketmq.client.async_admin import AsyncAdmin
from pocketmq.client.channel import RETRY_MS, TIMEOUT_MS, Channel, Stub, value_of
from pocketmq.client.client_error import ClientError
from pocketmq.client.consuming import ReceiveLoop, receive, settle
from pocketmq.client.credentials import Credentials
from pocketmq.client.following import BrokerWait, Following, Pull
from pocketmq.client.messages import find_by_id, find_by_key, pull
from pocketmq.client.tail import Tail
from pocketmq.client.transacting import (
    Checker,
    Checks,
    Said,
    answer_checks,
    end_transaction,
    end_transactions,
    said,
)
from pocketmq.client.values import (
    Ended,
    KeyQuery,
    Leased,
    Message,
    PullPage,
    PullQuery,
    Receipt,
    ReceiveQuery,
    TailQuery,
    Wait,
)
from pocketmq.client.wire import LoopWire, Wire
from pocketmq.format.addresses import UniqueKeyMaker
from pocketmq.model.administration import QueueState
from pocketmq.model.batch import PutStatus
from pocketmq.model.consuming import Settled
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import Bound, QueryResult
from pocketmq.model.topic import is_group_topic, is_system_topic
from pocketmq.model.transaction import Resolution
from pocketmq.rpc.pb import broker_pb2

HERE: Final = b"\x7f\0\0\1"
"""The address in ids made here; what is behind it tells one process from another."""


class AsyncClient:
    """A connection to one endpoint, "host:port", made by the first call.

        async with AsyncClient("127.0.0.1:8081") as client:
            receipt = await client.send(Message("orders", b"order 42 paid", keys=["order-42"]))

    It belongs to the event loop that runs at its first call; any number of its tasks may use it.

    timeout_ms   how long each try of a call may take; a pull that waits may take as much longer
    retry_ms     how long a call that failed pauses between tries, in all; 0 for one try only. A
                 send is tried again only where nothing can have been stored.
    access_key, secret_key   who signs the calls, where the broker asks; see `pocketmq user`
    wire         how calls go out
    Errors       of every method: ClientError and its kinds; ValueError for what is no endpoint
    """

    __slots__ = ("_channel", "_client_id", "_ids", "_stub", "admin")

    def __init__(
        self,
        endpoint: str,
        *,
        timeout_ms: int = TIMEOUT_MS,
        retry_ms: int = RETRY_MS,
        access_key: str = "",
        secret_key: str = "",
        wire: Callable[[str], Wire] = LoopWire,
    ) -> None:
        self._channel = Channel(
            endpoint, timeout_ms=timeout_ms, retry_ms=retry_ms, wire=wire,
            credentials=Credentials(access_key, secret_key),
        )  # fmt: skip
        self._stub = Stub(self._channel, broker_pb2.DESCRIPTOR.services_by_name["Broker"])
        self._ids = MessageIds()
        self._client_id = f"{gethostname()}@{os.getpid()}@{token_hex(4)}"
        self.admin = AsyncAdmin(self._channel)
        """What those who run a broker ask of it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection and all calls on it; the client is of no use any more."""
        await self._channel.close()

    # --- sending ----------------------------------------------------------------------------------

    async def send(self, message: Message, *, wait: Wait = Wait.DURABLE) -> Receipt:
        """Sends a message; returns where it lies."""
        (receipt,) = await self.send_many([message], wait=wait)
        return receipt

    async def send_many(
        self, messages: Sequence[Message], *, wait: Wait = Wait.DURABLE
    ) -> list[Receipt]:
        """Sends messages of one topic: all are stored or none; receipts in their order.

        They lie next to each other in one queue. A message without an id gets one here, so that it
        can be looked up where the answer is lost.
        wait     DURABLE: what the broker's flush mode promises; APPENDED: do not wait for the disk
        Limits   1,024 messages, and the broker's limits.max_message_size_bytes for all bodies
        Errors   is_uncertain: they may have been stored, `message_ids` tells as what
        """
        ids = [message.message_id or self._ids.make() for message in messages]
        rows = [
            {**vars(message), "message_id": message_id}
            for message, message_id in zip(messages, ids, strict=True)
        ]
        try:
            answer = await self._stub.ask("SendMessage", messages=rows, wait=wait.name)
        except ClientError as error:
            error.message_ids = tuple(ids)
            raise
        return [
            value_of(Receipt, result, status=PutStatus(result.status)) for result in answer.results
        ]

    async def send_in_transaction(
        self, message: Message, work: Callable[[Receipt], Said]
    ) -> tuple[Receipt, Resolution]:
        """Sends a message that is delivered if the work that belongs to it was done.

        The message is kept back; then the work is called, with its receipt, and what it returns
        ends the transaction. Where it raises the message is rolled back, and the error goes on.
        UNKNOWN leaves it open, as does a process that dies: producers of the group are asked.
        Errors   ClientError; of the end: it is not known whether it was taken, which is asked again
        """
        receipt = await self.send(replace(message, transactional=True))
        group = message.producer_group or message.topic
        try:
            resolution = await said(work(receipt))
        except BaseException:
            with suppress(ClientError):
                await self.end_transaction(group, receipt.transaction_id, Resolution.ROLLBACK)
            raise
        if resolution is not Resolution.UNKNOWN:
            await self.end_transaction(group, receipt.transaction_id, resolution)
        return receipt, resolution

    async def end_transaction(
        self, group: str, transaction_id: str, resolution: Resolution
    ) -> None:
        """Commits a transaction of a producer group, or roll it back; durable when this returns.

        The same said again is as said once.
        Errors   ClientError, its reason NO_TRANSACTION, ENDED_OTHERWISE or CANNOT_COMMIT
        """
        await end_transaction(self._stub, group, transaction_id, resolution)

    async def end_transactions(
        self, group: str, decisions: Sequence[tuple[str, Resolution]]
    ) -> list[Ended]:
        """Ends transactions, (id, resolution) each; one result for each, in their order."""
        return await end_transactions(self._stub, group, decisions)

    async def answer_checks(
        self, group: str, checker: Checker, *, count_max: int | None = None, is_lasting: bool = True
    ) -> int:
        """Be asked about transactions of a group that nobody ended; returns how many were ended.

        It goes on until it is cancelled, a checker raises, or `count_max` were ended.
        is_lasting   a broker that goes away is waited for
        """
        patience = BrokerWait() if is_lasting else None
        checks = Checks(self._stub, self._channel.wire, group, self._client_id, patience)
        return await answer_checks(
            self._stub, group, checks, checker, inf if count_max is None else count_max
        )

    async def recall(self, topic: str, recall_handle: str) -> str:
        """Takes back a message that waits for its time; returns its id. Durable when this returns.

        recall_handle   of the receipt of its send
        Errors   NotWaiting: it was delivered
        """
        answer = await self._stub.ask(
            "Recall", is_repeatable=True, topic=topic, recall_handle=recall_handle
        )
        return str(answer.message_id)

    # --- reading ----------------------------------------------------------------------------------

    async def pull(self, query: PullQuery) -> PullPage:
        """Pulls messages of one queue as a client; `wait_ms` waits for some at its end."""
        return await pull(self._stub, query)

    async def tail(self, query: TailQuery) -> AsyncGenerator[StoredMessage, None]:
        """Yields the messages of all queues of a topic as they are stored.

        What is there comes in the order of the log, what arrives within 20 ms too. A broker that
        goes away is waited for, and a pull begins where the last one ended: nothing is left out.
        Topics of the broker and of groups can be followed as well.
        """
        async with aclosing(self.tail_pages(query)) as pages:
            async for page in pages:
                for message in page:
                    yield message

    async def tail_pages(
        self, query: TailQuery, patience: BrokerWait | None = None
    ) -> AsyncGenerator[list[StoredMessage], None]:
        """Yields the same as `tail`, together what came together.

        patience   waits for a broker that goes away, and may say so
        """
        is_operators = is_system_topic(query.topic) or is_group_topic(query.topic)
        pull = self.admin.pull if is_operators else self.pull
        describe, find = self.admin.describe_topic, self.query_by_time
        waits = (patience or BrokerWait()) if query.is_lasting else None
        tail = Tail(query, self._channel.wire, pull, describe, find, waits)
        async with aclosing(tail.pages()) as pages:
            async for page in pages:
                yield page

    def following(self, pull: Pull, *, wait_ms: float = inf) -> Following:
        """Returns what yields messages of queues as they come, by a pull over this client."""
        return Following(self._channel.wire, pull, wait_ms=wait_ms)

    async def query_by_key(self, query: KeyQuery) -> QueryResult:
        """Returns a page of the messages that carry a key, newest first."""
        return await find_by_key(self._stub, "QueryByKey", query)

    async def query_by_id(self, topic: str, message_id: str) -> StoredMessage:
        """Returns the message with a unique key or offset id."""
        return await find_by_id(self._stub, topic, message_id)

    async def query_by_time(
        self, topic: str, queue_id: int, time_ms: int, bound: Bound = Bound.LOWER
    ) -> int:
        """Returns where a queue stands at a time: at its first message stored then or later.

        bound   UPPER: at its last message stored then or earlier
        """
        answer = await self._stub.read(
            "QueryByTime", topic=topic, queue_id=queue_id, time_ms=time_ms, bound=bound.name
        )
        return int(answer.queue_offset)

    async def query_offsets(self, topic: str, queue_id: int) -> QueueState:
        """Returns where a queue begins and ends."""
        answer = await self._stub.read("QueryOffsets", topic=topic, queue_id=queue_id)
        return value_of(QueueState, answer, queue_id=queue_id)

    # --- receiving under leases -------------------------------------------------------------------

    async def receive(self, query: ReceiveQuery) -> list[Leased]:
        """Receives messages for a group; each is to be settled by its handle within its lease.

        An answer that got lost is asked for again, and is the same again.
        """
        return await receive(self._stub, self._named(query, attempt_id=token_hex(8)))

    async def ack(self, group: str, topic: str, handles: Sequence[str]) -> list[Settled]:
        """Ends leases for good; one result for each handle. Durable when this returns."""
        return await settle(self._stub, "Ack", group, topic, receipt_handles=handles)

    async def change_invisible(
        self, group: str, topic: str, entries: Sequence[tuple[str, int]]
    ) -> list[Settled]:
        """Let leases, (handle, ms) each, end so long from now: 0 gives messages back.

        The results have new handles; the old ones are good as well.
        """
        pairs = [{"receipt_handle": handle, "invisible_ms": ms} for handle, ms in entries]
        return await settle(self._stub, "ChangeInvisible", group, topic, entries=pairs)

    async def send_back(
        self, group: str, topic: str, entries: Sequence[tuple[str, int]]
    ) -> list[Settled]:
        """Let messages, (handle, delay level) each, come back later; 0: later each time."""
        pairs = [{"receipt_handle": handle, "delay_level": level} for handle, level in entries]
        return await settle(self._stub, "SendBack", group, topic, entries=pairs)

    async def forward_to_dead_letters(
        self, group: str, topic: str, handles: Sequence[str]
    ) -> list[Settled]:
        """Gives messages up: they become dead letters of the group."""
        method = "ForwardToDeadLetters"
        return await settle(self._stub, method, group, topic, receipt_handles=handles)

    async def consume(
        self, query: ReceiveQuery, *, count_max: int | None = None, is_lasting: bool = True
    ) -> AsyncGenerator[Leased, None]:
        """Yield messages of a topic for a group; the one before is done when the next is asked for.

        A body that raises, or leaves the loop, gives the message it was at back to the group, which
        gets it again after a while; so do those that come after it, at once.
        count_max    end after so many were done
        is_lasting   a broker that goes away is waited for
        """
        loop = ReceiveLoop(
            self._stub,
            self._channel.wire,
            self._named(query),
            count_max=inf if count_max is None else count_max,
            patience=BrokerWait() if is_lasting else None,
        )
        async with aclosing(loop.messages()) as messages:
            async for message in messages:
                yield message

    def _named(self, query: ReceiveQuery, attempt_id: str = "") -> ReceiveQuery:
        """Returns a query that says who asks."""
        return replace(
            query,
            client_id=query.client_id or self._client_id,
            attempt_id=query.attempt_id or attempt_id,
        )

    # --- where groups stand -----------------------------------------------------------------------

    async def commit_offset(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Remembers where a group stands; durable when this returns."""
        await self._stub.ask(
            "CommitOffset", group=group, topic=topic, queue_id=queue_id, offset=queue_offset
        )

    async def fetch_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Returns where a group stands, None before its first commit."""
        answer = await self._stub.read("FetchOffset", group=group, topic=topic, queue_id=queue_id)
        return answer.offset if answer.HasField("offset") else None


class MessageIds:
    """Makes the ids of a client's messages, for any number of threads."""

    __slots__ = ("_lock", "_maker")

    def __init__(self) -> None:
        self._lock = Lock()
        self._maker = UniqueKeyMaker(
            address=HERE, process_id=os.getpid(), random_bytes=token_bytes(4)
        )

    def make(self) -> str:
        """Returns an id that no other message has."""
        with self._lock:
            return self._maker.make(time.time_ns() // 1_000_000)
