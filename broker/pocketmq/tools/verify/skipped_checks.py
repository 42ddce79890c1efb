"""Topics whose records legitimately have no unit in consumequeue/.

A topic missing in both config/topics.json and consumequeue/ was deleted; its records stay in the
log until they expire. A topic with batch queues has them under batchconsumequeue/. A light message
queue without a directory was deleted as well: the table of topics never contains one.
"""

from collections.abc import Iterable
from pathlib import Path

from pocketmq.files.disk import Disk
from pocketmq.format.names import (
    BATCH_QUEUE_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    TOPICS_FILE,
)
from pocketmq.log.deleted_topics import known_topics
from pocketmq.model.topic import is_system_topic
from pocketmq.tools.verify.collector import Collector


class SkippedChecks:
    """Topics without checks of their queues, and those of them that records were found of."""

    __slots__ = ("_batch", "_known", "_met")

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._batch = set(disk.names(directory / BATCH_QUEUE_DIRECTORY))
        self._known = known_topics(disk, directory)
        self._met: set[str] = set()

    def has(self, topic: str) -> bool:
        """Returns whether checks of a topic's queues are skipped."""
        return topic in self._batch or (self._known is not None and topic not in self._known)

    def meet(self, topics: Iterable[str]) -> None:
        """Records topics of the records found."""
        self._met.update(topic for topic in topics if not is_system_topic(topic))
        assert "" not in self._batch

    def tell(self, collector: Collector) -> None:
        """Reports the skipped checks as remarks."""
        for topic in sorted(self._batch):
            collector.remark(
                f"topic {topic} has batch queues: {BATCH_QUEUE_DIRECTORY}/ is not looked at"
            )
        for topic in sorted(filter(self.has, self._met - self._batch)):
            collector.remark(
                f"topic {topic} was removed: config/{TOPICS_FILE} and {CONSUME_QUEUE_DIRECTORY}/ "
                "do not know it, messages of it are left in the log"
            )
