"""A setting takes what its name and type say, shows it again, and refuses the rest by its name."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.config.knob import Value, knob, knobs_of_section
from broker.config.sections import KNOBS
from broker.model.errors import IllegalConfig


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section of a test."""

    wait_ms: int = knob(500, "How long.", "waitMills", upper=1_000)
    is_on: bool = knob(False, "Whether.")


def test_a_section_is_a_row_of_knobs() -> None:
    wait, is_on = knobs_of_section("s", Section)
    assert (wait.key, wait.kind, wait.default, wait.rocketmq) == (
        "s.wait_ms",
        int,
        500,
        "waitMills",
    )
    assert (is_on.key, is_on.kind, is_on.why) == ("s.is_on", bool, "Whether.")


@pytest.mark.parametrize(
    ("key", "given", "value"),
    [
        ("store.commit_log_file_size_bytes", "128KiB", 131_072),
        ("store.commit_log_file_size_bytes", 65_536, 65_536),
        ("store.flush_interval_ms", "2s", 2_000),
        ("store.property_crc", "TRUE", True),
        ("store.property_crc", False, False),
        ("store.flush_least_pages", "8", 8),
        ("retention.age_ms", "72h", 259_200_000),
        ("retention.disk_expire_percent", "60%", 60),
        ("retention.disk_expire_percent", 60, 60),
        ("retention.hours", "16; 4", "04;16"),
        ("retention.hours", "", ""),
        ("metrics.profile", "native, native-legacy", "native,native-legacy"),
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
        ("store.commit_log_file_size_bytes", "2GiB"),
        ("store.commit_log_file_size_bytes", 6.5),
        ("store.flush", "often"),
        ("store.flush_least_pages", True),
        ("store.flush_least_pages", "four"),
        ("store.flush_least_pages", -1),
        ("store.property_crc", "maybe"),
        ("store.property_crc", 1),
        ("store.directory", 7),
        ("retention.hours", "24"),
        ("retention.hours", 4),
        ("retention.mode", "yes"),
        ("retention.disk_expire_percent", "0.75"),
        ("retention.disk_expire_percent", 96),
        ("metrics.profile", "otel"),
        ("metrics.profile", ","),
        ("logs.level", "trace"),
        ("broker.advertised_host", "localhost"),
        ("broker.advertised_port", 65_536),
        ("rpc.listen", "127.0.0.1:65536"),
        ("rpc.listen", ":80"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_setting(key: str, given: object) -> None:
    with pytest.raises(IllegalConfig, match=key):
        KNOBS[key].value_of(given)


def test_bounds_are_told_as_people_write_them() -> None:
    with pytest.raises(IllegalConfig, match="2s is outside 0 to 1s"):
        next(knobs_of_section("s", Section)).value_of("2s")


@given(st.data())
@pytest.mark.parametrize("key", [key for key, knob in KNOBS.items() if knob.kind is int])
def test_what_is_shown_of_a_number_can_be_read_again(key: str, data: st.DataObject) -> None:
    setting = KNOBS[key]
    value: Value = data.draw(st.integers(setting.lower, setting.upper))
    assert setting.value_of(setting.text_of(value)) == value
