"""Presets are sets of defaults: any key may be set over them."""

from pathlib import Path

import pytest

from broker.config.load import load
from broker.config.sections import KNOBS, PRESETS

MIB = 1024 * 1024


def test_every_preset_sets_known_keys_to_values_they_accept() -> None:
    for values in PRESETS.values():
        assert all(KNOBS[key].value_of(value) == value for key, value in values.items())


@pytest.mark.parametrize(
    ("preset", "file_size", "slots", "entries", "flush"),
    [
        ("dev", 64 * MIB, 200_000, 1_000_000, "async"),
        ("edge", 64 * MIB, 200_000, 1_000_000, "sync"),
        ("server", 1024 * MIB, 5_000_000, 20_000_000, "async"),
    ],
)
def test_each_is_for_a_kind_of_machine(
    preset: str, file_size: int, slots: int, entries: int, flush: str
) -> None:
    store = load(preset=preset).store
    assert store.commit_log_file_size_bytes == file_size
    assert (store.index_slot_count, store.index_entry_count_max) == (slots, entries)
    assert store.flush == flush


def test_without_one_it_is_edge() -> None:
    config = load()
    assert (config.preset, config.preset_origin) == ("edge", "default")
    assert config.store == load(preset="edge").store


def test_a_key_goes_over_a_preset_of_a_later_source(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('[store]\nflush = "sync"\n')
    config = load(file=file, preset="server")
    assert config.store.flush == "sync"
    assert config.store.commit_log_file_size_bytes == 1024 * MIB


def test_the_later_source_chooses(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('preset = "server"\n')
    variable = {"POCKETMQ_PRESET": "dev"}
    assert load(file=file).preset_origin == f"{file}:1"
    assert load(file=file, environment=variable).preset == "dev"
    assert load(file=file, environment=variable, preset="edge").preset == "edge"
    assert load(preset="edge", assignments=["preset=server"]).preset == "server"
