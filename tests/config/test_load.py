"""Sources override each other in their order, and each value is reported with its origin.

Values that cannot be meant are refused by name."""

from pathlib import Path

import pytest

from pocketmq.config.load import Loaded, examine, load
from pocketmq.config.sections import KNOBS, PRESETS, Config
from pocketmq.config.toml_lines import lines_of_keys
from pocketmq.model.errors import IllegalConfig

MIB = 1024 * 1024


def written(directory: Path, text: str | bytes, name: str = "broker.toml") -> Path:
    file = directory / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def refusal(*assignments: str, file: Path | None = None, **environment: str) -> str:
    with pytest.raises(IllegalConfig) as caught:
        load(file=file, environment=environment, assignments=assignments)
    return str(caught.value)


def reasons(loaded: Loaded) -> list[str]:
    return [str(problem) for problem in loaded.problems]


# -- over each other -------------------------------------------------------------------------------


def test_the_environment_beats_the_file_and_set_beats_both(tmp_path: Path) -> None:
    file = written(tmp_path, '[broker]\nname = "file"\ncluster = "file"\n')
    environment = {"POCKETMQ__BROKER__NAME": "env", "POCKETMQ__BROKER__CLUSTER": "env"}
    config = load(file=file, environment=environment, assignments=["broker.cluster=set"])
    assert (config.broker.name, config.broker.cluster) == ("env", "set")
    assert config.origins == {"broker.name": "POCKETMQ__BROKER__NAME", "broker.cluster": "--set"}


@pytest.mark.parametrize(
    ("assignments", "key", "value"),
    [
        (["store.flush=sync", "flushDiskType=ASYNC_FLUSH"], "store.flush", "async"),
        (["fileReservedTime=48", "retention.age_ms=1h"], "retention.age_ms", 3_600_000),
        (["retention.age_ms=1h", "fileReservedTime=2"], "retention.age_ms", 7_200_000),
        pytest.param(["broker.name=a=b"], "broker.name", "a=b", id="an equals sign"),
    ],
)
def test_of_two_assignments_the_later_wins_whatever_names_they_use(
    assignments: list[str], key: str, value: object
) -> None:
    assert load(assignments=assignments).value(key) == value


def test_parts_go_over_the_file_by_their_names(tmp_path: Path) -> None:
    file = written(tmp_path, '[broker]\nname = "file"\ncluster = "file"\n')
    later = written(tmp_path, '[broker]\nname = "20"\n', "conf.d/20.toml")
    early = written(tmp_path, '[broker]\nname = "10"\npermission = 4\n', "conf.d/10.toml")
    written(tmp_path, '[broker]\nname = "30"\n', "conf.d/30.toml.off")
    config = load(file=file)
    assert (config.broker.name, config.broker.cluster, config.broker.permission) == (
        "20",
        "file",
        4,
    )
    assert config.origins == {
        "broker.name": f"{later}:2",
        "broker.cluster": f"{file}:3",
        "broker.permission": f"{early}:3",
    }


# -- presets ---------------------------------------------------------------------------------------


def test_every_preset_sets_known_keys_to_values_they_accept() -> None:
    for values in PRESETS.values():
        assert all(KNOBS[key].value_of(value) == value for key, value in values.items())


@pytest.mark.parametrize(
    ("preset", "file_size", "slots", "entries", "flush"),
    [
        ("dev", 64 * MIB, 200_000, 1_000_000, "async"),
        ("edge", 64 * MIB, 200_000, 1_000_000, "sync"),
        (None, 64 * MIB, 200_000, 1_000_000, "sync"),
        ("server", 1024 * MIB, 5_000_000, 20_000_000, "async"),
    ],
)
def test_a_preset_is_for_a_kind_of_machine(
    preset: str | None, file_size: int, slots: int, entries: int, flush: str
) -> None:
    config = load(preset=preset)
    store = config.store
    assert store.commit_log_file_size_bytes == file_size
    assert (store.index_slot_count, store.index_entry_count_max) == (slots, entries)
    assert store.flush == flush
    origin = "--preset" if preset else "default"
    assert (config.preset, config.preset_origin) == (preset or "edge", origin)


def test_any_key_goes_over_a_preset_and_the_later_source_chooses_it(tmp_path: Path) -> None:
    file = written(tmp_path, 'preset = "server"\n[store]\nflush = "sync"\n')
    variable = {"POCKETMQ_PRESET": "dev"}
    config = load(file=file)
    assert (config.preset, config.preset_origin) == ("server", f"{file}:1")
    assert (config.store.flush, config.store.commit_log_file_size_bytes) == ("sync", 1024 * MIB)
    by_variable = load(file=file, environment=variable)
    assert (by_variable.preset, by_variable.preset_origin) == ("dev", "POCKETMQ_PRESET")
    assert load(file=file, environment={"POCKETMQ_PRESET": ""}).preset == "server"
    assert load(file=file, environment=variable, preset="edge").preset == "edge"
    assert load(preset="edge", assignments=["preset=server"]).preset == "server"


def test_an_unknown_preset_is_refused_by_the_names_there_are(tmp_path: Path) -> None:
    with pytest.raises(IllegalConfig, match="'cloud' is not one of dev, edge, server"):
        load(preset="cloud")
    file = written(tmp_path, 'preset = ["dev"]\n')
    assert f"setting preset ({file}:1): ['dev'] is not one of" in refusal(file=file)


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            '# a\n[broker]\n\nname = "b"\n[ store ]\n  flush="async"\n',
            {"broker.name": ":4", "store.flush": ":6"},
        ),
        ('preset = "dev"\nstore.flush = "sync"\n', {"store.flush": ":2"}),
        ('store = { flush = "sync" }\n', {"store.flush": ""}),
    ],
)
def test_a_value_is_told_with_its_file_and_line(
    tmp_path: Path, text: str, lines: dict[str, str]
) -> None:
    file = written(tmp_path, text)
    assert load(file=file).origins == {key: f"{file}{line}" for key, line in lines.items()}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"[sotre]\n", "sotre", id="an empty section"),
        pytest.param(b"[store.flush]\nmode = 1\n", "store.flush", id="a section in a section"),
        *((content, "broker.toml") for content in (b"[store\n", b"\xff\xfe", b"[a]\n[a]\n")),
        pytest.param(b"accounts:\n", "accounts", id="RocketMQ's users"),
    ],
)
def test_what_no_file_of_ours_holds_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    found = examine(file=written(tmp_path, content))
    (reason,) = reasons(found)
    assert told in reason
    assert found.config == Config(origins=found.config.origins)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    assert str(missing) in refusal(file=missing)


def test_lines_are_found_by_section_and_key() -> None:
    text = 'preset = "dev"\n[a]\nb = 1 # c = 2\n[d.e]\nf = 3\n'
    assert lines_of_keys(text) == {"preset": 1, "a.b": 3, "d.e.f": 5}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[rpc]\nlisten = "a:1"\n\nlisten = "b:1"\n', "rpc.listen is set in lines 2 and 4"),
        ("[store]\n[rpc]\ntls = true\n[store]\n", "[store] is in lines 1 and 4"),
        ("rpc.tls = true\n[rpc]\ntls_only = true\n", "rpc is in lines 1 and 2"),
        ("[rpc]\ntls = true\nlisten = \n", "Invalid value (at line 3"),
    ],
)
def test_what_a_file_sets_twice_names_both_lines(tmp_path: Path, text: str, told: str) -> None:
    file = written(tmp_path, text)
    assert f"{file}: {told}" in refusal(file=file)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("listen = 127.0.0.1:8081", ': write listen = "127.0.0.1:8081"'),
        ("listen = localhost:8081  # all", ': write listen = "localhost:8081"'),
        ("shutdown_grace_ms = 24h", ': write shutdown_grace_ms = "24h"'),
        ("tls = True", ": write tls = true"),
        ("listen = a b", ""),
        ('listen = "a', ""),
        ("listen = ", ""),
    ],
)
def test_a_text_without_quotes_is_shown_with_them(tmp_path: Path, line: str, told: str) -> None:
    file = written(tmp_path, f"[rpc]\n{line}\n")
    refused = refusal(file=file)
    assert f"{file}: " in refused
    assert "(at line 2, column " in refused
    assert refused.partition(": write ")[2] == told.removeprefix(": write ")


def test_what_a_broker_conf_sets_twice_draws_a_warning(tmp_path: Path) -> None:
    file = written(tmp_path, "brokerName = a\nbrokerIP1 = 10.0.0.1\nbrokerName = b\n", "b.conf")
    config = load(file=file)
    assert config.broker.name == "b"
    assert f"{file}: brokerName is set in lines 1 and 3; the last one counts" in config.warnings


def test_an_address_without_a_host_draws_a_warning(tmp_path: Path) -> None:
    file = written(tmp_path, '[rpc]\nlisten = "8081"\n[http]\nlisten = ""\n')
    config = load(file=file)
    (warning,) = config.warnings
    assert warning.startswith("rpc.listen = 8081 names no host and is taken as 127.0.0.1:8081")
    assert warning.endswith(f"write 0.0.0.0:8081 ({file}:2)")
    assert load(assignments=["rpc.listen=0.0.0.0:8081"]).warnings == ()


# -- the environment -------------------------------------------------------------------------------


def test_variables_are_sections_and_keys() -> None:
    given = {"POCKETMQ__STORE__FLUSH": '"async"', "POCKETMQ_ENDPOINT": "h:1"}
    config = load(environment=given)
    assert config.store.flush == "async"
    assert config.origins == {"store.flush": "POCKETMQ__STORE__FLUSH"}


def test_a_variable_may_name_a_file_with_the_value(tmp_path: Path) -> None:
    secret = written(tmp_path, "b7\n", "name")
    config = load(environment={"POCKETMQ__BROKER__NAME_FILE": str(secret)})
    assert config.broker.name == "b7"
    assert config.origins == {"broker.name": f"POCKETMQ__BROKER__NAME_FILE {secret}"}


def test_what_is_wrong_with_variables_is_told_of_each(tmp_path: Path) -> None:
    binary = written(tmp_path, b"\xff", "binary")
    given = {
        "POCKETMQ__BROKER__CLUSTER_FILE": str(binary),
        "POCKETMQ__BROKER__NAME_FILE": str(tmp_path / "none"),
        "POCKETMQ__RPC__LISTEN": "1",
        "POCKETMQ__RPC__LISTEN_FILE": "twice",
        "POCKETMQ__STORE__FLSH": "1",
        "POCKETMQ__STORE__FLSH_FILE": "1",
    }
    found = reasons(examine(environment=given))
    assert f"{binary} cannot be read: it is not UTF-8" in found[0]
    assert f"{tmp_path / 'none'} cannot be read: No such file" in found[1]
    assert "POCKETMQ__RPC__LISTEN is set as well" in found[2]
    assert "did you mean store.flush?" in found[3]
    assert "POCKETMQ__STORE__FLSH_FILE" in found[4]


def test_a_container_has_short_variables() -> None:
    given = {"POCKETMQ_INSECURE": "1", "POCKETMQ_ADMIN_SECRET_FILE": "/run/secrets/admin"}
    config = load(environment=given)
    assert (config.access.check, config.access.admin_secret_path) == ("off", "/run/secrets/admin")
    assert config.origin("access.check") == "POCKETMQ_INSECURE"
    for no in ("", "0", "false"):
        assert load(environment={"POCKETMQ_INSECURE": no}).access.check == "auto"
    assert load(environment=given, assignments=["access.check=on"]).access.check == "on"


def test_a_short_variable_excludes_the_long_one() -> None:
    for long in ("POCKETMQ__ACCESS__CHECK", "POCKETMQ__ACCESS__CHECK_FILE"):
        (text, *_) = reasons(examine(environment={"POCKETMQ_INSECURE": "1", long: "on"}))
        assert f"access.check (POCKETMQ_INSECURE): {long} is set as well" in text
    assert "'maybe' is not true or false" in refusal(POCKETMQ_INSECURE="maybe")


def test_every_source_goes_over_the_defaults_of_the_image(tmp_path: Path) -> None:
    image = written(tmp_path, '[store]\ndirectory = "/v"\nflush = "async"\n', "image.toml")
    file = written(tmp_path, '[store]\nflush = "sync"\n')
    config = load(file=file, environment={"POCKETMQ_DEFAULTS": str(image)}, preset="server")
    assert (config.store.directory, config.store.flush) == ("/v", "sync")
    assert config.origin("store.directory") == f"{image}:2"
    assert config.preset == "server"
    assert "none.toml: POCKETMQ_DEFAULTS names it, but" in refusal(POCKETMQ_DEFAULTS="none.toml")


# -- what is wrong ---------------------------------------------------------------------------------


def test_an_unknown_key_names_the_nearest_one_whatever_the_case() -> None:
    assert "did you mean store.flush?" in refusal("store.flsh=sync")
    assert "did you mean mappedFileSizeCommitLog?" in refusal("mappedFileSizeCommitlog=1")
    assert "did you mean brokerName?" in refusal("brokername=b")
    assert "did you mean" not in refusal("zzzzzzzz=1")
    assert "did you mean http.listen?" in refusal("rpc.http_listen=a:1")
    assert "did you mean" not in refusal("nosection.a=1")
    assert "did you mean flushDiskType?" in refusal("flushdisktype=SYNC_FLUSH")


@pytest.mark.parametrize("key", ["store.log_file_size", "log_file_size", "store.segment_size"])
def test_part_of_a_name_suggests_each_setting_that_contains_its_words(key: str) -> None:
    text = refusal(f"{key}=1MiB")
    both = "store.commit_log_file_size_bytes or store.timer_log_file_size_bytes"
    assert f"did you mean {both}?" in text


@pytest.mark.parametrize(
    ("assignment", "told"),
    [
        ("store.flush_interval_ms=soon", "store.flush_interval_ms (--set): 'soon' is not a number"),
        ("retention.size_bytes=10GB", "TiB; did you mean 10GiB?"),
        ("retention.size_bytes=64m", "TiB; did you mean 64MiB?"),
        ("retention.size_bytes=64kib", "TiB; did you mean 64KiB?"),
        ("retention.age_ms=3Days", "d; did you mean 3d?"),
        ("retention.age_ms=90min", "d; did you mean 90m?"),
        ("retention.age_ms=2MS", "d; did you mean 2ms?"),
        ("rpc.listen=a:99999", "'a:99999': the port is not in the range 0 to 65535"),
        ("rpc.listen=:8081", "is not HOST:PORT, such as 127.0.0.1:8081 or 0.0.0.0:8081"),
        ("diskSpaceWarningLevelRatio=most", "diskSpaceWarningLevelRatio (--set): 'most' is not"),
        ("store.flush", "--set store.flush=VALUE"),
    ],
)
def test_a_bad_value_says_where_it_stood(assignment: str, told: str) -> None:
    assert told in refusal(assignment)


def test_a_known_name_without_a_meaning_draws_a_warning() -> None:
    config = load(assignments=["brokerRole=SYNC_MASTER"])
    (warning,) = config.warnings
    assert warning.startswith(
        "brokerRole has no meaning here and is ignored: [replication] sets the leader that it "
        "follows, and the port of its slaves"
    )
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


def test_rocketmqs_share_above_the_one_at_which_files_go_is_lowered_and_our_own_refused() -> None:
    config = load(assignments=["diskMaxUsedSpaceRatio=88"], preset="server")
    assert config.retention.disk_expire_percent == 85
    (warning,) = config.warnings
    assert "retention.disk_expire_percent is lowered from 88 to the value of" in warning
    assert "retention.disk_force_percent = 85" in warning
    text = refusal("retention.disk_expire_percent=88", POCKETMQ_PRESET="server")
    assert "retention.disk_expire_percent = 88 (--set)" in text
    assert "retention.disk_force_percent = 85 (preset server)" in text
    both = ("diskMaxUsedSpaceRatio=70", "retention.disk_expire_percent=88")
    assert refusal(*both, POCKETMQ_PRESET="server") == text
