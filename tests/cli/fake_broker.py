"""A broker for the command line that is a few lists; it speaks as the real client does."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import pytest

from broker.cli import connection
from broker.client.values import (
    ClientError,
    KeyQuery,
    Outgoing,
    PullPage,
    PullQuery,
    Receipt,
    TopicState,
    Wait,
)
from broker.format.hosts import host_from_text
from broker.model.administration import Page
from broker.model.message import StoredMessage
from broker.model.results import Bound, PullStatus, PutStatus, QueryResult
from tests.cli.fake_admin import STORED_MS, FakeAdmin

HOST = host_from_text("127.0.0.1:8081")


def stored(
    queue_offset: int,
    body: bytes = b"hello",
    *,
    topic: str = "orders",
    queue_id: int = 0,
    properties: dict[str, str] | None = None,
) -> StoredMessage:
    """Return a message as the broker answers it."""
    return StoredMessage(
        topic=topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        physical_offset=100 * queue_offset,
        store_size=100,
        body=body,
        body_crc=907_060_870,
        properties={"UNIQ_KEY": f"ID{queue_offset}", **(properties or {})},
        system_flag=0,
        flag=0,
        reconsume_times=0,
        born_timestamp_ms=STORED_MS - 1,
        born_host=host_from_text("10.0.0.7:4711"),
        store_timestamp_ms=STORED_MS,
        store_host=HOST,
        prepared_transaction_offset=0,
    )


class FakeBroker(FakeAdmin):
    """Topics by name, each a list of queues, each a list of messages."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[list[Outgoing]] = []
        self.waits: list[Wait] = []
        self.pulls: list[tuple[str, PullQuery]] = []
        self.queries: list[dict[str, object]] = []
        self.body_size_max = 1 << 22
        self.endpoint = ""
        self.admin = _AsOperator(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def fill(self, count: int, *, topic: str = "orders", queue_id: int = 0) -> None:
        """Put messages into a queue."""
        queue = self.queues.setdefault(topic, [[], []])[queue_id]
        for number in range(count):
            queue.append(stored(number, b"%d" % number, topic=topic, queue_id=queue_id))

    async def send(
        self, messages: Sequence[Outgoing], *, wait: Wait = Wait.DURABLE
    ) -> list[Receipt]:
        """Take messages, unless their bodies are too large together."""
        self.refuse()
        if sum(len(message.body) for message in messages) > self.body_size_max:
            raise ClientError("BodyTooLarge", "too large", code="INVALID_ARGUMENT")
        self.requests.append(list(messages))
        self.waits.append(wait)
        count = sum(map(len, self.requests[:-1]))
        return [
            Receipt(m.topic, f"ID{n}", f"OFF{n}", 0, n, 100 * n, STORED_MS, PutStatus.OK)
            for n, m in enumerate(messages, count)
        ]

    async def pull(self, query: PullQuery) -> PullPage:
        """Answer as a client is answered."""
        return self._pull("client", query)

    async def admin_pull(self, query: PullQuery) -> PullPage:
        """Answer as an operator is answered."""
        return self._pull("admin", query)

    def _pull(self, who: str, query: PullQuery) -> PullPage:
        self.refuse()
        self.pulls.append((who, query))
        queue = self.find(query.topic)[query.queue_id]
        lower = queue[0].queue_offset if queue else 0
        upper = queue[-1].queue_offset + 1 if queue else 0
        begin = query.queue_offset
        status, following = PullStatus.FOUND, begin
        found: list[StoredMessage] = []
        if begin < lower:
            status, following = PullStatus.OFFSET_TOO_SMALL, lower
        elif begin >= upper:
            is_badly = begin > upper
            status = (
                PullStatus.OFFSET_OVERFLOW_BADLY if is_badly else PullStatus.OFFSET_OVERFLOW_ONE
            )
        else:
            found = [m for m in queue if m.queue_offset >= begin][: query.max_messages]
            following = begin + len(found)
        return PullPage(status, following, lower, upper, found, b"")

    async def query_by_time(self, topic: str, queue_id: int, time_ms: int, bound: Bound) -> int:
        """Answer with the first message stored then or later."""
        queue = self.find(topic)[queue_id]
        return sum(message.store_timestamp_ms < time_ms for message in queue)

    async def query_by_key(self, query: KeyQuery) -> QueryResult:
        """Answer with a page of the topic's messages, newest first."""
        self.refuse()
        self.queries.append({"service": "Broker", **query._asdict()})
        found = [message for queue in self.find(query.topic) for message in reversed(queue)]
        begin = int(query.page_token or 0)
        end = begin + query.count_max
        return QueryResult(found[begin:end], end >= len(found), str(end))

    async def admin_query_by_key(self, query: KeyQuery) -> QueryResult:
        """Answer as `query_by_key`, noting who was asked."""
        page = await self.query_by_key(query)
        self.queries[-1]["service"] = "Admin"
        return page

    async def query_by_id(self, topic: str, message_id: str) -> StoredMessage:
        """Answer with the message of a unique key."""
        self.refuse()
        for queue in self.find(topic):
            for message in queue:
                if message.unique_key == message_id:
                    return message
        raise ClientError("MessageNotFound", f"no {message_id}", code="NOT_FOUND")

    async def create_topic(self, name: str, *, queue_count: int, type_name: str) -> TopicState:
        """Make a topic."""
        self.refuse()
        self.queues[name] = [[] for _ in range(queue_count)]
        return self.topic_state(name)._replace(type=type_name.upper())

    async def list_topics(
        self, *, page_size: int = 1, page_token: str = "", include_system: bool = False
    ) -> Page[TopicState]:
        """Answer with one topic a page."""
        self.refuse()
        names = [name for name in sorted(self.queues) if name > page_token]
        shown = [self.topic_state(name) for name in names[:1]]
        return Page(shown, names[0] if len(names) > 1 else "")

    async def describe_topic(self, name: str) -> TopicState:
        """Answer with a topic and its queues."""
        self.refuse()
        return self.topic_state(name, with_queues=True)


class _AsOperator:
    """The fake as those who run it ask."""

    def __init__(self, fake: FakeBroker) -> None:
        self._fake = fake

    def __getattr__(self, name: str) -> Any:
        own = {"pull": "admin_pull", "query_by_key": "admin_query_by_key"}
        return getattr(self._fake, own.get(name, name))


def install(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    """Let the commands of this test talk to a fake."""
    fake = FakeBroker()

    def make_client(endpoint: str) -> FakeBroker:
        fake.endpoint = endpoint
        return fake

    monkeypatch.setattr(connection, "make_client", make_client)
    monkeypatch.delenv("POCKETMQ_ENDPOINT", raising=False)
    return fake
