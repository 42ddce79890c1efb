"""The settings are typed, bounded, and the same as what the store and RocketMQ call them."""

from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

from broker.config.sections import KNOBS, Config, StoreSection, address_from_text
from broker.model.errors import IllegalConfig
from broker.store.settings import StoreSettings


def test_a_section_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Config().store.flush = "async"  # type: ignore[misc]


def test_every_setting_says_why_in_a_sentence() -> None:
    assert [knob.key for knob in KNOBS.values() if not knob.why.endswith(".")] == []


def test_there_are_few_settings() -> None:
    assert len(KNOBS) <= 60


@pytest.mark.parametrize("knob", KNOBS.values(), ids=KNOBS)
def test_a_default_is_a_value_its_setting_accepts(knob: object) -> None:
    setting = KNOBS[knob.key]  # type: ignore[attr-defined]
    assert setting.value_of(setting.default) == setting.default


def test_the_store_section_has_the_defaults_of_the_store() -> None:
    section = StoreSection()
    ours = {item.name: getattr(section, item.name) for item in fields(section)}
    theirs = {item.name: item.default for item in fields(StoreSettings)}
    names = ours.keys() - {"directory"}
    assert {name: ours[name] for name in names} == {name: theirs[name] for name in names}


def test_the_store_is_told_every_setting_of_its_section() -> None:
    settings = Config().store_settings()
    assert settings == StoreSettings(directory=Path("store"))


def test_the_store_is_told_what_the_operator_set_himself() -> None:
    config = Config(
        store=StoreSection(index_slot_count=500),
        origins={"store.index_slot_count": "--set", "limits.max_message_size_bytes": "--set"},
    )
    settings = config.store_settings()
    assert settings.index_slot_count == 500
    assert settings.explicit == {"index_slot_count"}


@pytest.mark.parametrize(
    ("key", "given", "value"),
    [
        ("store.commit_log_file_size_bytes", "128KiB", 131_072),
        ("store.commit_log_file_size_bytes", 65_536, 65_536),
        ("store.flush_interval_ms", "2s", 2_000),
        ("store.property_crc", "TRUE", True),
        ("store.property_crc", False, False),
        ("store.flush_least_pages", "8", 8),
        ("rpc.listen", "9000", "127.0.0.1:9000"),
        ("rpc.listen", "[::1]:0", "[::1]:0"),
        ("broker.advertised_host", "::1", "::1"),
        ("broker.advertised_host", "", ""),
    ],
)
def test_a_value_is_read_as_its_name_and_type_say(key: str, given: object, value: object) -> None:
    read = KNOBS[key].value_of(given)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ("store.commit_log_file_size_bytes", "4095"),
        ("store.commit_log_file_size_bytes", 6.5),
        ("store.flush", "often"),
        ("store.flush_least_pages", True),
        ("store.flush_least_pages", "four"),
        ("store.flush_least_pages", -1),
        ("store.property_crc", "maybe"),
        ("store.property_crc", 1),
        ("store.directory", 7),
        ("broker.advertised_host", "localhost"),
        ("broker.advertised_port", 65_536),
        ("rpc.listen", "127.0.0.1:65536"),
        ("rpc.listen", ":80"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_setting(key: str, given: object) -> None:
    with pytest.raises(IllegalConfig, match=key):
        KNOBS[key].value_of(given)


def test_an_address_needs_a_port() -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        address_from_text("localhost:http")
