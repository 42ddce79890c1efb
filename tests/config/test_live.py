"""Reading settings again takes over what is live, all or nothing, and tells what is not."""

import logging
from pathlib import Path

import pytest

from pocketmq.config.live import LiveConfig, change
from pocketmq.config.load import Loaded, examine, load
from pocketmq.config.sections import KNOBS, Config
from pocketmq.model.errors import IllegalConfig


def config(*assignments: str) -> Config:
    """Returns settings as an operator gives them."""
    return load(assignments=assignments)


def test_live_keys_are_taken_over_and_others_wait() -> None:
    running = config("store.flush=sync", "logs.level=info")
    wanted = config("store.flush=async", "logs.level=debug", "retention.age_ms=48h")
    found = change(running, wanted)
    assert (found.config.store.flush, found.config.logs.level) == ("sync", "debug")
    assert found.config.retention.age_ms == 48 * 3_600_000
    assert found.changed == ["retention.age_ms = 2d", "logs.level = debug"]
    assert found.waiting == ["store.flush = async"]


def test_who_set_a_key_follows_its_value() -> None:
    running = config("store.flush=sync", "logs.level=info")
    found = change(running, config("retention.hours=5"))
    assert found.config.origins == {"store.flush": "--set", "retention.hours": "--set"}
    assert found.config.retention_is_set
    assert found.config.logs == Config().logs


def test_nothing_of_the_store_is_live() -> None:
    """A store is opened once; its settings are what its parts were made with."""
    live = {key for key, knob in KNOBS.items() if knob.live}
    assert {key.partition(".")[0] for key in live} == {
        "access", "broker", "limits", "logs", "retention", "rpc", "transactions",
    }  # fmt: skip


@pytest.mark.parametrize("key", sorted(key for key, knob in KNOBS.items() if knob.live))
def test_each_live_key_is_taken_over(key: str) -> None:
    knob = KNOBS[key]
    other = {
        "retention.mode": "off", "retention.archive_hold": "true",
        "retention.hours": "5", "retention.disk_expire_percent": "70",
        "retention.disk_force_percent": "80", "retention.disk_refuse_percent": "88",
        "broker.permission": "4", "broker.auto_create_topics": "false",
        "broker.auto_create_groups": "false", "broker.default_topic_type": "mixed",
        "broker.check_message_types": "false", "transactions.refuse": "true", "logs.level": "error",
    }.get(key, "77h" if key.endswith("_ms") else "77")  # fmt: skip
    other = "77" if key == "broker.accept_from_ms" else other
    found = change(Config(), config(f"{key}={other}"))
    value = knob.value_of(other)
    assert (found.changed, found.waiting) == ([f"{key} = {knob.text_of(value)}"], [])
    assert found.config.value(key) == value


def test_live_keys_that_contradict_what_stays_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = IllegalConfig(field="retention.age_ms", why="of a test")
    monkeypatch.setattr("pocketmq.config.live.broken", lambda config: [wrong])
    with pytest.raises(IllegalConfig, match="restart to apply both"):
        change(Config(), config("retention.age_ms=1h"))


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.message, record.levelname) for record in caplog.records]


def test_parts_are_given_settings_at_first_and_after_each_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('[logs]\nlevel = "info"\n')
    live = LiveConfig(load(file=file), lambda: examine(file=file))
    levels: list[str] = []
    live.follow(lambda config: levels.append(config.logs.level))
    file.write_text('[logs]\nlevel = "debug"\n[store]\nflush_interval_ms = "2s"\n')
    with caplog.at_level(logging.INFO):
        live.reload()
    assert levels == ["info", "debug"]
    doubted, reloaded = caplog.records
    assert doubted.message == "config.suspect"
    assert vars(reloaded)["changed"] == "logs.level = debug"
    assert vars(reloaded)["needs_restart"] == "store.flush_interval_ms = 2s"
    caplog.clear()
    with caplog.at_level(logging.INFO):
        live.reload()
    assert told(caplog) == [("config.reloaded", "INFO")]  # what was doubted is not told again


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'[logs]\nlevel = "debug"\n[store]\nflsh = "sync"\n', "did you mean store.flush?"),
        (b'[logs]\nlevel = "debug"\n[retention]\nhours = "99"\n', "retention.hours"),
        (b'[logs]\nlevel = "debug"\n[', "broker.toml"),
        (b"\xff", "broker.toml"),
        (b"x = " + b"[" * 5_000, "broker.toml"),
        (None, "No such file"),
    ],
    ids=["unknown", "bad value", "no TOML", "no UTF-8", "too deep", "gone"],
)
def test_what_is_wrong_changes_nothing_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: bytes | None, reason: str
) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('[logs]\nlevel = "info"\n')
    before = load(file=file)
    live = LiveConfig(before, lambda: examine(file=file))
    levels: list[str] = []
    live.follow(lambda config: levels.append(config.logs.level))
    file.unlink()
    if text is not None:
        file.write_bytes(text)
    with caplog.at_level(logging.INFO):
        live.reload()
    assert live.config is before
    assert levels == ["info"]
    assert told(caplog) == [("config.refused", "ERROR")]
    assert reason in vars(caplog.records[0])["reason"]


@pytest.mark.parametrize("is_of_file", [True, False])
def test_a_refused_reload_counts_the_other_problems(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_of_file: bool
) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('[store]\nflsh = "sync"\n[retention]\nhours = "99"\n[logs]\nlevel = "x"\n')
    wrong = examine(file=file)
    live = LiveConfig(Config(), lambda: wrong if is_of_file else wrong._replace(file=None))
    live.reload()
    (record,) = caplog.records
    others = f"and 2 more: pocketmq config check {file}" if is_of_file else "and 2 more"
    assert vars(record)["reason"] == f"{wrong.problems[0]}; {others}"


def test_the_metric_tells_whether_the_last_reload_was_refused() -> None:
    results = [
        Loaded(config(), []), Loaded(config(), [IllegalConfig(field="f", why="w")]),
        Loaded(config("logs.level=debug"), []),
    ]  # fmt: skip
    live = LiveConfig(config(), lambda: results.pop(0))
    (gauge,) = live.stats
    shown = [gauge.read()]
    for _ in range(3):
        live.reload()
        shown.append(gauge.read())
    assert shown == [0.0, 0.0, 1.0, 0.0]
