"""conf/broker.toml is what the settings say, and loading it changes nothing."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.config.document import sample_file, settings_text, toml_value
from pocketmq.config.knob import Value
from pocketmq.config.load import load
from pocketmq.config.sections import KNOBS, PRESETS, SECTIONS

FILE = Path(__file__).resolve().parents[2] / "conf" / "broker.toml"


def uncommented(text: str) -> str:
    """Returns a sample file with every key set to what it shows."""
    lines = [line.removeprefix("#") if " = " in line[1:48] else line for line in text.split("\n")]
    return "\n".join(line for line in lines if not line.startswith(" "))


def test_the_file_is_current() -> None:
    assert FILE.read_text("utf-8") == sample_file(), "pocketmq config init > conf/broker.toml"


def test_as_it_is_the_file_sets_nothing() -> None:
    config = load(file=FILE)
    assert config.origins == {}
    assert config.preset_origin == "default"


@pytest.mark.parametrize("preset", PRESETS)
def test_with_every_key_uncommented_it_sets_the_defaults(tmp_path: Path, preset: str) -> None:
    file = tmp_path / "all.toml"
    file.write_text(uncommented(sample_file(preset)))
    config = load(file=file)
    assert config.origins.keys() == KNOBS.keys()
    assert config.preset == preset
    wanted = load(preset=preset)
    for name in SECTIONS:
        assert getattr(config, name) == getattr(wanted, name)


def test_a_file_for_a_preset_sets_the_preset_only(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text(sample_file("server"))
    config = load(file=file)
    assert (config.preset, config.origins) == ("server", {})
    assert '#commit_log_file_size_bytes = "1GiB"' in file.read_text()


def test_settings_stand_in_their_sections_with_their_remarks() -> None:
    values: dict[str, Value] = {
        "store.flush": "async",
        "logs.level": "debug",
        "store.flush_interval_ms": 2_000,
    }
    assert settings_text(values, {"store.flush": "because"}) == (
        '[store]\nflush = "async"  # because\nflush_interval_ms = "2s"\n\n[logs]\nlevel = "debug"\n'
    )


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("store.commit_log_file_size_bytes", 1024**3, '"1GiB"'),
        ("store.consume_queue_file_size_bytes", 6_000_000, "6000000"),
        ("store.property_crc", True, "true"),
        ("retention.size_bytes", 0, "0"),
        ("retention.hours", "", '""'),
        ("retention.disk_force_percent", 80, "80"),
    ],
)
def test_a_value_stands_as_people_write_it(key: str, value: str | int, text: str) -> None:
    assert toml_value(KNOBS[key], value) == text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_can_be_read_back(text: str) -> None:
    line = f"name = {toml_value(KNOBS['broker.name'], text)}"
    assert tomllib.loads(line) == {"name": text}
