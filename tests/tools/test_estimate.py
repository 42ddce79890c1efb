"""The room views take is told before they are built, from a few chunks of the log."""

from pathlib import Path

import pytest

from broker.rebuild.sequential import rebuild
from broker.tools.estimate import ViewEstimate, estimate_views
from tests.fakes.log_bytes import EVERYTHING, SMALL, golden_files, golden_settings
from tests.golden_stores import GoldenStores


@pytest.mark.parametrize("name", ["basic", "rebuild-base", "semantics"])
def test_it_is_near_what_is_written(golden: GoldenStores, name: str, tmp_path: Path) -> None:
    files, settings = golden_files(golden, name), golden_settings(golden, name)
    found = estimate_views(files, settings, EVERYTHING)
    built = rebuild(files, settings, tmp_path, upto=EVERYTHING)
    assert built.record_count / 3 < found.records < built.record_count * 3
    assert built.entry_count / 3 < found.entries < built.entry_count * 3
    assert found.view_bytes > 20 * (found.records + found.entries)


def test_an_empty_log_needs_nothing(golden: GoldenStores) -> None:
    assert estimate_views([], SMALL, EVERYTHING) == ViewEstimate()
    assert estimate_views(golden_files(golden, "basic"), SMALL, 0) == ViewEstimate()
