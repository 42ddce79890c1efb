"""File and directory names of a store, made and parsed.

    commitlog/00000000000000000000          a file is named by the offset of its first byte
    consumequeue/TOPIC/QUEUE/00000000000000000000
    index/20261121003515660                 local time, to the millisecond

Source: UtilAll.offset2FileName, StorePathConfigHelper, IndexService.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pocketmq.model.errors import IllegalConfig
from pocketmq.model.names import check_queue_topic

COMMIT_LOG_DIRECTORY: Final = "commitlog"
CONSUME_QUEUE_DIRECTORY: Final = "consumequeue"
CONSUME_QUEUE_EXTENSION_DIRECTORY: Final = "consumequeue_ext"
BATCH_QUEUE_DIRECTORY: Final = "batchconsumequeue"
ROCKSDB_QUEUE_DIRECTORY: Final = "consumequeue_rocksdb"
INDEX_DIRECTORY: Final = "index"
VIEW_DIRECTORIES: Final = (
    CONSUME_QUEUE_DIRECTORY, CONSUME_QUEUE_EXTENSION_DIRECTORY, INDEX_DIRECTORY,
)  # fmt: skip
CONFIG_DIRECTORY: Final = "config"
OWN_DIRECTORY: Final = "pocketmq"
RESERVE_FILE: Final = "reserve"
"""File whose disk space is released when the disk is full."""
REMOVED_QUEUES_FILE: Final = "removed.json"
FLOORS_FILE: Final = "floors.json"
"""File of queue offsets below which messages were purged."""
CLOCK_FILE: Final = "clock.json"
"""File of the time that retention believes while the clock is far ahead."""
ARCHIVED_FILE: Final = "archived.json"
"""File with the physical offset up to which each archive has the log."""
ACCESS_FILE: Final = "access.json"
"""File of users with their secrets and permissions."""
LEFT_OVER_FILE: Final = "left_over.json"
ORDER_JOURNAL_FILE: Final = "order.journal"
TERMS_FILE: Final = "terms.json"
IDENTITY_FILE: Final = "identity.json"
DIVERGED_DIRECTORY: Final = "diverged"
CHECKPOINT_FILE: Final = "checkpoint"
MARK_FILE: Final = "watermark"
ABORT_FILE: Final = "abort"
LOCK_FILE: Final = "lock"
TOPICS_FILE: Final = "topics.json"
SUBSCRIPTIONS_FILE: Final = "consumerFilter.json"
GROUPS_FILE: Final = "subscriptionGroup.json"
CONSUMER_OFFSETS_FILE: Final = "consumerOffset.json"
LMQ_CONSUMER_OFFSETS_FILE: Final = "lmqConsumerOffset.json"
ORDER_INFO_FILE: Final = "consumerOrderInfo.json"
DELAY_OFFSETS_FILE: Final = "delayOffset.json"
TIMER_CHECK_FILE: Final = "timercheck"
TIMER_LOG_DIRECTORY: Final = "timerlog"
TIMER_WHEEL_FILE: Final = "timerwheel"
BACKUP_SUFFIX: Final = ".bak"

STORE_NAMES: Final = (
    *(ABORT_FILE, CHECKPOINT_FILE, LOCK_FILE, COMMIT_LOG_DIRECTORY, *VIEW_DIRECTORIES),
    *(BATCH_QUEUE_DIRECTORY, CONFIG_DIRECTORY, OWN_DIRECTORY),
    *(TIMER_LOG_DIRECTORY, TIMER_WHEEL_FILE),
)
"""Names that PocketMQ opens in a store's directory; it ignores others."""

OFFSET_DIGITS: Final = 20
QUEUE_ID_MAX: Final = 2**31 - 1
INDEX_NAME_FORMAT: Final = "%Y%m%d%H%M%S"
NAMED_MS_MAX: Final = 253_370_764_800_000
"""Begin of the year 9999: latest time in the name of an index file, with room for later names."""

_QUEUE_NAME = re.compile(r"0|[1-9][0-9]{0,9}")
_OFFSET_NAME = re.compile(r"[0-9]{20,}")
_JUNK_NAME = re.compile(
    r"\.nfs[0-9a-f]+|\.fuse_hidden[0-9a-f]+|\.DS_Store|\._.*|Thumbs\.db|desktop\.ini|lost\+found"
    r"|\..*\.sw[a-z]|\.#.*|#.*#|.*~",
    re.DOTALL,
)
"""Names of removed files that are still open on NFS and FUSE, and of files that macOS, Windows,
ext4, vi and Emacs create."""
_INDEX_NAME = re.compile(r"[0-9]{17}")


def offset_file_name(offset_bytes: int) -> str:
    """Returns the name of the file that begins at an offset: 20 digits or more."""
    return f"{offset_bytes:0{OFFSET_DIGITS}d}"


def offset_from_file_name(name: str) -> int | None:
    """Returns the offset that a file name means; None for any other name."""
    return int(name) if _OFFSET_NAME.fullmatch(name) else None


def is_junk(name: str) -> bool:
    """Returns whether systems or editors create files of this name by themselves."""
    return _JUNK_NAME.fullmatch(name) is not None


def files_from(names: Iterable[str], offset_bytes: int) -> list[str]:
    """Returns the names of files that begin at or after an offset."""
    bases = [(name, offset_from_file_name(name)) for name in names]
    return [name for name, base in bases if base is not None and base >= offset_bytes]


def queue_directory(root: Path, topic: str, queue_id: int) -> Path:
    """Returns the directory of a queue's files; rejects topics that would lead elsewhere.

    Errors   IllegalTopic
    """
    check_queue_topic(topic)
    return root / topic / str(int(queue_id))


def queue_id_from_name(name: str) -> int | None:
    """Returns the queue id that a directory name means; None for any other name."""
    return int(name) if _QUEUE_NAME.fullmatch(name) and int(name) <= QUEUE_ID_MAX else None


def zone_from_name(name: str) -> tzinfo:
    """Returns the time zone for names of index files; "" is the machine's.

    Errors   IllegalConfig
    """
    if not name:
        return datetime.now(UTC).astimezone().tzinfo or UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # OSError: such as "Europe"
        raise IllegalConfig(field="store.time_zone", why=f"{name!r} is not a time zone") from error


def index_file_name(timestamp_ms: int, zone: tzinfo) -> str:
    """Returns the name of an index file created at a time: local time, 17 digits.

    A damaged store time outside of the calendar is replaced by the nearest valid time.
    """
    timestamp_ms = min(max(timestamp_ms, 0), NAMED_MS_MAX)
    moment = datetime.fromtimestamp(timestamp_ms // 1000, zone)
    return f"{moment.strftime(INDEX_NAME_FORMAT)}{timestamp_ms % 1000:03d}"


def is_index_file_name(name: str) -> bool:
    """Returns whether a name is that of an index file."""
    if _INDEX_NAME.fullmatch(name) is None:
        return False
    try:
        datetime.strptime(name[:14], INDEX_NAME_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return False
    return True


def next_index_file_name(timestamp_ms: int, zone: tzinfo, previous: str) -> str:
    """Returns a name that sorts after the previous one, even if the clock was set back.

    It is the later of the local time and the previous name plus one millisecond.
    """
    name = index_file_name(timestamp_ms, zone)
    if not previous or name > previous:
        return name
    moment = datetime.strptime(previous[:14], INDEX_NAME_FORMAT).replace(tzinfo=zone)
    moment += timedelta(milliseconds=int(previous[14:]) + 1)
    return f"{moment.strftime(INDEX_NAME_FORMAT)}{moment.microsecond // 1000:03d}"
