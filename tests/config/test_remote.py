"""Settings that are changed over the network: a fixed list, checked, all or nothing."""

import logging

import pytest

from pocketmq.config.live import LiveConfig
from pocketmq.config.load import examine, load
from pocketmq.config.remote import CHANGEABLE, CHANGES_MAX, ORIGIN, remote_changes
from pocketmq.config.sections import KNOBS, Config
from pocketmq.model.errors import IllegalConfig, TooManyElements, UnsupportedFeature


def config(*assignments: str) -> Config:
    return load(assignments=assignments)


def test_changeable_settings_are_live_and_have_rocketmqs_names() -> None:
    assert all(KNOBS[key].live and KNOBS[key].rocketmq for key in CHANGEABLE)


def test_names_are_ours_or_rocketmqs() -> None:
    text = "# c\nautoCreateTopicEnable=false\nfileReservedTime = 48\nlimits.delay_max_ms=2d\n"
    day_ms = 86_400_000
    assert remote_changes(text) == {
        "broker.auto_create_topics": False, "retention.age_ms": 2 * day_ms,
        "limits.delay_max_ms": 2 * day_ms,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("storePathRootDir=/x", "store.directory over the network; use the settings file and SIG"),
        ("logs.level=debug", "logs.level over the network"),
        ("rpc.listen=0.0.0.0:1", "rpc.listen over the network"),
        ("access.check=off", "access.check over the network"),
        ("waitTimeMillsInSendQueue=5001", "one event loop serves all calls"),
        ("autoCreateTopicEnabel=true", "did you mean autoCreateTopicEnable"),
        ("rmqAddressServerDomain=$(x)", "without a name server"),
        ("preset=server", "preset over the network"),
    ],
)
def test_other_settings_are_refused_with_the_alternative(text: str, told: str) -> None:
    live = LiveConfig(Config())
    with pytest.raises(UnsupportedFeature) as refused:
        live.override(f"brokerPermission=4\n{text}\n")
    assert told in str(refused.value)
    assert live.config == Config()


@pytest.mark.parametrize(
    "text",
    [
        "", "brokerPermission", "brokerPermission=9", "autoCreateTopicEnable=perhaps",
        "diskMaxUsedSpaceRatio=80\ndiskSpaceCleanForciblyRatio=70",
    ],
)  # fmt: skip
def test_illegal_changes_change_nothing(text: str) -> None:
    live = LiveConfig(config("retention.disk_expire_percent=70"))
    before = live.config
    with pytest.raises(IllegalConfig):
        live.override(text)
    assert live.config is before


def test_too_many_changes_are_refused() -> None:
    with pytest.raises(TooManyElements):
        remote_changes("brokerPermission=4\n" * (CHANGES_MAX + 1))


def test_changes_apply_at_once_and_outlast_reloads(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pocketmq")
    sources = [(), ("broker.default_queue_count=3", "retention.hours=5")]
    live = LiveConfig(config(), lambda: examine(assignments=sources.pop()))
    taken: list[int] = []
    live.follow(lambda config: taken.append(config.broker.default_queue_count))
    live.override("defaultTopicQueueNums=7")
    assert (taken[-1], live.config.origin("broker.default_queue_count")) == (7, ORIGIN)
    live.reload()
    assert (taken[-1], live.config.retention.hours) == (7, "05")
    live.override("defaultTopicQueueNums=9")
    live.reload()
    assert (taken[-1], live.config.retention.hours) == (9, Config().retention.hours)
    told = [one for one in caplog.records if one.msg == "config.overridden"]
    assert [vars(one)["changed"] for one in told] == [
        "broker.default_queue_count = 7", "broker.default_queue_count = 9",
    ]  # fmt: skip


def test_a_change_that_contradicts_the_sources_refuses_their_reload() -> None:
    wanted = "retention.disk_force_percent=60", "retention.disk_expire_percent=50"
    live = LiveConfig(config(), lambda: examine(assignments=wanted))
    live.override("diskMaxUsedSpaceRatio=70")
    before = live.config
    live.reload()
    assert live.config is before
