"""The delays a schedule topic was written with, read off its newest units."""

from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.consume_unit import UNIT
from pocketmq.log.delay_levels import written_levels
from pocketmq.model.store_shape import DEFAULT_DELAY_LEVELS
from pocketmq.store.recovery.geometry import fit_to_disk
from tests.golden_stores import GoldenStores
from tests.kit.store_golden import golden_sizes
from tests.kit.store_language import small_settings

LOG_FILE_BYTES = 262_144
SHOWN = "2s 7s 11s 60s 10800s 14400s 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


def levels(store: Path, stated: str = DEFAULT_DELAY_LEVELS) -> str:
    return written_levels(Disk(), store, stated, log_file_bytes=LOG_FILE_BYTES)


def test_what_units_show_takes_the_place_of_the_default(golden: GoldenStores) -> None:
    store = golden.store("delaylevels")
    assert levels(store) == SHOWN
    assert levels(store, SHOWN) == ""
    assert levels(store, "2s 7s") == "2s 7s 11s 60s 10800s 14400s"


def test_units_that_agree_or_lead_nowhere_show_nothing(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store = golden.copy("delaylevels", tmp_path / "s")
    for path in (store / "consumequeue/SCHEDULE_TOPIC_XXXX").rglob("0*"):
        if path.is_file():
            units = [UNIT.pack(place + 1, size, due) for place, size, due in unpacked(path)]
            path.write_bytes(b"".join(units))
    assert levels(store) == ""
    assert levels(golden.store("lmq")) == ""


def unpacked(path: Path) -> list[tuple[int, int, int]]:
    return list(UNIT.iter_unpack(path.read_bytes()))


@pytest.mark.parametrize("stated", ["", "5s 6s"])
def test_a_start_takes_them_unless_the_operator_says_otherwise(
    golden: GoldenStores, stated: str
) -> None:
    sizes = golden_sizes(golden, "delaylevels")
    explicit = sizes["explicit"] | ({"delay_levels"} if stated else set())
    sizes = {**sizes, "explicit": explicit, "delay_levels": stated}
    settings = small_settings(golden.store("delaylevels"), **sizes)
    assert fit_to_disk(settings, None, Disk()).delay_levels == (stated or SHOWN)
