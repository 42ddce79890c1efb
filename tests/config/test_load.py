"""Sources go over each other in their order, and what cannot be meant is refused by name."""

from pathlib import Path

import pytest

from broker.config.load import examine, load
from broker.model.errors import IllegalConfig


def written(path: Path, text: str) -> Path:
    file = path / "broker.toml"
    file.write_text(text)
    return file


def refusal(*assignments: str, file: Path | None = None, **environment: str) -> str:
    with pytest.raises(IllegalConfig) as caught:
        load(file=file, environment=environment, assignments=assignments)
    return str(caught.value)


def test_the_environment_beats_the_file_and_set_beats_both(tmp_path: Path) -> None:
    file = written(tmp_path, '[broker]\nname = "file"\ncluster = "file"\n')
    environment = {"POCKETMQ__BROKER__NAME": "env", "POCKETMQ__BROKER__CLUSTER": "env"}
    config = load(file=file, environment=environment, assignments=["broker.cluster=set"])
    assert config.broker.name == "env"
    assert config.broker.cluster == "set"
    assert config.origins == {"broker.name": "POCKETMQ__BROKER__NAME", "broker.cluster": "--set"}


def test_of_two_assignments_the_later_wins_whatever_names_they_use() -> None:
    config = load(assignments=["store.flush=sync", "flushDiskType=ASYNC_FLUSH"])
    assert config.store.flush == "async"


def test_a_value_may_hold_an_equals_sign() -> None:
    assert load(assignments=["broker.name=a=b"]).broker.name == "a=b"


def test_an_unknown_key_names_the_nearest_one() -> None:
    assert "did you mean store.flush?" in refusal("store.flsh=sync")
    assert "did you mean mappedFileSizeCommitLog?" in refusal("mappedFileSizeCommitlog=1")
    assert "did you mean brokerName?" in refusal("brokername=b")
    assert "did you mean" not in refusal("zzzzzzzz=1")


def test_a_bad_value_says_where_it_stood() -> None:
    text = refusal("store.flush_interval_ms=soon")
    assert "store.flush_interval_ms (--set)" in text
    assert "'soon' is not a number" in text


def test_an_assignment_needs_a_value() -> None:
    assert "--set store.flush=VALUE" in refusal("store.flush")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    assert str(missing) in refusal(file=missing)


def test_a_known_name_without_a_meaning_draws_a_warning() -> None:
    config = load(assignments=["brokerRole=SYNC_MASTER"])
    (warning,) = config.warnings
    assert warning.startswith("brokerRole has no meaning here and is ignored: this broker stands")
    assert config.origins == {}


def test_an_examination_finds_every_problem_there_is(tmp_path: Path) -> None:
    file = written(tmp_path, 'flush = 1\n[store]\nflsh = "sync"\nflush = "often"\n')
    given = ["store.transient_pool=true", "zzz=1", "broker.name"]
    problems = [problem.field for problem in examine(file=file, assignments=given).problems]
    assert problems == [
        f"flush ({file}:1)",
        f"store.flsh ({file}:3)",
        f"store.flush ({file}:4)",
        "zzz (--set)",
        "broker.name",
        "store.transient_pool",
    ]


def test_what_is_loaded_without_problems_is_what_was_examined() -> None:
    examined = examine(assignments=["store.flush=async"])
    assert examined.problems == []
    assert examined.config == load(assignments=["store.flush=async"])


def test_an_unknown_preset_is_refused_by_the_names_there_are() -> None:
    with pytest.raises(IllegalConfig, match="'cloud' is not one of dev, edge, server"):
        load(preset="cloud")


def test_rocketmqs_share_above_the_one_at_which_files_go_is_lowered() -> None:
    config = load(assignments=["diskMaxUsedSpaceRatio=88"])
    assert config.retention.disk_expire_percent == 85
    (warning,) = config.warnings
    assert "retention.disk_expire_percent is lowered from 88" in warning
    assert "retention.disk_force_percent = 85" in warning


def test_our_own_is_refused() -> None:
    text = refusal("retention.disk_expire_percent=88")
    assert "retention.disk_expire_percent = 88 (--set)" in text
    assert "retention.disk_force_percent = 85 (default)" in text
    assert refusal("diskMaxUsedSpaceRatio=70", "retention.disk_expire_percent=88") == text


def test_our_key_counts_over_rocketmqs_name_and_the_other_way() -> None:
    later = load(assignments=["fileReservedTime=48", "retention.age_ms=1h"])
    assert later.retention.age_ms == 3_600_000
    assert load(assignments=["retention.age_ms=1h", "fileReservedTime=2"]).retention.age_ms == (
        7_200_000
    )
