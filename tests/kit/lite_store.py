"""A store of RocketMQ 5.5.0 with lite topics, one of which expired and was created again."""

import shutil
import tarfile
from pathlib import Path
from typing import Any, Final

from tests.kit.store_language import small_settings
from tests.kit.tool_sizes import shape_of

ARCHIVE: Final = Path(__file__).parents[1] / "golden_lite" / "public.tar.gz"
SIZES: Final[dict[str, Any]] = {
    "commit_log_file_size_bytes": 1 << 20,
    "consume_queue_file_size_bytes": 2_000,
    "index_slot_count": 500,
    "index_entry_count_max": 2_000,
}
AGAIN: Final = ("%LMQ%$chat$_0", 0)
"""Three messages, stored behind those of EXPIRED."""
EXPIRED: Final = ("%LMQ%$chat$--", 0)
"""One message, whose name has as many bytes."""


def lite_store(scratch: Path) -> Path:
    """The store as it was written."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(scratch, filter="data")
    return scratch / "golden-lite-public"


def lite_store_with_generations(scratch: Path) -> Path:
    """The store as if AGAIN had expired, and was created again, after its first message.

    The message of EXPIRED is the one before, and its queue is deleted as an expiry does.
    """
    store = lite_store(scratch)
    log = store / "commitlog" / ("0" * 20)
    content = log.read_bytes()
    renamed = content.replace(EXPIRED[0].encode(), AGAIN[0].encode())
    log.write_bytes(renamed.replace(b"__LITE_TOPIC\x01--\x02", b"__LITE_TOPIC\x01_0\x02"))
    shutil.rmtree(store / "consumequeue" / EXPIRED[0])
    assert len(renamed) == len(content) != renamed.count(EXPIRED[0].encode())
    return store


def lite_sizes(store: Path) -> Any:
    """Returns the file sizes that offline tools find."""
    return shape_of(small_settings(store, **SIZES))
