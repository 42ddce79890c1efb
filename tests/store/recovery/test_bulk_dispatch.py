"""Dispatch by column: the views end as if every record had been dispatched alone."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from pocketmq.format.index_layout import STYLE_5_3, STYLE_5_5
from pocketmq.format.names import COMMIT_LOG_DIRECTORY
from pocketmq.log.consume_queue_table import NONE_REMOVED
from pocketmq.model.message import TRANSACTION_ROLLBACK, QueueKey
from pocketmq.model.topic import QUARANTINE_TOPIC
from pocketmq.store.recovery import bulk_dispatch
from pocketmq.store.recovery.bulk_dispatch import BulkDispatch
from pocketmq.store.recovery.components import StoreComponents
from tests.kit.log_bytes import SMALL, LogBytes, applied, rebuilt_files
from tests.kit.odd_records import records
from tests.kit.store_language import small_settings
from tests.sim.quick_disk import QuickDisk

CHUNKS = [64, 119, 300, 1 << 20]


class Built(StoreComponents):
    """A log, and views built of it by column in a directory of their own."""

    def __init__(
        self, log: LogBytes, out: Path, *, style: str = STYLE_5_5,
        removed: Mapping[QueueKey, int] = NONE_REMOVED,
    ) -> None:  # fmt: skip
        out.mkdir()
        (out / COMMIT_LOG_DIRECTORY).symlink_to(log.store / COMMIT_LOG_DIRECTORY)
        settings = small_settings(
            out,
            commit_log_file_size_bytes=log.file_size,
            consume_queue_file_size_bytes=SMALL.consume_queue_file_size_bytes,
            index_slot_count=SMALL.geometry.slot_count,
            index_entry_count_max=SMALL.geometry.entry_count_max,
            index_style=style,
            time_zone=SMALL.time_zone,
        )
        super().__init__(settings, QuickDisk(), removed)
        self.log.load(read_only=True)

    def dispatch(
        self, begin: int, end: int, *, queues_from: int = 0, index_from: int = 0,
        chunk_size: int = 300,
    ) -> list[int]:  # fmt: skip
        """Dispatches a stretch; returns what was told of progress."""
        quick = BulkDispatch(self, chunk_size=chunk_size)
        return [*quick.steps([(begin, end)], queues_from=queues_from, index_from=index_from)]

    def files(self) -> dict[str, bytes]:
        self.close()
        return rebuilt_files(self.settings.directory)


def log_of(tmp_path: Path, count: int = 40) -> LogBytes:
    """Three queues in turn, two keys each."""
    log = LogBytes(tmp_path / "s", 1_024)
    for number in range(count):
        log.add("TTU"[number % 3], number % 2, queue_offset=number // 6, keys=f"a{number} b")
    return log


@settings(max_examples=40)
@given(
    fields=records,
    chunk_size=some.sampled_from(CHUNKS),
    style=some.sampled_from([STYLE_5_3, STYLE_5_5]),
    removed=some.dictionaries(some.sampled_from([("T", 0), ("Aa", 1)]), some.integers(0, 20)),
)
def test_odd_records_lead_to_the_same_views(
    fields: list[dict[str, Any]], chunk_size: int, style: str, removed: dict[QueueKey, int]
) -> None:
    with TemporaryDirectory() as directory:
        log = LogBytes(Path(directory) / "s", 2_048)
        for one in fields:
            log.add(**one)
        built = Built(log.close(), Path(directory) / "quick", style=style, removed=removed)
        built.dispatch(0, log.end, chunk_size=chunk_size)
        single = Built(log, Path(directory) / "single", style=style, removed=removed)
        for found in log.entries:
            single.queues.apply([found])
            single.index.apply([found])
        assert built.files() == single.files()


@pytest.mark.parametrize("collected_max", [1, 10, 1_000])
def test_units_may_wait_for_later_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collected_max: int
) -> None:
    monkeypatch.setattr(bulk_dispatch, "COLLECTED_MAX", collected_max)
    log = log_of(tmp_path).close()
    built = Built(log, tmp_path / "quick")
    told = built.dispatch(0, log.end)
    assert told == sorted(told)
    assert built.files() == applied(log.entries, SMALL, tmp_path / "single")


@pytest.mark.parametrize("queues_have", [0, 1, 17, 40])
@pytest.mark.parametrize("index_has", [0, 1, 17, 40])
def test_each_view_gets_what_it_lacks(tmp_path: Path, queues_have: int, index_has: int) -> None:
    log = log_of(tmp_path).close()
    built = Built(log, tmp_path / "quick")
    built.queues.apply(log.entries[:queues_have])
    built.index.apply(log.entries[:index_has])
    begin = log.places[min(queues_have, index_has, 39)]
    built.dispatch(
        begin,
        log.end,
        queues_from=built.queues.durable_offset,
        index_from=built.index.durable_offset,
    )
    assert built.files() == applied(log.entries, SMALL, tmp_path / "single")


def test_what_a_repair_took_out_leaves_pre_blank_units(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s", 4_096)
    log.add("T", queue_offset=0)
    log.add(QUARANTINE_TOPIC, body=b"x" * 900, flags=TRANSACTION_ROLLBACK)
    log.add("T", queue_offset=4)
    log.close()
    built = Built(log, tmp_path / "quick")
    built.dispatch(0, log.end)
    queue = built.queues.find("T", 0)
    assert queue is not None
    assert queue.max_offset == 5
    assert built.files() == applied(log.entries, SMALL, tmp_path / "single")
