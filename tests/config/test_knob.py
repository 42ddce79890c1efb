"""A setting takes the values its name and type allow, prints them back, and refuses others."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.config.knob import Value, knob, knobs_of_section
from pocketmq.config.sections import KNOBS
from pocketmq.model.errors import IllegalConfig


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
        ("store.commit_log_file_size_bytes", "1 GiB", 1024**3),
        ("retention.size_bytes", "7B", 7),
        *(
            ("store.flush_interval_ms", text, time_ms)
            for text, time_ms in (
                ("2s", 2_000),
                ("500ms", 500),
                ("2m", 120_000),
                ("1d", 86_400_000),
            )
        ),
        ("store.property_crc", "TRUE", True),
        ("store.property_crc", False, False),
        ("store.flush_least_pages", "8", 8),
        ("retention.age_ms", "72h", 259_200_000),
        ("retention.disk_expire_percent", "60%", 60),
        ("retention.disk_expire_percent", 60, 60),
        ("retention.hours", "16; 4", "04;16"),
        ("retention.hours", "", ""),
        ("retention.age_ms", 0, 0),
        ("retention.age_ms", "0", 0),
        ("broker.accept_from_ms", "1795228200000", 1_795_228_200_000),
        ("broker.accept_from_ms", 1_795_228_200_000, 1_795_228_200_000),
        ("metrics.profile", "native, native-legacy", "native,native-legacy"),
        ("rpc.listen", "9000", "127.0.0.1:9000"),
        ("rpc.listen", "[::1]:0", "[::1]:0"),
        ("rpc.listen", "0.0.0.0:08", "0.0.0.0:8"),
        ("broker.advertised_host", "::1", "::1"),
        ("broker.advertised_host", "", ""),
        ("broker.name", "b\u00f6rse 7", "b\u00f6rse 7"),
        ("store.time_zone", "Europe/Berlin", "Europe/Berlin"),
        ("store.time_zone", "", ""),
        ("store.delay_levels", "1s 2m", "1s 2m"),
        ("store.delay_levels", "", ""),
        *(("retention.hours", text, "04") for text in ("04", "4", " 4 ;")),
        *(("retention.hours", text, "04;16") for text in ("16;4;04", " 4 ; 16 ")),
        ("retention.hours", ";", ""),
        ("retention.disk_expire_percent", "85 %", 85),
        ("metrics.profile", "native-legacy,", "native-legacy"),
        *(("store.property_crc", text, True) for text in ("true", "On", " yes ", "1")),
        *(("store.property_crc", text, False) for text in ("false", "OFF", "no", "0")),
    ],
)
def test_a_value_is_read_as_its_name_and_type_say(key: str, given: object, value: object) -> None:
    read = KNOBS[key].value_of(given)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("key", "given", "why"),
    [
        ("store.commit_log_file_size_bytes", "4095", "outside 4KiB to"),
        ("store.commit_log_file_size_bytes", "2GiB", "outside"),
        ("store.commit_log_file_size_bytes", 6.5, "not a number"),
        *(
            ("retention.size_bytes", text, "is not a number with one of the units B, KiB")
            for text in ("", "MiB", "1.5MiB", "64MB", "64mib", "1e3", "٣", "1 h")
        ),
        ("retention.age_ms", 72, "72 has no unit; write one of 72ms, 72s, 72m, 72h, 72d"),
        ("retention.age_ms", " 72", "72 has no unit"),
        ("store.flush", "often", "not one of sync, async"),
        ("store.flush_least_pages", True, "not a number"),
        ("store.flush_least_pages", "four", "not a number"),
        ("store.flush_least_pages", "7.0", "not a number"),
        ("store.flush_least_pages", -1, "outside 0 to"),
        ("store.property_crc", "maybe", "not true or false"),
        ("store.property_crc", 1, "not true or false"),
        ("store.directory", 7, "not a text"),
        *(
            ("store.time_zone", text, "not a time zone")
            for text in ("Nowhere/X", "Europe", "x" * 300)
        ),
        ("store.delay_levels", "1s 2q", "'2q'"),
        *(
            ("retention.hours", text, "0 to 23")
            for text in ("24", "-1", "4,16", "04:30", "٣", "four")
        ),
        ("retention.hours", 4, "not a text"),
        ("retention.mode", "yes", "not one of"),
        ("retention.disk_expire_percent", "0.75", "not a number"),
        ("retention.disk_expire_percent", "%", "not a number"),
        ("retention.disk_expire_percent", 101, "outside 10 to 100"),
        *(
            ("metrics.profile", text, "not a list of native, native-legacy")
            for text in ("", ",", "otel", "native,studio")
        ),
        ("logs.level", "trace", "not one of"),
        ("broker.advertised_host", "localhost", "localhost"),
        ("broker.advertised_port", 65_536, "outside 0 to 65535"),
        *(("broker.name", text, "not a name") for text in ("", "a\x02b", "a\nb")),
        *(("rpc.listen", text, "not HOST:PORT") for text in (":80", "localhost:http")),
        ("rpc.listen", "127.0.0.1:65536", "the port is not in the range 0 to 65535"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_setting(
    key: str, given: object, why: str
) -> None:
    with pytest.raises(IllegalConfig, match=key) as caught:
        KNOBS[key].value_of(given)
    assert why in caught.value.why


def test_bounds_are_told_as_people_write_them() -> None:
    with pytest.raises(IllegalConfig, match="2s is outside 0 to 1s"):
        next(knobs_of_section("s", Section)).value_of("2s")


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        *(
            ("retention.size_bytes", value, text)
            for value, text in (
                (64 << 20, "64MiB"),
                (6_000_000, "6000000"),
                (0, "0"),
                (1025, "1025"),
            )
        ),
        *(
            ("retention.age_ms", value, text)
            for value, text in ((500, "500ms"), (10_000, "10s"), (7_200_000, "2h"), (0, "0"))
        ),
    ],
)
def test_a_number_is_shown_in_the_largest_unit_that_fits(key: str, value: int, text: str) -> None:
    assert KNOBS[key].text_of(value) == text


@given(st.data())
@pytest.mark.parametrize("key", [key for key, knob in KNOBS.items() if knob.kind is int])
def test_what_is_shown_of_a_number_can_be_read_again(key: str, data: st.DataObject) -> None:
    setting = KNOBS[key]
    value: Value = data.draw(st.integers(setting.lower, setting.upper))
    assert setting.value_of(setting.text_of(value)) == value
