"""Messages whose tag, keys or id differ from queue or index, without a property CRC to decide.

One of the two is damaged. A repair takes queue and index from the log, after which nothing shows
the difference. So its report lists these messages, and later verifications add a note.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.format.record import (
    MAGIC_V1,
    MAGIC_V2,
    PROPERTY_CRC_SIZE,
    SIZE_AND_MAGIC,
    BadRecord,
    decode_record,
    property_crc_field,
)
from pocketmq.log.quarantine import finished_reports
from pocketmq.model.finding import Doubt
from pocketmq.rebuild.log_files import LogFile, bytes_at
from pocketmq.tools.verify.collector import Collector

DOUBTS_MAX: Final = 1_000
"""Upper limit of messages in doubt that a verification names."""
SHOWN_MAX: Final = 5
_MAGICS: Final = (MAGIC_V1.to_bytes(4), MAGIC_V2.to_bytes(4))
OTHER_KEYS: Final = (
    "index entries of a record differ from its keys, tag or id: one of the two is damaged; if it "
    "is the record, a repair does not bring them back: compare it with a backup"
)


def doubts_of(files: Sequence[LogFile], places: Iterable[int]) -> tuple[Doubt, ...]:
    """Returns the messages that begin at these physical offsets.

    Those with a correct property CRC are left out.
    """
    found = []
    for place in sorted(places)[:DOUBTS_MAX]:
        if not any(file.base <= place < file.end for file in files):
            continue
        head = bytes_at(files, place, SIZE_AND_MAGIC.size)
        if head[4:] not in _MAGICS:
            continue
        with suppress(BadRecord):
            record = bytes_at(files, place, int.from_bytes(head[:4]))
            message = decode_record(record, decompress=False)
            if record[-PROPERTY_CRC_SIZE:] != property_crc_field(record[:-PROPERTY_CRC_SIZE]):
                found.append(Doubt(message.topic, message.queue_id, message.queue_offset, place))
    return tuple(found)


def tell_earlier_doubts(
    disk: Disk, directory: Path, files: Sequence[LogFile], collector: Collector
) -> None:
    """Adds a note on the messages in doubt that finished repairs reported.

    files   the log's files: messages before the first one have left the log
    """
    log_begin = files[0].base if files else 0
    found: set[Doubt] = set()
    for report in finished_reports(disk, directory):
        with suppress(KeyError, TypeError, ValueError):
            rows = [Doubt(**row) for row in report["in_doubt"]]
            found |= {row for row in rows if row.physical_offset >= log_begin}
    if found:
        named = [f"{one.topic}:{one.queue_id} offset {one.queue_offset}" for one in sorted(found)]
        more = f" and {len(named) - SHOWN_MAX} more" if len(named) > SHOWN_MAX else ""
        collector.remark(
            "in doubt since an earlier repair, which took queues and index from the log: tag, keys "
            f"or id of {', '.join(named[:SHOWN_MAX])}{more}; compare with a backup"
        )
