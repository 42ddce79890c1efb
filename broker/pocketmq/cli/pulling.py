"""A queue's messages, page by page, for commands that print them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from pocketmq.cli.connection import BrokerConnection
from pocketmq.cli.documents import PAGE_COUNT
from pocketmq.cli.output import LOOK_AT_STORE, Exit, Failure, talk, typed
from pocketmq.client import ClientError, PullPage, PullQuery
from pocketmq.client.following import Pull
from pocketmq.model.decimal import number_of
from pocketmq.model.reading import PullStatus

OVER: Final = frozenset({PullStatus.NO_NEW_MESSAGE, PullStatus.OFFSET_OVERFLOW_ONE})


class Damaged:
    """Counts messages that could not be read."""

    def __init__(self) -> None:
        self.count = 0

    def pass_over(self, query: PullQuery, error: ClientError) -> int:
        """Reports the damaged message at an offset; returns the offset to continue at.

        Errors   ClientError: the given error, if it is not damage or has no offset to continue at
        """
        following = number_of(error.fields.get("next_begin_offset", ""))
        if error.status != "DATA_LOSS" or following <= query.queue_offset:
            raise error
        self.count += 1
        assert following > query.queue_offset
        number = error.fields.get("queue_offset", query.queue_offset)
        place = error.fields.get("physical_offset", "unknown")
        why = error.fields.get("why", error.message)
        talk(
            f"message {number} of queue {query.queue_id} is damaged (physical offset {place}): "
            f"{why}; continuing at {following}"
        )
        return following

    def passed_over_by(self, pull: Pull) -> Pull:
        """Returns a pull that skips damaged messages."""

        async def pull_on(query: PullQuery) -> PullPage:
            try:
                return await pull(query)
            except ClientError as error:
                following = self.pass_over(query, error)
            return PullPage(PullStatus.NO_MATCHED_MESSAGE, following, 0, 0, [], b"")

        return pull_on

    def failure(self, directory: str) -> Failure:
        """Returns the failure of a command that skipped damaged messages.

        directory   the broker's store
        """
        noun = "message is" if self.count == 1 else "messages are"
        text = f"{self.count} {noun} damaged and could not be read"
        return Failure(text, Exit.DAMAGED, LOOK_AT_STORE.format(directory=typed(directory)))


@dataclass
class QueueReader:
    """Reads a queue page by page; `query` has the next offset."""

    query: PullQuery

    def pages(
        self, broker: BrokerConnection, count_max: float, damaged: Damaged | None = None
    ) -> Iterator[PullPage]:
        """Yields pages until the queue's end, or until `count_max` messages (may be inf).

        damaged   skips and counts unreadable messages; None: they are errors
        Errors    Failure: the queue does not exist, or the offset is beyond its end; ClientError
        """
        pull = broker.reader(self.query.topic).pull
        left = count_max
        while left > 0:
            query = self.query
            try:
                page = broker.ask(pull(replace(query, max_messages=int(min(left, PAGE_COUNT)))))
            except ClientError as error:
                if damaged is None:
                    raise
                self.query = replace(query, queue_offset=damaged.pass_over(query, error))
                continue
            if page.status in OVER:
                return
            _check(query, page)
            self.query = replace(query, queue_offset=page.next_begin_offset)
            if page.messages:
                left -= len(page.messages)
                assert left >= 0
                yield page


def _check(query: PullQuery, page: PullPage) -> None:
    """Reports an expired offset; raises Failure for one beyond the end, or a missing queue."""
    if page.status is PullStatus.NO_SUCH_QUEUE:
        text = f"topic {query.topic!r} has no queue {query.queue_id}"
        raise Failure(text, Exit.NOT_FOUND, f"pocketmq topic info {query.topic}")
    if page.status is PullStatus.OFFSET_OVERFLOW_BADLY:
        text = (
            f"offset {query.queue_offset} is beyond the end of queue {query.queue_id}, "
            f"which has offsets from {page.min_offset} to {page.max_offset}"
        )
        raise Failure(text, Exit.REFUSED, "start with --from earliest or --from latest")
    if page.status in (PullStatus.OFFSET_TOO_SMALL, PullStatus.EXPIRED):
        talk(f"offset {query.queue_offset} has expired; continuing at {page.next_begin_offset}")
