"""`pocketmq config` writes, checks, shows and compares settings without a broker."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pocketmq.config.document import sample_file
from pocketmq.config.sections import KNOBS
from pocketmq.model.access import User
from pocketmq.tools.users import read_roster
from tests.cli import command_line
from tests.cli.command_line import Ran


def run(*arguments: str, **environment: str) -> Ran:
    """Runs `pocketmq config ARGUMENTS`."""
    return command_line.run("config", *arguments, **environment)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "broker.toml"
    made.write_text('[store]\nflush = "async"\n[broker]\nname = "b7"\n')
    return made


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    made = tmp_path / "bad.toml"
    made.write_text('[store]\nflsh = "async"\n[broker]\npermission = 9\n')
    return made


def test_init_writes_a_file_to_start_from(tmp_path: Path) -> None:
    new = tmp_path / "new.toml"
    done = run("init", str(new))
    assert (done.code, done.out) == (0, "")
    assert f"Wrote {new} with" in done.err
    assert new.read_text() == sample_file()
    assert [path.name for path in tmp_path.iterdir()] == ["new.toml"]


def test_init_replaces_nothing_without_yes(file: Path) -> None:
    before = file.read_text()
    done = run("init", str(file))
    assert done.code == 4
    assert "--yes" in done.err
    assert file.read_text() == before
    assert run("init", str(file), "--yes", "--preset", "server").code == 0
    assert tomllib.loads(file.read_text())["preset"] == "server"


def test_init_without_a_name_prints_the_file() -> None:
    assert run("init").out == sample_file()
    assert run("init", "--preset", "dev").out == sample_file("dev")
    assert run("init", "--preset", "cloud").code == 2


def test_init_that_cannot_write_says_so(tmp_path: Path) -> None:
    done = run("init", str(tmp_path / "none" / "new.toml"))
    assert done.code == 1
    assert "cannot be written: No such file" in done.err


def test_a_good_file_passes_the_check(file: Path) -> None:
    done = run("check", str(file), "-o", "json", POCKETMQ__STORE__FLSH="1")
    assert done.code == 0
    assert done.document == {
        "file": str(file),
        "valid": True,
        "preset": "edge",
        "set_count": 2,
        "problems": [],
        "warnings": [],
    }


def test_a_check_tells_everything_that_is_wrong(bad: Path) -> None:
    done = run("check", str(bad), "-o", "json")
    assert done.code == 1
    assert done.document["valid"] is False
    assert len(done.document["problems"]) == 2
    assert f"store.flsh ({bad}:2)" in done.err
    assert f"broker.permission ({bad}:4)" in done.err


def test_a_check_in_a_table_prints_each_problem_once(bad: Path) -> None:
    done = run("check", str(bad), "-o", "table")
    assert (done.out + done.err).count("store.flsh") == 1
    assert "problem_count  2" in done.out


def test_another_file_of_rocketmq_names_its_import_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "plain_acl.yml"
    file.write_text(ACL)
    done = run("check", str(file), "-o", "table")
    assert done.err.count(f"pocketmq config import-broker-conf {file}") == 1
    assert "Next:" not in done.err


def test_a_check_notes_what_is_doubted(tmp_path: Path) -> None:
    doubtful = tmp_path / "broker.toml"
    doubtful.write_text('[store]\ncommit_interval_ms = "7ms"\n')
    done = run("check", str(doubtful), "-o", "json")
    assert done.code == 0
    assert done.err.startswith("Note: store.commit_interval_ms has no effect without")
    assert len(done.document["warnings"]) == 1
    done = run("check", str(doubtful), "-o", "table")
    assert (done.out + done.err).count("has no effect without") == 1


def test_a_check_reads_the_parts_beside_the_file(file: Path) -> None:
    part = file.parent / "conf.d" / "1.toml"
    part.parent.mkdir()
    part.write_text("[store]\nnonsense = 1\n")
    done = run("check", str(file))
    assert done.code == 1
    assert f"store.nonsense ({part}:2)" in done.err
    assert f"Next:  correct {part}, then: pocketmq config check {file}\n" in done.err


def test_the_next_step_of_a_check_names_each_file_with_a_problem(file: Path) -> None:
    good, unread = file.parent / "conf.d" / "1.toml", file.parent / "conf.d" / "2.toml"
    good.parent.mkdir()
    good.write_text("[broker]\npermission = 4\n")
    unread.write_text("[")
    part = file.parent / "conf.d" / "3.toml"
    part.write_text("[retention]\ndisk_expire_percent = 80\ndisk_force_percent = 70\n")
    step = f"correct {unread} and {part}, then: pocketmq config check {file}\n"
    assert step in run("check", str(file)).err


def test_a_file_that_is_not_there_is_a_failed_check(tmp_path: Path) -> None:
    assert run("check", str(tmp_path / "none.toml")).code == 1


@pytest.mark.parametrize("command", ["check", "show"])
def test_a_settings_file_is_named_with_and_without_its_option(command: str, file: Path) -> None:
    plain, by_option = run(command, str(file)), run(command, "-c", str(file))
    assert (plain.code, by_option.code) == (0, 0)
    assert by_option.document == plain.document
    assert "async" in run("show", str(file), "-o", "table").out


@pytest.mark.parametrize("command", ["check", "show"])
def test_two_settings_files_are_refused(command: str, file: Path) -> None:
    done = run(command, str(file), "-c", "other.toml")
    assert done.code == 2
    assert f"name one settings file: {file} or -c other.toml, not both" in done.err


def test_a_check_without_a_file_names_the_missing_one() -> None:
    done = run("check")
    assert done.code == 2
    assert "name a settings file: pocketmq config check broker.toml" in done.err


def test_show_prints_every_setting_with_its_value() -> None:
    rows = run("show", "-o", "json").document
    assert [row["key"] for row in rows] == ["preset", *KNOBS]
    shown = {row["key"]: row for row in rows}
    assert shown["store.commit_log_file_size_bytes"] == {
        "key": "store.commit_log_file_size_bytes",
        "value": 67_108_864,
        "text": "64MiB",
    }


def test_show_says_who_set_what(file: Path) -> None:
    done = run(
        "show", "-c", str(file), "--preset", "server", "--set", "maxMessageSize=1024",
        "--origin", "-o", "json", POCKETMQ__BROKER__CLUSTER="c",
    )  # fmt: skip
    origins = {row["key"]: row["origin"] for row in done.document}
    assert origins["preset"] == "--preset"
    assert origins["store.flush"] == f"{file}:2"
    assert origins["store.index_slot_count"] == "preset server"
    assert origins["broker.cluster"] == "POCKETMQ__BROKER__CLUSTER"
    assert origins["limits.max_message_size_bytes"] == "--set"
    assert origins["rpc.listen"] == "default"


def test_show_is_a_table_for_people(file: Path) -> None:
    lines = run("show", "-c", str(file), "--origin", "-o", "table").out.splitlines()
    assert lines[0].split() == ["KEY", "VALUE", "ORIGIN"]
    flush = next(line.split() for line in lines if line.startswith("store.flush "))
    assert flush[:2] == ["store.flush", "async"]


def test_show_refuses_what_serve_would_refuse(bad: Path) -> None:
    done = run("show", "-c", str(bad))
    assert done.code == 2
    assert "did you mean store.flush?" in done.err
    assert done.out == ""


def test_diff_tells_where_two_files_differ(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text('preset = "dev"\n[broker]\nname = "b8"\n')
    done = run("diff", str(file), str(other), "-o", "json")
    assert done.code == 1
    rows = {row["key"]: row for row in done.document}
    by_preset = {"broker.default_topic_type", "retention.disk_margin_bytes"}
    assert rows.keys() == {"preset", "broker.name"} | by_preset
    assert rows["broker.name"] == {
        "key": "broker.name",
        "a": "b7",
        "b": "b8",
        "origin_a": f"{file}:4",
        "origin_b": f"{other}:3",
    }


def test_diff_of_files_that_say_the_same_is_empty(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text('broker.name = "b7"\nstore.flush = "async"\n')
    done = run("diff", str(file), str(other), "-o", "json")
    assert (done.code, done.document) == (0, [])


def test_diff_of_a_bad_file_is_exit_2(file: Path, bad: Path) -> None:
    assert run("diff", str(file), str(bad)).code == 2


def test_a_broker_conf_is_printed_as_settings(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerIP2=10.0.0.1\nfileReservedTime=72\n")
    done = run("import-broker-conf", str(conf))
    assert done.code == 0
    assert tomllib.loads(done.out) == {"preset": "server", "retention": {"age_ms": "3d"}}
    assert "#     brokerIP2 = 10.0.0.1" in done.out
    assert done.err == "Note: omitted: brokerIP2; the output ends with the reasons\n"


def test_a_name_nobody_knows_is_told_and_refused_when_strict(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerRol=SLAVE\nflushDisk=1\nbrokerName=b\n")
    done = run("import-broker-conf", str(conf), "--strict")
    assert (done.code, done.out) == (2, "")
    assert "did you mean brokerRole?" in done.err
    assert "did you mean flushDiskType?" in done.err
    done = run("import-broker-conf", str(conf))
    assert done.code == 0
    assert tomllib.loads(done.out) == {"preset": "server", "broker": {"name": "b"}}
    assert "#     flushDisk = 1 (did you mean flushDiskType?)\n" in done.out
    assert (
        "unknown: brokerRol in line 1 (did you mean brokerRole?), flushDisk in line 2" in done.err
    )


def test_a_value_that_cannot_be_read_ends_the_import(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("flushDiskType=SOMETIMES\n")
    done = run("import-broker-conf", str(conf))
    assert (done.code, done.out) == (2, "")
    assert "'SOMETIMES' is not one of" in done.err


def test_loading_the_group_loads_no_broker() -> None:
    script = "import sys, pocketmq.cli.config; print(*(name for name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.split()
    assert "pocketmq.cli.config" in loaded
    ours = {name for name in loaded if name.startswith(("pocketmq.config", "pocketmq.store"))}
    assert ours == {
        "pocketmq.config", "pocketmq.config.units"
    }  # fmt: skip


def test_what_is_below_a_floor_needs_force(tmp_path: Path) -> None:
    low = tmp_path / "broker.toml"
    low.write_text('[retention]\nage_ms = "5m"\n')
    for words in (("check", str(low)), ("show", "-c", str(low))):
        done = run(*words)
        assert done.code in (1, 2)
        assert f"retention.age_ms: 5m ({low}:2) is below the floor of 1h" in done.err
        assert "--force" in done.err
        assert run(*words, "--force").code == 0


ACL = """\
accounts:
  - accessKey: orders-app
    secretKey: hush-hush-1
    defaultTopicPerm: SUB
    topicPerms: [orders=PUB]
  - accessKey: boss
    secretKey: hush-hush-2
    admin: true
    whiteRemoteAddress: 10.0.0.7
"""


def test_plain_acl_is_shown_and_then_written_where_the_broker_keeps_users(tmp_path: Path) -> None:
    file, store = tmp_path / "plain_acl.yml", tmp_path / "store"
    file.write_text(ACL)
    planned = run("import-broker-conf", str(file))
    assert planned.code == 4
    assert "--store DIR" in planned.err
    done = run("import-broker-conf", str(file), "--store", str(store))
    assert (done.code, done.out) == (0, planned.out)
    assert done.out.splitlines() == [
        "user   orders-app",
        "user   boss  admin",
        "allow  orders-app  sub  topic:*",
        "allow  orders-app  pub  topic:orders",
        "deny   orders-app  sub  topic:orders",
    ]
    assert "whiteRemoteAddress of boss is left out" in done.err
    roster = read_roster(store)
    assert roster.users["boss"] == User("boss", "hush-hush-2", is_admin=True)
    assert roster.users["orders-app"].secret == "hush-hush-1"
    assert len(roster.grants) == 3
    kept = store / "pocketmq" / "access.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    before = kept.read_bytes()
    again = run("import-broker-conf", str(file), "--store", str(store))
    assert again.code == 4
    assert kept.read_bytes() == before
    for one in (planned, done, again):
        assert "hush" not in one.out + one.err


def test_a_store_is_for_users_alone(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=b\n")
    refused = run("import-broker-conf", str(conf), "--store", str(tmp_path))
    assert (refused.code, refused.out) == (2, "")


def test_a_plan_of_users_names_the_option_that_writes_them(tmp_path: Path) -> None:
    file = tmp_path / "plain_acl.yml"
    file.write_text(ACL)
    done = run("import-broker-conf", str(file))
    assert done.code == 4
    assert "Error" not in done.err
    assert "nothing was changed yet; add --store DIR to do it" in done.err
    assert "--yes" not in done.err
