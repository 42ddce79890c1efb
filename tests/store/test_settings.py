"""Settings of a store: RocketMQ's defaults, sizes of the edge preset, nothing to change later."""

from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path

import pytest

from broker.format.consume_unit import UNIT_SIZE
from broker.format.index_layout import IndexGeometry
from broker.store.settings import FLUSH_ASYNC, FLUSH_SYNC, StoreSettings

DEFAULTS = StoreSettings(directory=Path("store"))


def test_a_send_is_durable_when_answered_unless_said_otherwise() -> None:
    assert DEFAULTS.flush == FLUSH_SYNC
    assert replace(DEFAULTS, flush=FLUSH_ASYNC).flush == "async"


def test_flush_rules_are_those_of_a_real_broker() -> None:
    assert (DEFAULTS.flush_interval_ms, DEFAULTS.flush_least_pages) == (500, 4)
    assert (DEFAULTS.flush_thorough_interval_ms, DEFAULTS.sync_flush_timeout_ms) == (10_000, 5_000)
    assert (DEFAULTS.view_flush_interval_ms, DEFAULTS.view_flush_least_pages) == (1_000, 2)
    assert DEFAULTS.busy_timeout_ms == 1_000


def test_files_are_of_a_size_an_edge_machine_can_spare() -> None:
    assert DEFAULTS.commit_log_file_size_bytes == 64 << 20
    assert DEFAULTS.consume_queue_file_size_bytes % UNIT_SIZE == 0
    geometry = IndexGeometry(DEFAULTS.index_slot_count, DEFAULTS.index_entry_count_max)
    assert geometry.file_size == 40 + 4 * 200_000 + 20 * 1_000_000


def test_nothing_counts_as_set_by_an_operator() -> None:
    assert DEFAULTS.explicit == frozenset()
    assert {field.name for field in fields(DEFAULTS)} >= {"directory", "explicit", "time_zone"}


def test_settings_stay_what_they_are() -> None:
    with pytest.raises(FrozenInstanceError):
        DEFAULTS.flush = FLUSH_ASYNC  # type: ignore[misc]
