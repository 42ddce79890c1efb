"""Names with a unit, names without, and which of them are shown."""

import pytest

from broker.metrics.profiles import LEGACY_NAMES, NATIVE, NATIVE_LEGACY, names_shown


def test_names_lose_their_unit_in_the_legacy_profile() -> None:
    name = "rocketmq_rpc_latency_milliseconds"
    assert names_shown(name, [NATIVE]) == (name,)
    assert names_shown(name, [NATIVE_LEGACY]) == ("rocketmq_rpc_latency",)
    assert names_shown(name, [NATIVE, NATIVE_LEGACY]) == (name, "rocketmq_rpc_latency")


@pytest.mark.parametrize("name", ["rocketmq_message_size", "pocketmq_disk_free_bytes"])
def test_names_without_an_old_form_stay(name: str) -> None:
    for profiles in ([NATIVE], [NATIVE_LEGACY], [NATIVE, NATIVE_LEGACY]):
        assert names_shown(name, profiles) == (name,)


def test_no_old_name_is_a_new_one() -> None:
    assert not set(LEGACY_NAMES.values()) & LEGACY_NAMES.keys()
    assert "rocketmq_storage_flush_behind_bytes" not in LEGACY_NAMES
