"""Texts are read to one form of each value, or refused with the reason."""

import pytest

from broker.config.texts import (
    METRIC_PROFILES,
    address_from_text,
    bool_from_text,
    delay_levels_from_text,
    hours_from_text,
    int_from_text,
    ip_from_text,
    name_from_text,
    percent_from_text,
    profiles_from_text,
    zone_from_text,
)
from broker.metrics.profiles import NATIVE, NATIVE_LEGACY


def test_an_address_needs_a_port() -> None:
    assert address_from_text("0.0.0.0:08") == "0.0.0.0:8"
    with pytest.raises(ValueError, match="HOST:PORT"):
        address_from_text("localhost:http")


def test_an_ip_address_is_one_or_empty() -> None:
    assert ip_from_text("10.0.0.7") == "10.0.0.7"
    assert ip_from_text("") == ""
    with pytest.raises(ValueError, match="localhost"):
        ip_from_text("localhost")


def test_a_name_can_be_kept_with_a_message() -> None:
    assert name_from_text("b\u00f6rse 7") == "b\u00f6rse 7"
    for text in ("", "a\x02b", "a\nb"):
        with pytest.raises(ValueError, match="no name"):
            name_from_text(text)


def test_a_zone_is_one_there_is_or_empty() -> None:
    assert [zone_from_text(text) for text in ("Europe/Berlin", "")] == ["Europe/Berlin", ""]
    with pytest.raises(ValueError, match="no time zone"):
        zone_from_text("Nowhere/X")


def test_delay_levels_are_a_list_or_empty() -> None:
    assert [delay_levels_from_text(text) for text in ("1s 2m", "")] == ["1s 2m", ""]
    with pytest.raises(ValueError, match="'2q'"):
        delay_levels_from_text("1s 2q")


@pytest.mark.parametrize(
    ("text", "hours"),
    [("04", "04"), ("4", "04"), ("16;4;04", "04;16"), (" 4 ; 16 ", "04;16"), ("", ""), (";", "")],
)
def test_hours_are_a_list_in_order(text: str, hours: str) -> None:
    assert hours_from_text(text) == hours


@pytest.mark.parametrize("text", ["24", "-1", "4,16", "04:30", "٣", "four"])
def test_what_are_no_hours_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="0 to 23"):
        hours_from_text(text)


def test_the_metric_profiles_are_those_of_the_metrics() -> None:
    assert {NATIVE, NATIVE_LEGACY} == METRIC_PROFILES
    assert profiles_from_text(" native ,native-legacy,") == "native,native-legacy"
    for text in ("", ",", "exporter", "native,studio"):
        with pytest.raises(ValueError, match="no list of native, native-legacy"):
            profiles_from_text(text)


def test_true_and_false_have_several_words() -> None:
    assert [bool_from_text(word) for word in ("true", "On", " yes ", "1")] == [True] * 4
    assert [bool_from_text(word) for word in ("false", "OFF", "no", "0")] == [False] * 4
    with pytest.raises(ValueError, match="true or false"):
        bool_from_text("maybe")


def test_a_number_is_whole() -> None:
    assert int_from_text("-7") == -7
    with pytest.raises(ValueError, match="not a number"):
        int_from_text("7.0")


def test_a_percentage_may_show_its_sign() -> None:
    assert percent_from_text("85 %") == percent_from_text("85") == 85
    with pytest.raises(ValueError, match="not a number"):
        percent_from_text("%")
