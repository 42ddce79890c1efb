"""`pocketmq consume`: the messages of a topic's queues, in order, without a trace on the broker."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import click

from broker.cli.connection import Connection, asks_broker
from broker.cli.documents import MESSAGE_COLUMNS, PAGE_COUNT, ShownMessages
from broker.cli.options import DURATION, ReadBy, filtered
from broker.cli.output import LOOK_AT_STORE, Exit, Failure, Output, talk
from broker.client import ClientError, PullPage, PullQuery
from broker.client.following import Pull
from broker.model.administration import QueueState
from broker.model.reading import PullStatus

FROM_WORDS: Final = ("min", "max")
OVER: Final = frozenset({PullStatus.NO_NEW_MESSAGE, PullStatus.OFFSET_OVERFLOW_ONE})


def _begin_from_text(text: str) -> str | int:
    if text in FROM_WORDS:
        return text
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text!r} is neither min, max nor a queue offset")
    return int(text)


@asks_broker(
    "pocketmq consume orders --pull --queue 0 --from min --max 10",
    "pocketmq consume orders --pull --from max --wait 5m -o jsonl",
)
@click.argument("topic")
@click.option("--pull", "is_pull", is_flag=True, help="Read queues by offset; needs no group.")
@click.option("--queue", "queue_id", type=click.IntRange(0), help="Queue [default: all in turn].")
@click.option(
    "--from", "begin", type=ReadBy("min|max|OFFSET", _begin_from_text), default="min",
    show_default=True, help="Begin here.",
)  # fmt: skip
@click.option("--max", "count_max", type=click.IntRange(1), help="At most so many messages.")
@click.option(
    "--wait",
    "wait_ms",
    type=DURATION,
    default=0,
    help="At the end of all queues, wait so long for more.",
)
@filtered
def consume(
    broker: Connection,
    out: Output,
    topic: str,
    is_pull: bool,
    queue_id: int | None,
    begin: str | int,
    count_max: int | None,
    wait_ms: int,
    expression: str,
    sql: bool,
) -> None:
    """Print messages of TOPIC in the order of their queue, from an offset to the end.

    System topics and the retry and dead-letter topics of groups can be read too. A damaged message
    is told of and passed over; the exit code is then 10.
    """
    if not is_pull:
        raise click.UsageError("say how to read: --pull (reading as a group is yet to come)")
    damaged = Damaged()
    with out.rows(MESSAGE_COLUMNS) as rows:
        shown = ShownMessages(rows, count_max)
        ends = []
        for queue in _queues(broker, topic, queue_id):
            first = begin if isinstance(begin, int) else getattr(queue, f"{begin}_offset")
            query = PullQuery(topic, queue.queue_id, first, expression=expression, sql=sql)
            reader = QueueReader(query)
            for page in reader.pages(broker, shown.left, damaged):
                shown.add(page.messages)
            ends.append(reader.query)
        if wait_ms and shown.left:
            pull = damaged.passed_over_by(broker.reader(topic).pull)
            broker.show(broker.client.following(pull, wait_ms=wait_ms).pages(ends), shown.add)
    if damaged.count:
        raise damaged.failure()


def _queues(broker: Connection, topic: str, queue_id: int | None) -> list[QueueState]:
    queues = broker.ask(broker.admin.describe_topic(topic)).readable_queues
    chosen = [queue for queue in queues if queue_id in (None, queue.queue_id)]
    if not chosen and queue_id is not None:
        text = f"topic {topic!r} has {len(queues)} queues, none with id {queue_id}"
        raise Failure(text, Exit.NOT_FOUND, f"pocketmq topic info {topic}")
    return chosen


class Damaged:
    """The messages that could not be read."""

    def __init__(self) -> None:
        self.count = 0

    def pass_over(self, query: PullQuery, error: ClientError) -> int:
        """Tell of the damaged message an offset led to; returns the offset to go on at.

        Errors   ClientError: the error is another one, or names no such offset
        """
        following = error.fields.get("next_begin_offset", "")
        is_further = following.isdecimal() and int(following) > query.queue_offset
        if error.status != "DATA_LOSS" or not is_further:
            raise error
        self.count += 1
        assert int(following) > query.queue_offset
        number = error.fields.get("queue_offset", query.queue_offset)
        place = error.fields.get("physical_offset", "unknown")
        why = error.fields.get("why", error.message)
        talk(
            f"message {number} of queue {query.queue_id} is damaged (physical offset {place}): "
            f"{why}; going on at {following}"
        )
        return int(following)

    def passed_over_by(self, pull: Pull) -> Pull:
        """Return a pull that leads on over damaged messages."""

        async def pull_on(query: PullQuery) -> PullPage:
            try:
                return await pull(query)
            except ClientError as error:
                following = self.pass_over(query, error)
            return PullPage(PullStatus.NO_MATCHED_MESSAGE, following, 0, 0, [], b"")

        return pull_on

    def failure(self) -> Failure:
        """Return what ends a command that passed some over."""
        noun = "message is" if self.count == 1 else "messages are"
        text = f"{self.count} {noun} damaged and could not be read"
        return Failure(text, Exit.DAMAGED, LOOK_AT_STORE)


@dataclass
class QueueReader:
    """One queue, page by page; `query` says where to go on."""

    query: PullQuery

    def pages(
        self, broker: Connection, count_max: float, damaged: Damaged | None = None
    ) -> Iterator[PullPage]:
        """Yield its messages up to its end or a count, which may be inf.

        damaged   passes over what cannot be read; None: that is an error
        Errors    Failure for an offset behind the queue's end; ClientError
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
    """Tell of what lies outside the queue."""
    if page.status is PullStatus.NO_SUCH_QUEUE:
        text = f"topic {query.topic!r} has no queue {query.queue_id}"
        raise Failure(text, Exit.NOT_FOUND, f"pocketmq topic info {query.topic}")
    if page.status is PullStatus.OFFSET_OVERFLOW_BADLY:
        text = (
            f"offset {query.queue_offset} is behind the end of queue {query.queue_id}, "
            f"which reaches from {page.min_offset} to {page.max_offset}"
        )
        raise Failure(text, Exit.REFUSED, "begin with --from min or --from max")
    if page.status in (PullStatus.OFFSET_TOO_SMALL, PullStatus.EXPIRED):
        talk(f"offset {query.queue_offset} is gone; going on at {page.next_begin_offset}")
