"""Reads the queues of a running broker for `pocketmq archive run`."""

from collections.abc import Callable, Iterator
from typing import Final

from pocketmq.cli.connection import BrokerConnection
from pocketmq.cli.output import Exit, Failure, talk
from pocketmq.client import PullPage, PullQuery, Shape
from pocketmq.format.columns.heads import records_as_columns
from pocketmq.model.message import QueueKey
from pocketmq.model.reading import PULL_COUNT_MAX, QUEUE_CUT
from pocketmq.rebuild.range_pass import Advance
from pocketmq.tools.lake.archiving import Archived, Archiver
from pocketmq.tools.lake.catalog import QueueMark
from pocketmq.tools.lake.commits import Lake
from pocketmq.tools.lake.drafts import Records
from pocketmq.tools.selection import Selection

PAGE_SIZE: Final = 8 * 1024 * 1024


class LakeQueues:
    """The queues of a broker that a run archives, and their new messages."""

    __slots__ = ("_broker", "_until_ms", "_wanted", "lost")

    def __init__(
        self, broker: BrokerConnection, patterns: tuple[str, ...], until_ms: int | None
    ) -> None:
        self._broker, self._until_ms = broker, until_ms
        self._wanted = Selection(patterns, with_system=False)
        self.lost = 0
        """Messages that retention removed before they were archived."""

    def held(self) -> dict[QueueKey, range]:
        """Returns the queue offsets [min, max) of each queue that is archived."""
        admin = self._broker.admin
        names = [topic.name for topic in self._broker.all(admin.list_topics, include_system=True)]
        return {
            (name, queue.queue_id): range(queue.min_offset, queue.max_offset)
            for name in names
            if self._wanted.wants_queue(name, -1)
            for queue in self._broker.ask(admin.describe_topic(name)).queues
        }

    def pages(self, key: QueueKey, held: range, mark: QueueMark | None) -> Iterator[PullPage]:
        """Yields the pages of a queue that may contain new messages.

        Errors   Failure: the lake is another broker's; ClientError
        """
        at = held.start
        if mark is not None:
            self._check_own(key, held, mark)
            at = max(mark.next_offset, held.start)
            self.lost += at - mark.next_offset
            assert self.lost >= 0
        while at < held.stop:
            page = self._pull(key, at, min(PULL_COUNT_MAX, held.stop - at))
            if page.status in QUEUE_CUT or page.next_begin_offset <= at:
                return
            if page.records:
                yield page
            at = page.next_begin_offset

    def _check_own(self, key: QueueKey, held: range, mark: QueueMark) -> None:
        """Raises Failure if the broker's queue has another message than the last archived one."""
        last = mark.next_offset - 1
        if last < held.start:
            return
        records = self._pull(key, last, 1).records if last < held.stop else b""
        found = records_as_columns(records)[1].physical_offset[0] if records else -1
        if found != mark.physical_offset:
            text = (
                f"the lake has another message {last} of queue {key[1]} of {key[0]} than the broker"
            )
            raise Failure(text, Exit.REFUSED, "name the lake of this broker, or an empty place")

    def before_end(self, page: Records) -> Records:
        """Returns the part of a page before --until."""
        if self._until_ms is None:
            return page
        late = page.heads.store_timestamp_ms >= self._until_ms
        count = int(late.argmax()) if late.any() else len(late)
        return page._replace(heads=page.heads.take(slice(count)), queue=page.queue[:count])

    def _pull(self, key: QueueKey, at: int, count: int) -> PullPage:
        topic, queue_id = key
        query = PullQuery(
            topic, queue_id, at, max_messages=count, max_bytes=PAGE_SIZE, shape=Shape.RECORDS
        )
        return self._broker.ask(self._broker.reader(topic).pull(query))


def archive_queues(
    archiver: Archiver, lake: Lake, broker: BrokerConnection, patterns: tuple[str, ...],
    until_ms: int | None, *, advance: Callable[[int], Advance],
) -> Archived:  # fmt: skip
    """Archives the messages of a broker's queues that the lake does not have.

    advance   called with the number of bytes to read; returns a function that is called with the
              number of bytes of each finished page
    Errors    Failure: the lake is another broker's; ClientError; OSError; DiskFull
    """
    status = broker.ask(broker.admin.store_status())
    # The queues listed after this contain all messages below `upto`.
    upto = min(status.flushed_offset, status.dispatched_offset)
    queues, marks = LakeQueues(broker, patterns, until_ms), lake.manifest.marks
    done = advance(max(upto - marks.begin(patterns), 0))
    try:
        for key, held in queues.held().items():
            for page in queues.pages(key, held, marks.queues.get(key)):
                buffer, heads = records_as_columns(page.records)
                numbers = archiver.queues.number(buffer, heads)
                whole = Records(buffer, heads, numbers, archiver.queues)
                part = queues.before_end(whole)
                archiver.add(part)
                done(len(page.records))
                if archiver.is_due:
                    archiver.commit()
                if len(part.heads) < len(heads):
                    break
        is_all = until_ms is None and upto >= marks.begin(patterns)
        archiver.commit(patterns, upto if is_all else None)
    finally:
        archiver.abandon()
    if queues.lost:
        talk(f"Note: retention removed {queues.lost} messages before they were archived")
    return archiver.archived()
