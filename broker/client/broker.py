"""The command line's client: one method for each of a broker's; those of Admin are `admin`'s.

Answers and errors are plain values (values.py, model/administration.py); stored messages are as
everywhere else. A pull that waits has as much longer to answer.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from broker.client.admin import AdminClient
from broker.client.channel import TIMEOUT_MS, Channel, Stub, value_of
from broker.client.messages import find_by_id, find_by_key, pull
from broker.client.values import KeyQuery, Outgoing, PullPage, PullQuery, Receipt, Wait
from broker.model.administration import QueueState
from broker.model.batch import PutStatus
from broker.model.message import StoredMessage
from broker.model.reading import Bound, QueryResult
from broker.rpc.pb import broker_pb2


class BrokerClient:
    """A connection to one endpoint, "host:port", for the length of an `async with`.

    Errors   of every method: ClientError and its kinds
    """

    __slots__ = ("_channel", "_stub", "admin")

    def __init__(self, endpoint: str, *, timeout_ms: int = TIMEOUT_MS) -> None:
        self._channel = Channel(endpoint, timeout_ms=timeout_ms)
        self._stub = Stub(self._channel, broker_pb2.DESCRIPTOR.services_by_name["Broker"])
        self.admin = AdminClient(self._channel)
        """What those who run a broker ask of it."""

    async def __aenter__(self) -> Self:
        self._channel.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._channel.close()

    async def send(
        self, messages: Sequence[Outgoing], *, wait: Wait = Wait.DURABLE
    ) -> list[Receipt]:
        """Send messages of one topic: all are stored or none; receipts in their order."""
        answer = await self._stub.ask("SendMessage", messages=map(vars, messages), wait=wait.name)
        return [
            value_of(Receipt, result)._replace(status=PutStatus(result.status))
            for result in answer.results
        ]

    async def pull(self, query: PullQuery) -> PullPage:
        """Pull messages of one queue as a client."""
        return await pull(self._stub, query)

    async def query_by_key(self, query: KeyQuery) -> QueryResult:
        """Return a page of the messages that carry a key, newest first."""
        return await find_by_key(self._stub, "QueryByKey", query)

    async def query_by_id(self, topic: str, message_id: str) -> StoredMessage:
        """Return the message with a unique key or offset id."""
        return await find_by_id(self._stub, topic, message_id)

    async def query_by_time(self, topic: str, queue_id: int, time_ms: int, bound: Bound) -> int:
        """Return where a queue stands at a time."""
        answer = await self._stub.ask(
            "QueryByTime", topic=topic, queue_id=queue_id, time_ms=time_ms, bound=bound.name
        )
        return int(answer.queue_offset)

    async def query_offsets(self, topic: str, queue_id: int) -> QueueState:
        """Return where a queue begins and ends."""
        answer = await self._stub.ask("QueryOffsets", topic=topic, queue_id=queue_id)
        return value_of(QueueState, answer, queue_id=queue_id)

    async def commit_offset(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Remember where a group stands; durable when this returns."""
        await self._stub.ask(
            "CommitOffset", group=group, topic=topic, queue_id=queue_id, offset=queue_offset
        )

    async def fetch_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return where a group stands, None before its first commit."""
        answer = await self._stub.ask("FetchOffset", group=group, topic=topic, queue_id=queue_id)
        return answer.offset if answer.HasField("offset") else None
