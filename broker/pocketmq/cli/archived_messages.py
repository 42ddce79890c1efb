"""Messages of a lake (`pocketmq archive run`) beside those of a broker, for `pocketmq msg`."""

from collections.abc import Iterator
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import click

from pocketmq.cli.archive_check import check_lake
from pocketmq.cli.connection import BrokerConnection
from pocketmq.cli.documents import PAGE_COUNT, Document, fields_document, message_document
from pocketmq.cli.output import LOOK_AT_STORE, Exit, Failure, typed
from pocketmq.cli.store.archive_target import archive_errors, opened_objects
from pocketmq.client import ClientError, KeyQuery
from pocketmq.model.message import QueueKey

if TYPE_CHECKING:
    from pocketmq.tools.lake.reading import LakeBounds, Matches

TOPIC_NOT_FOUND: Final = "TopicNotFound"

archive_option = click.option(
    "--archive", "target", metavar="TARGET",
    help="Also search the Parquet files of `archive run` in TARGET; needs pyarrow.",
)  # fmt: skip


class ArchivedMessages:
    """The messages of one version of a lake's manifest."""

    __slots__ = ("_manifest", "_objects", "last")

    def __init__(self, target: str) -> None:
        """Reads the manifest.

        Errors   Failure: there is no lake, or it cannot be read
        """
        if find_spec("pyarrow") is None:
            text = "Parquet files need pyarrow, which is not installed"
            raise Failure(text, Exit.FAILED, "pip install pyarrow")
        from pocketmq.files.disk import Disk
        from pocketmq.tools.lake.commits import read_lake
        from pocketmq.tools.lake.reading import last_offsets

        self._objects = opened_objects(Disk(), target)
        with archive_errors(self._objects):
            self._manifest = read_lake(self._objects)
        self.last: dict[QueueKey, int] = last_offsets(self._manifest)
        """Physical offset of the last message of each queue in the lake."""

    def check(self, broker: BrokerConnection, topic: str) -> None:
        """Checks that the lake belongs to a broker; see check_lake.

        Errors   Failure
        """
        with archive_errors(self._objects):
            check_lake(broker, self._objects, self._manifest, topic)

    def by_key(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[Document]:
        """Yields the messages of a topic with a key or unique key, newest first.

        end_ms   last store time; 0: no limit
        Errors   Failure
        """
        from pocketmq.tools.lake.reading import LakeBounds, with_text
        from pocketmq.tools.selection import TIME_MAX

        times = (begin_ms, end_ms + 1 if end_ms else TIME_MAX)

        def matches(batch: Any) -> Any:
            stored = batch.column("store_timestamp_ms").to_numpy()
            is_timely = (stored >= times[0]) & (stored < times[1])
            return is_timely & with_text(batch, [key]) & of_topic(batch, topic)

        columns = ("keys", "message_id", "store_timestamp_ms")
        return self._found(LakeBounds([topic], times=times), columns, matches)

    def at(self, topic: str, queue_id: int, queue_offset: int) -> Document | None:
        """Returns the message at a queue offset; None if the lake does not have it."""
        from pocketmq.tools.lake.reading import LakeBounds

        def matches(batch: Any) -> Any:
            kept = batch.column("queue_offset").to_numpy() == queue_offset
            kept &= batch.column("queue_id").to_numpy() == queue_id
            return kept & of_topic(batch, topic)

        return next(self._found(LakeBounds([topic]), ("queue_offset",), matches), None)

    def by_id(self, topic: str | None, message_id: str) -> Document | None:
        """Returns the message with an id; None if the lake does not have it.

        topic   None: any
        """
        import pyarrow.compute as pc

        from pocketmq.tools.lake.reading import LakeBounds

        names = ("message_id", "offset_message_id")

        def matches(batch: Any) -> Any:
            hits = [pc.equal(batch.column(name), message_id) for name in names]
            kept = pc.or_(*hits).to_numpy(zero_copy_only=False)
            return kept if topic is None else kept & of_topic(batch, topic)

        bounds = LakeBounds(None if topic is None else [topic])
        return next(self._found(bounds, names, matches), None)

    def _found(
        self, bounds: "LakeBounds", columns: tuple[str, ...], matches: "Matches"
    ) -> Iterator[Document]:
        from pocketmq.format.message_columns import MESSAGE_COLUMNS
        from pocketmq.tools.lake.reading import find_messages

        names = [column.name for column in MESSAGE_COLUMNS]
        with archive_errors(self._objects):
            for row in find_messages(self._objects, self._manifest, bounds, columns, matches):
                fields = {name: row[name] for name in names}
                yield fields_document({**fields, "properties": dict(row["properties"])})


def of_topic(batch: Any, topic: str) -> Any:
    """Returns a mask of the rows of a topic."""
    import pyarrow.compute as pc

    return pc.equal(batch.column("topic"), topic).to_numpy(zero_copy_only=False)


class KeyMatches:
    """Pages of messages with a key, newest first; `is_complete` once no match is left."""

    __slots__ = ("_broker", "_is_lenient", "_left", "_query", "is_complete")

    def __init__(
        self, broker: BrokerConnection, query: KeyQuery, left: float, *, is_lenient: bool
    ) -> None:
        """Prepares a query for at most `left` messages.

        is_lenient   whether a topic that the broker does not have counts as empty
        """
        assert left > 0
        self._broker, self._query, self._left = broker, query, left
        self._is_lenient = is_lenient
        self.is_complete = False

    def __iter__(self) -> Iterator[list[Document]]:
        ask, token, left = self._broker.reader(self._query.topic).query_by_key, "", self._left
        while left > 0:
            count = int(min(left, PAGE_COUNT))
            try:
                page = self._broker.ask(
                    ask(self._query._replace(count_max=count, page_token=token))
                )
            except ClientError as error:
                if error.reason != TOPIC_NOT_FOUND or not self._is_lenient:
                    raise
                return
            yield [message_document(message) for message in page.messages]
            self.is_complete = page.complete
            if page.complete:
                return
            if not page.next_cursor:
                text = "the index or the log is damaged: messages with this key may be missing"
                step = LOOK_AT_STORE.format(directory=typed(self._broker.directory))
                raise Failure(text, Exit.DAMAGED, step)
            left -= len(page.messages)
            token = page.next_cursor

    def and_archived(self, target: str) -> Iterator[Document]:
        """Yields messages of the broker and of a lake, each once, newest first.

        The broker is asked before the manifest is read. So a message that retention removes between
        the two is in the manifest.
        """
        _, key, _, begin_ms, end_ms, _ = query = self._query
        stored, topic = [document for page in self for document in page], query.topic
        archive = ArchivedMessages(target)
        archive.check(self._broker, topic)
        last = {queue_id: at for (name, queue_id), at in archive.last.items() if name == topic}
        new = [one for one in stored if one["physical_offset"] > last.get(one["queue_id"], -1)]
        left = self._left
        for document in chain(new, archive.by_key(topic, key, begin_ms, end_ms)):
            self.is_complete = left > 0
            if not self.is_complete:
                return
            yield document
            left -= 1
        self.is_complete = True
