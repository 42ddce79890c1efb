"""Pulls queues of a broker, as buffers of records with columns of their heads."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pocketmq.format.columns.heads import Heads, records_as_columns
from pocketmq.model.message import QueueKey
from pocketmq.model.reading import PULL_COUNT_MAX, QUEUE_CUT
from pocketmq.model.topic import is_group_topic, is_system_topic
from pocketmq.spark.queue_offsets import MessagesLost, QueueSpan, check_page
from pocketmq.spark.stream_request import StreamRequest

if TYPE_CHECKING:
    from pocketmq.client import Client, PullPage

PAGE_SIZE: Final = 8 * 1024 * 1024
RETRY_MS: Final = 30_000
"""Upper limit of the pauses between attempts of a call, in total: a broker may restart."""


class BrokerQueues:
    """The queues of a broker that a request selects.

    The first call connects. The connection is not pickled: each worker opens its own.
    """

    __slots__ = ("_client", "_request")

    def __init__(self, request: StreamRequest) -> None:
        self._request = request
        self._client: Client | None = None

    def __getstate__(self) -> StreamRequest:
        return self._request

    def __setstate__(self, request: StreamRequest) -> None:
        self._request, self._client = request, None

    def _connected(self) -> "Client":
        if self._client is None:
            from pocketmq.client import Client

            request = self._request
            assert request.endpoint, "the request is not for a broker"
            self._client = Client(
                request.endpoint, access_key=request.access_key, secret_key=request.secret_key,
                retry_ms=RETRY_MS,
            )  # fmt: skip
        return self._client

    def close(self) -> None:
        """Ends the connection."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def held(self) -> dict[QueueKey, range]:
        """Returns the offsets [min, max) of each readable queue of the topics.

        Errors   ClientError
        Cost     a call for each topic; one more for a pattern
        """
        admin, wanted = self._connected().admin, self._request.rows.wanted
        names = self._matching() if wanted.pattern else sorted(wanted.topics or ())
        return {
            (name, queue.queue_id): range(queue.min_offset, queue.max_offset)
            for name in names
            for queue in admin.describe_topic(name).readable_queues
        }

    def _matching(self) -> list[str]:
        admin, wanted = self._connected().admin, self._request.rows.wanted
        names: list[str] = []
        token = ""
        while True:
            page = admin.list_topics(page_token=token)
            names += [topic.name for topic in page.items if wanted.has_topic(topic.name)]
            token = page.next_page_token
            if not token:
                return names

    def offset_at(self, key: QueueKey, time_ms: int) -> int:
        """Returns the queue offset of the first message stored at a time or later.

        Errors   ClientError
        """
        return self._connected().query_by_time(*key, time_ms)

    def records(self, span: QueueSpan) -> Iterator[tuple[bytearray, Heads]]:
        """Yields the records of a span that the expression selects, in pages.

        Errors   ClientError; MessagesLost, unless the request tolerates it
        """
        at = span.begin
        while at < span.end:
            page = self._pull(span, at)
            following = page.next_begin_offset
            if self._request.fails_on_loss:
                check_page(span, at, page.min_offset)
            if page.status in QUEUE_CUT or following <= at:
                if self._request.fails_on_loss:
                    raise MessagesLost(
                        f"queue {span.queue_id} of {span.topic} now ends at {page.max_offset}, "
                        f"before {span.end}"
                    )
                return
            if page.records:
                yield _read(page.records, span)
            at = following

    def _pull(self, span: QueueSpan, at: int) -> "PullPage":
        from pocketmq.client import PullQuery, Shape

        client, request = self._connected(), self._request
        is_operators = is_system_topic(span.topic) or is_group_topic(span.topic)
        pull = client.admin.pull if is_operators else client.pull
        count = PULL_COUNT_MAX if request.expression else min(PULL_COUNT_MAX, span.end - at)
        return pull(
            PullQuery(
                span.topic, span.queue_id, at, max_messages=count, max_bytes=PAGE_SIZE,
                expression=request.expression or "*", sql=request.is_sql, shape=Shape.RECORDS,
            )
        )  # fmt: skip


def _read(records: bytes, span: QueueSpan) -> tuple[bytearray, Heads]:
    try:
        buffer, heads = records_as_columns(records)
    except ValueError as error:
        raise ValueError(f"{span}: the broker's {error}") from error
    inside = heads.queue_offset < span.end
    return buffer, heads if inside.all() else heads.take(inside)
