"""The asyncio client, with a method for each RPC; `admin` has the RPCs for operators."""

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
from pocketmq.client.consuming import ReceiveLoop, checked_entries, checked_handles, receive, settle
from pocketmq.client.credentials import Credentials
from pocketmq.client.following import BrokerWait, Following, Pull
from pocketmq.client.messages import find_by_id, find_by_key, pull
from pocketmq.client.tail import Tail
from pocketmq.client.transacting import (
    Checker,
    Checks,
    Said,
    answer_checks,
    check_resolution,
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
    check_kind,
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
"""Address in generated message ids; the bytes after it distinguish processes."""


class AsyncClient:
    """A client of the broker at "host:port" or "tls://host:port"; the first call connects.

        async with AsyncClient("127.0.0.1:8081") as client:
            receipt = await client.send(Message("orders", b"order 42 paid", keys=["order-42"]))

    The client belongs to the event loop of its first call. Any number of tasks may share it.

    timeout_ms   time limit of each attempt of a call; the wait of a long poll is added
    retry_ms     upper limit of the total pause between attempts; 0: one attempt. A send is repeated
                 only if nothing can have been stored
    access_key, secret_key   sign the calls, for brokers that check signatures; see `pocketmq user`
    wire         creates the transport
    start_step   advice in `Unreachable.next_step`; "": to run `pocketmq serve`
    Errors       raised by every method: ClientError and its subclasses; by the constructor:
                 ValueError: an invalid endpoint
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
        start_step: str = "",
    ) -> None:
        self._channel = Channel(
            endpoint, timeout_ms=timeout_ms, retry_ms=retry_ms, wire=wire,
            credentials=Credentials(access_key, secret_key), start_step=start_step,
        )  # fmt: skip
        self._stub = Stub(self._channel, broker_pb2.DESCRIPTOR.services_by_name["Broker"])
        self._ids = MessageIds()
        self._client_id = f"{gethostname()}@{os.getpid()}@{token_hex(4)}"
        self.admin = AsyncAdmin(self._channel)

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
        """Closes the connection and cancels its calls; later calls raise NotOpen."""
        await self._channel.close()

    # --- sending ----------------------------------------------------------------------------------

    async def send(self, message: Message, *, wait: Wait = Wait.DURABLE) -> Receipt:
        """Sends a message; returns its receipt."""
        (receipt,) = await self.send_many([message], wait=wait)
        return receipt

    async def send_many(
        self, messages: Sequence[Message], *, wait: Wait = Wait.DURABLE
    ) -> list[Receipt]:
        """Sends messages of one topic, all or none; returns their receipts in order.

        The messages are stored contiguously in one queue. Missing message ids are generated here,
        so that the caller can look up the messages if the reply is lost.

        wait     DURABLE: as durable as the broker's flush mode promises; APPENDED: without waiting
                 for the disk
        Limits   1,024 messages, and limits.max_message_size_bytes for the sum of the bodies
        Errors   with `is_uncertain`, the messages may have been stored, with the ids in
                 `message_ids`
        """
        given: object = messages
        if isinstance(given, Message):
            raise TypeError("messages is a Message, but send_many takes several: write [message]")
        for message in messages:
            check_kind(message, Message)
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
        """Sends a half message, runs local work, and ends the transaction as the work decides.

        The work gets the receipt of the half message and returns the resolution. If the work
        raises, the message is rolled back and the error is raised again. After UNKNOWN, or a crash
        of the process, the broker sends a check to a producer of the group.
        Errors   ClientError; if the call that ends the transaction got no reply, its outcome is
                 unknown; TypeError: the work returned something else, and the transaction is open
        """
        check_kind(message, Message)
        receipt = await self.send(replace(message, transactional=True))
        group = message.producer_group or message.topic
        try:
            resolution = await said(work(receipt))
        except BaseException:
            with suppress(ClientError):
                await self.end_transaction(group, receipt.transaction_id, Resolution.ROLLBACK)
            raise
        check_resolution(resolution)
        if resolution is not Resolution.UNKNOWN:
            await self.end_transaction(group, receipt.transaction_id, resolution)
        return receipt, resolution

    async def end_transaction(
        self, group: str, transaction_id: str, resolution: Resolution
    ) -> None:
        """Commits or rolls back a transaction of a producer group; the result is durable.

        A repeat with the same resolution succeeds.
        Errors   ClientError with the reason NO_TRANSACTION, ENDED_OTHERWISE or CANNOT_COMMIT
        """
        await end_transaction(self._stub, group, transaction_id, resolution)

    async def end_transactions(
        self, group: str, decisions: Sequence[tuple[str, Resolution]]
    ) -> list[Ended]:
        """Ends transactions, given as (id, resolution); returns their results in order."""
        return await end_transactions(self._stub, group, decisions)

    async def answer_checks(
        self, group: str, checker: Checker, *, count_max: int | None = None, is_lasting: bool = True
    ) -> int:
        """Answers the broker's transaction checks for a group; returns the number of decisions.

        Runs until it is cancelled, the checker or a call raises, or it has sent `count_max`
        decisions.
        is_lasting   waits for checks of a broker that becomes unreachable
        """
        _check_count(count_max)
        patience = BrokerWait() if is_lasting else None
        checks = Checks(self._stub, self._channel.wire, group, self._client_id, patience)
        return await answer_checks(
            self._stub, group, checks, checker, inf if count_max is None else count_max
        )

    async def recall(self, topic: str, recall_handle: str) -> str:
        """Recalls a delayed message, durably; returns its id.

        recall_handle   from the receipt of the message
        Errors   NotWaiting: the message was delivered
        """
        answer = await self._stub.ask(
            "Recall", is_repeatable=True, topic=topic, recall_handle=recall_handle
        )
        return str(answer.message_id)

    # --- reading ----------------------------------------------------------------------------------

    async def pull(self, query: PullQuery) -> PullPage:
        """Pulls messages of one queue; at its end, waits up to `wait_ms` for more."""
        return await pull(self._stub, query)

    async def tail(self, query: TailQuery) -> AsyncGenerator[StoredMessage, None]:
        """Yields the messages of all queues of a topic as they are stored.

        Stored messages are yielded in log order. New messages of several queues are sorted only if
        they arrive within 20 ms of each other.
        If the broker becomes unreachable and `query.is_lasting` is set, the tail waits for it and
        continues at the next offset.
        System topics and topics of groups can be tailed.
        """
        async with aclosing(self.tail_pages(query)) as pages:
            async for page in pages:
                for message in page:
                    yield message

    async def tail_pages(
        self, query: TailQuery, patience: BrokerWait | None = None
    ) -> AsyncGenerator[list[StoredMessage], None]:
        """Yields the messages of `tail` in lists of messages that arrived together.

        patience   decides whether to wait for an unreachable broker, and reports the wait
        """
        check_kind(query, TailQuery)
        is_operators = is_system_topic(query.topic) or is_group_topic(query.topic)
        pull = self.admin.pull if is_operators else self.pull
        describe, find = self.admin.describe_topic, self.query_by_time
        waits = (patience or BrokerWait()) if query.is_lasting else None
        tail = Tail(query, self._channel.wire, pull, describe, find, waits)
        async with aclosing(tail.pages()) as pages:
            async for page in pages:
                yield page

    def following(self, pull: Pull, *, wait_ms: float = inf) -> Following:
        """Returns long polls of several queues through `pull`."""
        return Following(self._channel.wire, pull, wait_ms=wait_ms)

    async def query_by_key(self, query: KeyQuery) -> QueryResult:
        """Returns a page of the messages with a key, newest first."""
        return await find_by_key(self._stub, "QueryByKey", query)

    async def query_by_id(self, topic: str, message_id: str) -> StoredMessage:
        """Returns the message with a unique key or offset id."""
        return await find_by_id(self._stub, topic, message_id)

    async def query_by_time(
        self, topic: str, queue_id: int, time_ms: int, bound: Bound = Bound.LOWER
    ) -> int:
        """Returns the queue offset of the first message stored at a time or later.

        bound   UPPER: returns the offset of the last message stored at that time or earlier
        """
        answer = await self._stub.read(
            "QueryByTime", topic=topic, queue_id=queue_id, time_ms=time_ms, bound=bound.name
        )
        return int(answer.queue_offset)

    async def query_offsets(self, topic: str, queue_id: int) -> QueueState:
        """Returns the min and max offset of a queue."""
        answer = await self._stub.read("QueryOffsets", topic=topic, queue_id=queue_id)
        return value_of(QueueState, answer, queue_id=queue_id)

    # --- receiving under leases -------------------------------------------------------------------

    async def receive(self, query: ReceiveQuery) -> list[Leased]:
        """Receives messages for a group; each must be settled by its handle within its lease.

        If the reply is lost, the call is repeated and returns the same messages.
        """
        return await receive(self._stub, self._named(query, attempt_id=token_hex(8)))

    async def ack(self, group: str, topic: str, handles: Sequence[str]) -> list[Settled]:
        """Acknowledges messages, durably; returns a result for each handle."""
        return await settle(
            self._stub, "Ack", group, topic, receipt_handles=checked_handles(handles)
        )

    async def change_invisible(
        self, group: str, topic: str, entries: Sequence[tuple[str, int]]
    ) -> list[Settled]:
        """Changes the invisible durations of messages, given as (handle, ms from now).

        The results contain new handles. The old handles stay valid.
        """
        pairs = [
            {"receipt_handle": handle, "invisible_ms": ms}
            for handle, ms in checked_entries(entries)
        ]
        return await settle(self._stub, "ChangeInvisible", group, topic, entries=pairs)

    async def send_back(
        self, group: str, topic: str, entries: Sequence[tuple[str, int]]
    ) -> list[Settled]:
        """Schedules redelivery of messages, given as (handle, delay level).

        With delay level 0, the delay grows with each attempt.
        """
        pairs = [
            {"receipt_handle": handle, "delay_level": level}
            for handle, level in checked_entries(entries)
        ]
        return await settle(self._stub, "SendBack", group, topic, entries=pairs)

    async def forward_to_dead_letters(
        self, group: str, topic: str, handles: Sequence[str]
    ) -> list[Settled]:
        """Moves messages to the dead-letter topic of the group."""
        method = "ForwardToDeadLetters"
        return await settle(
            self._stub, method, group, topic, receipt_handles=checked_handles(handles)
        )

    async def consume(
        self, query: ReceiveQuery, *, count_max: int | None = None, is_lasting: bool = True
    ) -> AsyncGenerator[Leased, None]:
        """Yields messages of a topic for a group, and acknowledges each after the loop's body.

        The request for the next message marks the previous one as processed. Processed messages are
        acknowledged in batches: after a quarter of the lease, or when no message is left. If the
        body raises or leaves the loop, its current message is redelivered after a delay. Messages
        that were not yielded are redelivered at once.

        count_max    number of messages after which the loop ends
        is_lasting   waits for a broker that becomes unreachable
        """
        _check_count(count_max)
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
        """Returns a query with the client's own id and an attempt id, where the query has none."""
        check_kind(query, ReceiveQuery)
        return replace(
            query,
            client_id=query.client_id or self._client_id,
            attempt_id=query.attempt_id or attempt_id,
        )

    # --- offsets of groups -----------------------------------------------------------------------

    async def commit_offset(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Commits a group's offset in a queue, durably."""
        await self._stub.ask(
            "CommitOffset", group=group, topic=topic, queue_id=queue_id, offset=queue_offset
        )

    async def fetch_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Returns a group's committed offset in a queue; None before the first commit."""
        answer = await self._stub.read("FetchOffset", group=group, topic=topic, queue_id=queue_id)
        return answer.offset if answer.HasField("offset") else None


def _check_count(count_max: int | None) -> None:
    if count_max is not None and count_max < 1:
        raise ValueError(f"count_max is {count_max}: at least 1, or None for no end")


class MessageIds:
    """Generates message ids for any number of threads."""

    __slots__ = ("_lock", "_maker")

    def __init__(self) -> None:
        self._lock = Lock()
        self._maker = UniqueKeyMaker(
            address=HERE, process_id=os.getpid(), random_bytes=token_bytes(4)
        )

    def make(self) -> str:
        """Returns a new id."""
        with self._lock:
            return self._maker.make(time.time_ns() // 1_000_000)
