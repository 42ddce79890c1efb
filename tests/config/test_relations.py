"""Settings that do not go together are refused, or doubted, by the names of all of them."""

import pytest

from pocketmq.config.load import examine, load
from pocketmq.config.relations import NEEDED
from pocketmq.config.sections import KNOBS


def refused(*assignments: str) -> str:
    """Returns the one relation that these settings break."""
    (problem,) = examine(assignments=assignments).problems
    return str(problem)


def doubted(*assignments: str) -> tuple[str, ...]:
    return load(assignments=assignments).warnings


@pytest.mark.parametrize(
    ("assignments", "keys"),
    [
        (["store.transient_pool=true"], ["store.transient_pool", "store.flush"]),
        (
            ["retention.disk_expire_percent=81", "retention.disk_force_percent=80"],
            ["retention.disk_expire_percent", "retention.disk_force_percent"],
        ),
        (
            ["retention.disk_force_percent=81", "retention.disk_refuse_percent=80"],
            ["retention.disk_force_percent", "retention.disk_refuse_percent"],
        ),
        (
            ["maxIndexNum=107374182"],
            ["store.index_slot_count", "store.index_entry_count_max"],
        ),
        (["rpc.listen=127.0.0.1:5557"], ["rpc.listen", "http.listen"]),
        (["rpc.listen=0.0.0.0:5557"], ["rpc.listen", "http.listen"]),
        (["rpc.tls_cert=/c.pem"], ["rpc.tls_cert", "rpc.tls_key"]),
        (["rpc.tls_only=true", "rpc.tls=false"], ["rpc.tls_only", "rpc.tls"]),
        (
            ["rpc.proxy_protocol=true", "rpc.transport=grpcio"],
            ["rpc.proxy_protocol", "rpc.transport"],
        ),
        (["http.listen=", "rpc.transport=grpcio"], ["http.listen", "rpc.transport"]),
    ],
)
def test_what_is_broken_names_both_keys(assignments: list[str], keys: list[str]) -> None:
    text = refused(*assignments)
    assert f"{keys[0]} = " in text
    assert f"{keys[1]} = " in text


def test_a_relation_says_who_set_what() -> None:
    assert refused("transientStorePoolEnable=true") == (
        "setting store.transient_pool: store.transient_pool = true (--set) and store.flush = sync "
        "(default) do not go together: messages in the pool are not on disk, so it needs "
        "store.flush = async"
    )


@pytest.mark.parametrize(
    "assignments",
    [
        ["store.transient_pool=true", "store.flush=async"],
        ["retention.disk_expire_percent=85"],
        ["retention.disk_force_percent=80", "retention.disk_refuse_percent=80"],
        ["rpc.listen=127.0.0.1:0", "http.listen=127.0.0.1:0"],
        ["rpc.listen=127.0.0.2:5557"],
        ["maxHashSlotNum=5000000", "maxIndexNum=20000000"],
    ],
)  # fmt: skip
def test_what_goes_together_is_neither_refused_nor_doubted(assignments: list[str]) -> None:
    if "retention.disk_force_percent=80" in assignments:
        assignments = [*assignments, "retention.disk_expire_percent=80"]
    assert doubted(*assignments) == ()


def test_an_age_below_its_floor_is_refused_unless_forced() -> None:
    text = refused("retention.age_ms=59m")
    assert "retention.age_ms: 59m (--set) is below the floor of 1h" in text
    assert "--force" in text
    for sound in ("1h", "0"):
        assert examine(assignments=[f"retention.age_ms={sound}"]).problems == []
    assert load(assignments=["retention.age_ms=72ms"], force=True).retention.age_ms == 72


@pytest.mark.parametrize("key", NEEDED)
def test_a_setting_that_does_not_count_is_doubted(key: str) -> None:
    needed, _ = NEEDED[key]
    default = KNOBS[key].default
    assert isinstance(default, int)
    others = ["store.flush=async"] if key == "store.sync_flush_timeout_ms" else []
    unit = "ms" if KNOBS[key].is_duration else ""
    (warning,) = doubted(*others, f"{key}={default + 1}{unit}")
    assert warning.startswith(f"{key} has no effect without {needed} = ")
    assert doubted(*others, f"{key}={default}{unit}") == ()


def test_a_certificate_that_nobody_sees_is_doubted() -> None:
    given = ("rpc.tls_cert=/c.pem", "rpc.tls_key=/k.pem")
    assert doubted(*given) == ()
    (warning,) = doubted(*given, "rpc.tls=false")
    assert "rpc.tls_cert" in warning


POOL = ["store.transient_pool=true", "store.flush=async", "mappedFileSizeCommitLog=1GiB"]
FILE = "store.commit_log_file_size_bytes = "


@pytest.mark.parametrize(
    ("given", "texts", "sound"),
    [
        (
            ["mappedFileSizeCommitLog=65536", "maxMessageSize=16384"],
            ["limits.max_message_size_bytes = 16KiB", f"{FILE}64KiB"],
            ["mappedFileSizeCommitLog=131072", "maxMessageSize=16384"],
        ),
        (
            ["retention.size_bytes=1MiB"],
            ["retention.size_bytes = 1MiB", f"{FILE}64MiB"],
            ["retention.size_bytes=64MiB"],
        ),
        (
            ["retention.mode=off", "fileReservedTime=48"],
            ["retention.mode = off", "retention.age_ms"],
            ["retention.mode=off"],
        ),
        (
            POOL,
            ["locks 5GiB of memory", "store.transient_pool_file_count = 5", f"{FILE}1GiB"],
            [*POOL, "store.transient_pool_file_count=1"],
        ),
    ],
)
def test_what_is_probably_not_meant_is_doubted(
    given: list[str], texts: list[str], sound: list[str]
) -> None:
    (warning,) = doubted(*given)
    assert [text for text in texts if text not in warning] == []
    assert doubted(*sound) == ()
