"""The settings are bounded, and the same as what the parts they are for call them."""

from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

from broker.config.sections import KNOBS, SECTIONS, Config, StoreSection
from broker.store.settings import StoreSettings


def test_a_section_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Config().store.flush = "async"  # type: ignore[misc]


def test_every_section_is_one_of_the_configuration() -> None:
    config = Config()
    assert {name: type(getattr(config, name)) for name in SECTIONS} == SECTIONS


def test_every_setting_says_why_in_a_sentence() -> None:
    assert [knob.key for knob in KNOBS.values() if not knob.why.endswith(".")] == []


def test_there_are_few_settings() -> None:
    assert len(KNOBS) <= 60


@pytest.mark.parametrize("knob", KNOBS.values(), ids=KNOBS)
def test_a_default_is_a_value_its_setting_accepts(knob: object) -> None:
    setting = KNOBS[knob.key]  # type: ignore[attr-defined]
    assert setting.value_of(setting.default) == setting.default


def test_a_value_is_found_by_its_key() -> None:
    config = Config()
    assert {key: config.value(key) for key in KNOBS} == {k: v.default for k, v in KNOBS.items()}


def test_an_origin_is_who_set_it_else_the_preset_else_the_default() -> None:
    config = Config(preset="server", origins={"store.flush": "--set"})
    assert config.origin("store.flush") == "--set"
    assert config.origin("store.index_slot_count") == "preset server"
    assert config.origin("broker.name") == "default"


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


def test_what_a_preset_says_gives_way_to_a_store_that_exists() -> None:
    assert Config(preset="server").store_settings().explicit == frozenset()


def test_every_section_with_settings_of_its_own_has_their_names() -> None:
    ours = {item.name for item in fields(StoreSection)}
    theirs = {item.name for item in fields(StoreSettings)}
    assert theirs - ours == {
        "accept_damage", "broker", "cluster", "explicit", "max_message_size_bytes",
    }  # fmt: skip
