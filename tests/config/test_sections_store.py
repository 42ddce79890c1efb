"""The store's settings and those of retention are what the store and retention call them."""

from dataclasses import fields

from broker.config.sections import (
    EXTENSION_FILE_SIZE_MIN,
    MODES,
    Config,
    RetentionSection,
    StoreSection,
)
from broker.format.extension_unit import END_SIZE, UNIT_SIZE_MIN
from broker.services.retention import MODE_AUTO, MODE_OFF, MODE_ON, RetentionSettings
from broker.store.settings import StoreSettings


def test_the_store_section_has_the_defaults_of_the_store() -> None:
    section = StoreSection()
    ours = {item.name: getattr(section, item.name) for item in fields(section)}
    theirs = {item.name: item.default for item in fields(StoreSettings)}
    names = ours.keys() - {"directory"}
    assert {name: ours[name] for name in names} == {name: theirs[name] for name in names}


def test_retention_is_told_every_setting_of_its_section() -> None:
    assert Config().retention_settings() == RetentionSettings()
    changed = RetentionSection(mode="on", hours="", age_ms=1, size_bytes=2)
    settings = Config(retention=changed).retention_settings()
    assert settings == RetentionSettings(mode="on", hours="", age_ms=1, size_bytes=2)


def test_the_modes_are_those_of_retention() -> None:
    assert {MODE_AUTO, MODE_ON, MODE_OFF} == set(MODES)


def test_retention_is_set_by_any_key_of_it() -> None:
    assert not Config(origins={"store.flush": "--set"}).retention_is_set
    assert Config(origins={"retention.pause_ms": "--set"}).retention_is_set


def test_an_extension_file_holds_a_unit() -> None:
    assert EXTENSION_FILE_SIZE_MIN == UNIT_SIZE_MIN + END_SIZE
