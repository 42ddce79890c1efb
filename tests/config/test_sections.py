"""The settings are bounded, and the same as what the parts they are for call them."""

from dataclasses import fields

import pytest

from pocketmq.config.sections import (
    KNOBS,
    Config,
    MetricsSection,
    RetentionSection,
    StoreSection,
)
from pocketmq.config.texts import METRIC_PROFILES
from pocketmq.metrics.exposition import NATIVE, NATIVE_LEGACY, SERIES_MAX
from pocketmq.metrics.numbers import FULL, PUBLIC
from pocketmq.services.retention import MODE_AUTO, MODE_OFF, MODE_ON, RetentionSettings
from pocketmq.store.settings import StoreSettings


def test_every_setting_says_why_in_a_sentence() -> None:
    assert [knob.key for knob in KNOBS.values() if not knob.why.endswith(".")] == []


def test_there_are_few_settings() -> None:
    assert len(KNOBS) <= 104


@pytest.mark.parametrize("knob", KNOBS.values(), ids=KNOBS)
def test_a_default_is_a_value_its_setting_accepts(knob: object) -> None:
    setting = KNOBS[knob.key]  # type: ignore[attr-defined]
    assert setting.value_of(setting.text_of(setting.default)) == setting.default


def test_a_value_is_found_by_its_key() -> None:
    config = Config()
    assert {key: config.value(key) for key in KNOBS} == {k: v.default for k, v in KNOBS.items()}


def test_an_origin_is_who_set_it_else_the_preset_else_the_default() -> None:
    config = Config(preset="server", origins={"store.flush": "--set"})
    assert config.origin("store.flush") == "--set"
    assert config.origin("store.index_slot_count") == "preset server"
    assert config.origin("broker.name") == "default"


def test_the_store_is_told_what_the_operator_set_himself() -> None:
    config = Config(
        store=StoreSection(index_slot_count=500),
        origins={"store.index_slot_count": "--set", "limits.max_message_size_bytes": "--set"},
    )
    settings = config.store_settings()
    assert settings.index_slot_count == 500
    assert settings.explicit == {"index_slot_count"}


def test_every_section_with_settings_of_its_own_has_their_names() -> None:
    ours = {item.name for item in fields(StoreSection)}
    theirs = {item.name for item in fields(StoreSettings)}
    assert theirs - ours == {
        "accept_damage", "ack_timeout_ms", "broker", "cluster", "explicit", "in_sync_replicas",
        "leader", "timer_slot_count",
    }  # fmt: skip


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


def test_retention_is_set_by_any_key_of_it() -> None:
    assert not Config(origins={"store.flush": "--set"}).retention_is_set
    assert Config(origins={"retention.pause_ms": "--set"}).retention_is_set


def test_metrics_have_the_defaults_of_the_metrics() -> None:
    section = MetricsSection()
    assert (section.profile, section.max_series) == (NATIVE, SERIES_MAX)
    assert {NATIVE, NATIVE_LEGACY} == METRIC_PROFILES
    assert KNOBS["metrics.detail"].choices == (PUBLIC, FULL)
    assert set(KNOBS["retention.mode"].choices) == {MODE_AUTO, MODE_ON, MODE_OFF}


def test_the_largest_message_fits_a_file() -> None:
    config = Config()
    size = config.limits.max_message_size_bytes + (64 << 10)
    assert size < config.store.commit_log_file_size_bytes
