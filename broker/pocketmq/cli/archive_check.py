"""Checks that a lake belongs to the broker whose messages `pocketmq msg` reads."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pocketmq.cli.connection import BrokerConnection
from pocketmq.cli.output import Exit, Failure, talk
from pocketmq.client import ClientError, PullPage, PullQuery, StoredMessage
from pocketmq.format.record import message_fields

if TYPE_CHECKING:
    from pocketmq.tools.archive.objects import Objects
    from pocketmq.tools.lake.catalog import Manifest, QueueMark

QUEUES_MAX: Final = 16
"""Upper limit of the queues of a topic that the check reads."""


def check_lake(
    broker: BrokerConnection, objects: "Objects", manifest: "Manifest", topic: str
) -> None:
    """Compares a message of a topic that broker and lake must share.

    Effects  prints a note if none is shared: retention removed them, or the topic was created again
    Errors   Failure: the lake is another broker's; NotAStore, Corruption, OSError
    Cost     usually two pulls, and one row of the lake
    """
    from pocketmq.tools.lake.ownership import KnownMessage, known_message

    marks = [(key[1], mark) for key, mark in manifest.marks.queues.items() if key[0] == topic]
    for queue_id, mark in marks[:QUEUES_MAX]:
        for found in _shared(broker, topic, queue_id, mark):
            place = found.physical_offset
            if place > mark.physical_offset:  # The topic was deleted and created again.
                continue
            fields = message_fields(found)
            own = KnownMessage(*(fields[name] for name in KnownMessage._fields))
            if known_message(objects, manifest, topic, place) == own:
                return
            number = f"message {found.queue_offset} of queue {queue_id} of {topic}"
            text = f"{objects.target} is another broker's lake: it does not have {number}"
            raise Failure(text, Exit.REFUSED, "name the lake of this broker")
    if marks:
        talk(
            f"Note: whether the lake is of this broker was not checked: of {topic} the broker has "
            "no message that is archived"
        )


def _shared(
    broker: BrokerConnection, topic: str, queue_id: int, mark: "QueueMark"
) -> Iterator[StoredMessage]:
    """Yields messages of a queue that the lake should have: the last one, and the first one."""

    def pull(at: int) -> PullPage:
        query = PullQuery(topic, queue_id, at, max_messages=1)
        return broker.ask(broker.reader(topic).pull(query))

    try:
        page = pull(mark.next_offset - 1)
        begin, end = page.min_offset, page.max_offset
        for at in (min(mark.next_offset, end) - 1, begin):
            if begin <= at < min(mark.next_offset, end):
                yield from pull(at).messages[:1]
    except ClientError:  # The topic is gone, or may not be read.
        return
