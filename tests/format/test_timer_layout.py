"""Contents of a real broker's timer files, unit by unit and slot by slot."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pocketmq.format.java_hash import java_hash
from pocketmq.format.layout import Layout
from pocketmq.format.timer_layout import (
    BLANK_MAGIC,
    CHECK,
    LOG_BLANK,
    LOG_UNIT,
    LOG_UNIT_SIZE,
    LOG_UNIT_TYPE,
    MAGIC_DELETE,
    MAGIC_ROLL,
    SLOT,
    SLOT_COUNT,
    SLOT_TYPE,
    WHEEL_SIZE,
    due_times,
    encode_log_blank,
    sound_units,
    units_per_file,
)
from tests.golden_stores import GoldenStores

FILE_SIZE = 5_200


@pytest.fixture(scope="module")
def store(golden: GoldenStores, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden.copy("semantics", tmp_path_factory.mktemp("timer") / "s")


@pytest.mark.parametrize(("layout", "kind"), [(SLOT, SLOT_TYPE), (LOG_UNIT, LOG_UNIT_TYPE)])
def test_columns_lie_where_fields_do(layout: Layout, kind: Any) -> None:
    assert kind.fields is not None
    assert {name: kind.fields[name][1] for name in kind.names or ()} == layout.positions


def test_a_real_log_is_units_up_to_a_blank_and_then_up_to_zeros(store: Path) -> None:
    first, second = sorted((store / "timerlog").iterdir())
    units = sound_units(first.read_bytes(), 0)
    assert len(units) == units_per_file(FILE_SIZE) == 99
    rest = first.read_bytes()[99 * LOG_UNIT_SIZE :]
    assert rest[: LOG_BLANK.size] == encode_log_blank(52)
    assert LOG_BLANK.struct.unpack(rest[: LOG_BLANK.size])[2] == BLANK_MAGIC
    assert len(sound_units(second.read_bytes(), FILE_SIZE)) == 35


def test_real_units_say_when_and_where(store: Path) -> None:
    units = sound_units((store / "timerlog" / f"{0:020}").read_bytes(), 0)
    assert LOG_UNIT.struct.unpack(units[0].tobytes()) == (
        52, -1, 1, 1795221432000, 2000, 23383, 392, java_hash("TimerT"), 0,
    )  # fmt: skip
    assert due_times(units)[:3].tolist() == [1795221434000, 1795221436000, 1795221438000]
    assert np.flatnonzero(units["magic"] & MAGIC_ROLL).tolist()[:4] == [6, 7, 16, 17]
    assert np.flatnonzero(units["magic"] & MAGIC_DELETE).tolist() == [51]


def test_a_real_wheel_has_each_time_in_its_slot(store: Path) -> None:
    content = (store / "timerwheel").read_bytes()
    assert len(content) == WHEEL_SIZE
    slots = np.frombuffer(content, SLOT_TYPE)
    used = np.flatnonzero(slots["time"])
    assert len(used) == 41
    assert (slots["time"][used] % SLOT_COUNT == used).all()
    lone_marker = slots[1795223225 % SLOT_COUNT]
    assert (lone_marker["first"], lone_marker["last"], lone_marker["count"]) == (2652, 2652, -1)


def test_the_first_unit_that_is_damaged_ends_them(store: Path) -> None:
    content = bytearray((store / "timerlog" / f"{0:020}").read_bytes())
    for position in (0, 12, 4, 28, 36):
        damaged = bytearray(content)
        damaged[20 * LOG_UNIT_SIZE + position] ^= 0x80
        count = len(sound_units(bytes(damaged), 0))
        assert count == 20, position
    assert len(sound_units(bytes(content[:100]), 0)) == 1
    assert len(sound_units(b"", 0)) == 0


def test_a_real_check_says_how_far_its_timer_was(store: Path) -> None:
    content = (store / "config" / "timercheck").read_bytes()
    assert CHECK.struct.unpack(content[: CHECK.size]) == (
        1795221494000, 7020, 134, 134, 0, 1795221494576, 33,
    )  # fmt: skip
