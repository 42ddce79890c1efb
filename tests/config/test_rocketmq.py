"""RocketMQ's names lead to our settings, or are known to lead nowhere."""

import pytest

from pocketmq.config import rocketmq
from pocketmq.config.load import load
from pocketmq.config.sections import KNOBS
from pocketmq.model.store_shape import DEFAULT_DELAY_LEVELS


def test_a_name_either_means_something_or_does_not() -> None:
    assert [name for name in rocketmq.MEANINGLESS if rocketmq.knobs_of(name)] == []


def test_every_word_to_translate_belongs_to_a_name_that_means_something() -> None:
    assert all(rocketmq.knobs_of(name) for name in rocketmq.TRANSLATIONS)


def test_what_has_no_meaning_here_says_why() -> None:
    assert all(rocketmq.MEANINGLESS.values())
    assert "the leader that it follows" in rocketmq.why_meaningless("brokerRole")
    assert rocketmq.why_meaningless("flushDiskType") == ""


def test_spellings_of_other_releases_lead_to_the_same_place() -> None:
    known = {*rocketmq.MEANINGLESS, *(knob.rocketmq for knob in KNOBS.values())}
    assert set(rocketmq.ALIASES.values()) <= known
    assert rocketmq.why_meaningless("destroyMappedFileIntervalForcibly")


@pytest.mark.parametrize(
    ("name", "text", "key", "value"),
    [
        ("mappedFileSizeCommitLog", "131072", "store.commit_log_file_size_bytes", 131_072),
        ("mapedFileSizeCommitLog", "131072", "store.commit_log_file_size_bytes", 131_072),
        ("mappedFileSizeConsumeQueue", "2000", "store.consume_queue_file_size_bytes", 2_000),
        ("maxHashSlotNum", "500", "store.index_slot_count", 500),
        ("maxIndexNum", "2000", "store.index_entry_count_max", 2_000),
        ("maxMessageSize", "32768", "limits.max_message_size_bytes", 32_768),
        ("flushDiskType", "ASYNC_FLUSH", "store.flush", "async"),
        ("flushDiskType", "SYNC_FLUSH", "store.flush", "sync"),
        ("flushDiskType", "async", "store.flush", "async"),
        ("brokerName", "b1", "broker.name", "b1"),
        ("brokerClusterName", "c1", "broker.cluster", "c1"),
        ("brokerIP1", "10.0.0.7", "broker.advertised_host", "10.0.0.7"),
        ("listenPort", "10911", "rpc.listen", "127.0.0.1:10911"),
        ("listenPort", "10911", "broker.advertised_port", 10_911),
        ("transientStorePoolEnable", "true", "store.transient_pool", True),
        ("transientStorePoolSize", "3", "store.transient_pool_file_count", 3),
        ("commitIntervalCommitLog", "50", "store.commit_interval_ms", 50),
        ("commitCommitLogLeastPages", "0", "store.commit_least_pages", 0),
        ("commitCommitLogThoroughInterval", "70", "store.commit_thorough_interval_ms", 70),
        ("warmMapedFileEnable", "true", "store.warm_files", True),
        ("enableConsumeQueueExt", "true", "store.consume_queue_extension", True),
        (
            "mappedFileSizeConsumeQueueExt", "65536",
            "store.consume_queue_extension_file_size_bytes", 65_536,
        ),
        ("fileReservedTime", "48", "retention.age_ms", 172_800_000),
        ("fileReservedTime", "90m", "retention.age_ms", 5_400_000),
        ("deleteWhen", "04;16", "retention.hours", "04;16"),
        ("diskMaxUsedSpaceRatio", "60", "retention.disk_expire_percent", 60),
        ("diskSpaceCleanForciblyRatio", "0.85", "retention.disk_force_percent", 85),
        ("diskSpaceCleanForciblyRatio", "80", "retention.disk_force_percent", 80),
        ("diskSpaceWarningLevelRatio", "0.88", "retention.disk_refuse_percent", 88),
        ("deleteFileBatchMax", "3", "retention.file_batch_max", 3),
        ("cleanResourceInterval", "1000", "retention.interval_ms", 1_000),
        ("deleteCommitLogFilesInterval", "0", "retention.pause_ms", 0),
        ("metricsOtelCardinalityLimit", "99", "metrics.max_series", 99),
    ],
)  # fmt: skip
def test_a_name_is_a_setting_in_our_units(name: str, text: str, key: str, value: object) -> None:
    pool = ["store.flush=async"] if key == "store.transient_pool" else []
    config = load(assignments=[*pool, f"{name}={text}"])
    assert config.value(key) == value
    known = {knob.key for knob in rocketmq.knobs_of(name)}
    assert config.origins.keys() == known | ({"store.flush"} if pool else set())


@pytest.mark.parametrize(
    ("name", "text", "percent"),
    [
        ("diskMaxUsedSpaceRatio", "5", 10),
        ("diskSpaceCleanForciblyRatio", "0.95", 85),
        ("diskSpaceWarningLevelRatio", "99", 90),
    ],
)
def test_a_share_out_of_bounds_is_held_in_them_and_told(name: str, text: str, percent: int) -> None:
    value, note = rocketmq.translated(name, text)
    assert value == percent
    assert note == f"{name} = {text} is changed to {percent}, as RocketMQ does"
    assert note in load(assignments=[f"{name}={text}"]).warnings


@pytest.mark.parametrize("text", ["", "much", "1e400.", "nan.", "0,85"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"85 or 0\.85"):
        rocketmq.translated("diskMaxUsedSpaceRatio", text)


@pytest.mark.parametrize(
    "given",
    [
        (),
        ("store.flush=async", "retention.age_ms=5h", "limits.delay_max_ms=3d"),
        ("store.delay_levels=1s 1m", "limits.max_message_size_bytes=1MiB", "broker.name=b"),
        ("retention.disk_expire_percent=75", "broker.auto_create_topics=false"),
    ],
)
def test_what_is_written_for_tools_is_read_as_the_same_settings(given: tuple[str, ...]) -> None:
    config = load(assignments=[*given, "retention.disk_force_percent=85"])
    rows = dict(rocketmq.rocketmq_rows(config.value))
    assert {"1s 1m", DEFAULT_DELAY_LEVELS} & {rows["messageDelayLevel"]}
    full = {"diskMaxUsedSpaceRatio", "diskSpaceWarningLevelRatio"}  # 100 is never, only here
    again = load(assignments=[f"{n}={text}" for n, text in rows.items() if n not in full])
    for name in rows.keys() - full - {"messageDelayLevel"}:
        for knob in rocketmq.knobs_of(name):
            assert again.value(knob.key) == config.value(knob.key), name


def test_a_part_of_an_hour_is_a_whole_one_for_tools() -> None:
    config = load(assignments=["retention.age_ms=90m"])
    assert dict(rocketmq.rocketmq_rows(config.value))["fileReservedTime"] == "2"
