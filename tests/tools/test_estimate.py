"""What views will take is told from samples, near enough to refuse a disk that is too full."""

from pathlib import Path

import pytest

from broker.rebuild.log_files import find_log_files
from broker.rebuild.sequential import rebuild
from broker.tools.estimate import ViewEstimate, estimate_views
from tests.fakes.log_bytes import (
    EVERYTHING,
    SMALL,
    LogBytes,
    golden_files,
    golden_settings,
    rebuilt_files,
)
from tests.golden_stores import GoldenStores


@pytest.mark.parametrize("name", ["basic", "v533", "propcrc"])
def test_golden_stores(golden: GoldenStores, tmp_path: Path, name: str) -> None:
    files, settings = golden_files(golden, name), golden_settings(golden, name)
    told = estimate_views(files, settings, EVERYTHING)
    built = rebuild(files, settings, tmp_path, upto=EVERYTHING)
    assert told.records == pytest.approx(built.record_count, rel=0.5)
    assert told.entries == pytest.approx(built.entry_count, rel=0.5)
    content = sum(len(content.rstrip(b"\0")) for content in rebuilt_files(tmp_path).values())
    assert content < told.view_bytes < 4 * content


def test_a_part_of_a_log_takes_a_part_of_the_room(golden: GoldenStores) -> None:
    files, settings = golden_files(golden, "basic"), golden_settings(golden, "basic")
    half = estimate_views(files, settings, files[len(files) // 2].base)
    whole = estimate_views(files, settings, EVERYTHING)
    assert 0 < half.records < whole.records
    assert 0 < half.view_bytes < whole.view_bytes


def test_no_log_and_a_log_without_records(tmp_path: Path) -> None:
    assert estimate_views([], SMALL, EVERYTHING) == ViewEstimate()
    log = LogBytes(tmp_path / "s").close()
    assert estimate_views(find_log_files(log.store, 4096), SMALL, EVERYTHING) == ViewEstimate()
