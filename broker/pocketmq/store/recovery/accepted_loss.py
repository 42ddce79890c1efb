"""Records lost messages that a start accepts, for `store verify`.

Without followers, a log that lacks its oldest files begins at its next file, as if the lost ones
had expired. With `accept_damage`, a log that lacks its end is continued. In both cases the start
leaves no trace in the log, so a report like that of a repair keeps the loss until it expires.
"""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from pocketmq.log.consume_queue_table import ConsumeQueueTable
from pocketmq.log.quarantine import FINISHED, new_quarantine
from pocketmq.model.finding import Loss
from pocketmq.model.message import OFFSET_MAX
from pocketmq.store.recovery.components import StoreComponents

CAUSE: Final = "a start without the first or last files of the log"

logger = logging.getLogger(__name__)


class AcceptedLoss(NamedTuple):
    """Bytes [begin, end) that the log lacks, and their messages; `is_head`: at its begin."""

    path: str
    begin: int
    end: int
    messages: tuple[Loss, ...]
    is_head: bool


def losses_of(queues: ConsumeQueueTable, begin: int, end: int = OFFSET_MAX) -> tuple[Loss, ...]:
    """Returns the messages whose records began in [begin, end), according to the queues.

    Cost     some 40 reads of each queue
    """
    found = []
    for (topic, queue_id), queue in sorted(queues.queues.items()):
        first, last = (queue.units.first_at_or_behind(place) for place in (begin, end))
        if first < last:
            found.append(Loss(topic, queue_id, first, last - first))
    return tuple(found)


def record_losses(parts: StoreComponents, found: Sequence[AcceptedLoss], now_ms: int) -> None:
    """Logs the losses, and writes the report; a crash before the mark repeats both.

    Errors   DiskFull, AllocationFailed, FsyncFailed
    """
    if not found:
        return
    lost = [loss for each in found for loss in each.messages]
    quarantine = new_quarantine(parts.disk, parts.settings.directory, now_ms)
    moment = datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="seconds")
    ends = [{"begin": each.begin, "end": each.end} for each in found if not each.is_head]
    heads = [[each.begin, each.end] for each in found if each.is_head]
    report = {
        "state": FINISHED, "cause": CAUSE, "begun": moment, "finished": moment,
        "messages_lost": sum(loss.messages for loss in lost),
        "lost": [loss._asdict() for loss in lost], "in_doubt": [], "log": ends, "files": [],
        "oldest_files_missing": heads[0] if heads else None,
    }  # fmt: skip
    quarantine.write_report(report)
    for each in found:
        logger.warning(
            "log.shortened",
            extra={
                "path": each.path, "physical_offset": each.begin, "bytes": each.end - each.begin,
                "messages": sum(loss.messages for loss in each.messages),
                "report": str(quarantine.directory),
            },
        )  # fmt: skip
