"""A broker.conf of RocketMQ becomes settings of ours, and says what it leaves out."""

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.config.broker_conf import import_file
from pocketmq.config.load import load
from pocketmq.config.rocketmq_files import Property, properties
from pocketmq.config.sections import KNOBS
from pocketmq.model.errors import IllegalConfig

USUAL = """\
# Licensed to the Apache Software Foundation (ASF)
brokerClusterName = DefaultCluster
brokerName=broker-a
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = SYNC_FLUSH
listenPort=10911
diskMaxUsedSpaceRatio=88
storePathRootDir=/opt/store
storePathCommitLog=/opt/store/commitlog
"""


def conf(path: Path, text: str) -> Path:
    file = path / "broker.conf"
    file.write_text(text)
    return file


def test_a_usual_file_keeps_its_meaning(tmp_path: Path) -> None:
    file = conf(tmp_path, USUAL)
    imported = import_file(file)
    assert imported.problems == []
    toml = tmp_path / "broker.toml"
    toml.write_text(imported.text)
    config = load(file=toml)
    assert config.preset == "server"
    assert config.store.flush == "sync"
    assert config.store.directory == "/opt/store"
    assert config.store.commit_log_file_size_bytes == 1 << 30
    assert config.retention.age_ms == 48 * 3_600_000
    assert config.retention.disk_expire_percent == 85
    assert config.rpc.listen == "127.0.0.1:10911"
    assert config.warnings == ()


def test_what_is_left_out_is_told_with_the_reason(tmp_path: Path) -> None:
    imported = import_file(conf(tmp_path, USUAL))
    assert imported.left_out == ["brokerId", "brokerRole", "storePathCommitLog"]
    assert imported.text.endswith(
        "# Left out:\n"
        "#   [replication] sets the leader that it follows, and the port of its slaves\n"
        "#     brokerId = 0\n"
        "#     brokerRole = ASYNC_MASTER\n"
        "#   all files are below store.directory, in RocketMQ's layout\n"
        "#     storePathCommitLog = /opt/store/commitlog\n"
    )


def test_a_value_stands_beside_what_it_was(tmp_path: Path) -> None:
    text = import_file(conf(tmp_path, "fileReservedTime = 48\nflushDiskType=SYNC_FLUSH\n")).text
    assert 'flush = "sync"  # flushDiskType = SYNC_FLUSH\n' in text
    assert 'age_ms = "2d"  # fileReservedTime = 48\n' in text


def test_what_is_changed_is_told(tmp_path: Path) -> None:
    lowered, local = sorted(import_file(conf(tmp_path, USUAL)).warnings)
    assert "lowered from 88" in lowered
    assert "only this machine reaches it" in local


def test_a_file_of_nothing_sets_nothing(tmp_path: Path) -> None:
    imported = import_file(conf(tmp_path, "# nothing\n"))
    assert tomllib.loads(imported.text) == {"preset": "server"}
    assert "Left out" not in imported.text


def test_every_name_rocketmq_does_not_know_is_told_with_its_line(tmp_path: Path) -> None:
    file = conf(tmp_path, "brokername = b\n\nflushDiskType = SOMETIMES\nzzz = 1\n")
    problems = [str(problem) for problem in import_file(file, strict=True).problems]
    assert f"brokername ({file}:1)" in problems[0]
    assert "did you mean brokerName?" in problems[0]
    assert f"flushDiskType ({file}:3): 'SOMETIMES' is not one of SYNC_FLUSH, ASYNC" in problems[1]
    assert f"zzz ({file}:4)" in problems[2]
    assert len(problems) == 3


MASTER = """brokerClusterName=DefaultCluster
brokerName=broker-a
brokerId=0
deleteWhen=04
fileReservedTime=48
brokerRole=ASYNC_MASTER
flushDiskType=ASYNC_FLUSH
"""
SLAVE = MASTER.replace("Id=0", "Id=1").replace("ASYNC_MASTER", "SLAVE")
CONSENSUS = """brokerClusterName = RaftCluster
brokerName=RaftNode00
listenPort=30911
namesrvAddr=127.0.0.1:9876
storePathRootDir=/tmp/rmqstore/node00
storePathCommitLog=/tmp/rmqstore/node00/commitlog
enableDLegerCommitLog=true
dLegerGroup=RaftNode00
dLegerPeers=n0-127.0.0.1:40911;n1-127.0.0.1:40912;n2-127.0.0.1:40913
## must be unique
dLegerSelfId=n0
sendMessageThreadPoolNums=16
"""
CONTAINER = """containerPort=10811
namesrvAddr=127.0.0.1:9876
brokerConfigPaths=/etc/broker-a.conf:/etc/broker-b.conf
enableControllerMode=true
controllerAddr=127.0.0.1:9877
"""
MODERN = """brokerName=b1
storeType=defaultRocksDB
timerWheelEnable=true
enablePopBatchAck=true
transactionOpBatchInterval=3000
authenticationEnabled=true
enableLmq=true
useEpollNativeSelector=true
maxTopicLength=255
"""


@pytest.mark.parametrize(
    ("text", "left_out_count", "unknown"),
    [
        (USUAL, 3, []), (MASTER, 2, []), (SLAVE, 2, []), (CONSENSUS, 7, []), (CONTAINER, 5, []),
        (MODERN, 8, ["maxTopicLength"]),
    ],
)  # fmt: skip
def test_files_as_they_come_with_rocketmq_are_taken_over(
    tmp_path: Path, text: str, left_out_count: int, unknown: list[str]
) -> None:
    imported = import_file(conf(tmp_path, text))
    assert imported.problems == []
    assert len(imported.left_out) == left_out_count
    assert [name.partition(" ")[0] for name in imported.unknown] == unknown
    toml = tmp_path / "broker.toml"
    toml.write_text(imported.text)
    assert load(file=toml).preset == "server"


@pytest.mark.parametrize("address", ["", "haMasterAddress=master", "haMasterAddress=master:0"])
def test_a_slave_without_a_master_is_told_that_it_leads(tmp_path: Path, address: str) -> None:
    imported = import_file(conf(tmp_path, f"{SLAVE}{address}\n"))
    (warning,) = imported.warnings
    assert "brokerRole = SLAVE: this broker leads unless replication.leader names" in warning
    assert '"rocketmq://MASTER:10911"\n#     brokerRole = SLAVE\n' in imported.text


def test_a_slave_becomes_a_follower_of_its_master(tmp_path: Path) -> None:
    imported = import_file(conf(tmp_path, f"{SLAVE}haMasterAddress=10.0.0.1:10912\n"))
    assert imported.left_out == ["brokerId"]
    (warning,) = imported.warnings
    assert warning.startswith("replication.leader = rocketmq://10.0.0.1:10911: the port of")
    toml = tmp_path / "broker.toml"
    toml.write_text(imported.text)
    assert load(file=toml).replication.leader == "rocketmq://10.0.0.1:10911"
    master = import_file(conf(tmp_path, f"{MASTER}haMasterAddress=10.0.0.1:10912\n"))
    assert master.left_out == ["brokerId", "brokerRole", "haMasterAddress"]


def test_a_setting_of_a_family_says_why_it_is_left_out(tmp_path: Path) -> None:
    text = import_file(conf(tmp_path, MODERN)).text
    assert "there is no RocksDB\n#     storeType = defaultRocksDB\n" in text
    assert "import plain_acl.yml\n#     authenticationEnabled = true\n" in text


def test_a_pool_without_async_flush_is_refused(tmp_path: Path) -> None:
    text = "transientStorePoolEnable=true\nflushDiskType=SYNC_FLUSH\n"
    (problem,) = import_file(conf(tmp_path, text)).problems
    assert "store.transient_pool" in str(problem)
    assert import_file(conf(tmp_path, text.splitlines()[0])).problems == []


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(IllegalConfig, match="No such file"):
        import_file(tmp_path / "none")
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff")
    with pytest.raises(IllegalConfig, match="not UTF-8"):
        import_file(binary)


def test_control_characters_do_not_end_a_comment(tmp_path: Path) -> None:
    text = "storePathRootDir = a\\nb\nnamesrvAddr = c\\nd = 1\n"
    document = tomllib.loads(import_file(conf(tmp_path, text)).text)
    assert document == {"preset": "server", "store": {"directory": "a\nb"}}


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=b", [("a", "b")]),
        (" a : b ", [("a", "b")]),
        ("a b c", [("a", "b c")]),
        ("a=b=c", [("a", "b=c")]),
        ("a=", [("a", "")]),
        ("a", [("a", "")]),
        ("# a=b\n! c=d\n\n  e=f", [("e", "f")]),
        ("a=b\\\n   c\nd=e", [("a", "bc"), ("d", "e")]),
        ("a=b\\\\\nd=e", [("a", "b\\"), ("d", "e")]),
        ("a=b\\", [("a", "b")]),
        ("a=\\u0041\\t.", [("a", "A\t.")]),
        ("a\\=b=c", [("a=b", "c")]),
        ("a=b # c", [("a", "b # c")]),
    ],
)
def test_a_line_is_read_as_java_does(text: str, pairs: list[tuple[str, str]]) -> None:
    assert [(item.name, item.value) for item in properties(text)] == pairs


def test_a_property_has_the_line_it_begins_in() -> None:
    assert properties("# c\na=b\\\nc\n\nd=e") == [Property(2, "a", "bc"), Property(5, "d", "e")]


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    assert all(item.line >= 1 for item in properties(text))


@given(
    name=st.from_regex(r"[A-Za-z0-9]{1,9}", fullmatch=True), value=st.text("ab c=:#!", min_size=1)
)
def test_what_is_written_plainly_comes_back(name: str, value: str) -> None:
    assert properties(f"{name} = x{value}") == [Property(1, name, f"x{value}".strip())]


# -- the proxy's file ------------------------------------------------------------------------------

PROXY = {
    "rocketMQClusterName": "c7",
    "namesrvAddr": "127.0.0.1:9876",
    "grpcServerPort": 18081,
    "remotingListenPort": 18080,
    "metricsPromExporterPort": "15557",
    "tlsTestModeEnable": False,
    "tlsCertPath": "/etc/c.pem",
    "tlsKeyPath": "/etc/k.pem",
    "innerClientAuthenticationCredentials": {"accessKey": "a", "secretKey": "hush-hush"},
    "routeFoo": 1,
}


def proxy(path: Path, text: str) -> Path:
    file = path / "rmq-proxy.json"
    file.write_text(text)
    return file


def test_ports_certificate_and_cluster_of_a_proxy_are_taken(tmp_path: Path) -> None:
    imported = import_file(proxy(tmp_path, json.dumps(PROXY)))
    assert imported.problems == []
    toml = tmp_path / "broker.toml"
    toml.write_text(imported.text)
    config = load(file=toml)
    assert config.rpc.listen == "127.0.0.1:18081"
    assert config.http.listen == "127.0.0.1:15557"
    assert (config.rpc.tls_cert, config.rpc.tls_key) == ("/etc/c.pem", "/etc/k.pem")
    assert config.broker.cluster == "c7"
    assert "remotingListenPort = 18080" in imported.text
    assert "classic clients use the port of rpc.listen" in imported.text
    assert imported.left_out == [
        "namesrvAddr", "remotingListenPort", "tlsTestModeEnable",
        "innerClientAuthenticationCredentials", "routeFoo",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "[1]", '{"grpcServerPort": hush}', "{" * 100_000])
def test_what_is_no_file_of_a_proxy_is_an_error_without_its_text(tmp_path: Path, text: str) -> None:
    with pytest.raises(IllegalConfig, match="JSON") as caught:
        import_file(proxy(tmp_path, text))
    assert "hush" not in str(caught.value)


def test_a_port_that_is_none_is_a_problem_that_names_it(tmp_path: Path) -> None:
    (problem,) = import_file(proxy(tmp_path, '{"grpcServerPort": 70000}')).problems
    assert "grpcServerPort" in str(problem)


def test_a_secret_that_is_left_out_is_not_shown(tmp_path: Path) -> None:
    text = """
initAuthenticationUser = {"username":"rocketmq","password":"hush-hush"}
innerClientAuthenticationCredentials={"accessKey":"a","secretKey":"hush-hush"}
tls.server.keyPassword = hush-hush
someUnknownThing = {"secretKey":"hush-hush"}
"""
    for imported in (
        import_file(conf(tmp_path, text)),
        import_file(proxy(tmp_path, json.dumps(PROXY))),
    ):
        assert "(not shown)" in imported.text
        assert "hush" not in str(imported)


# -- a file of RocketMQ's in place of one of ours --------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("rmq-proxy.json", json.dumps(PROXY), "> pocketmq.toml"),
        ("plain_acl.yml", "accounts:\n  - accessKey: a\n", "--store DIR"),
    ],
)
def test_a_file_in_rocketmqs_format_names_the_import(
    tmp_path: Path, name: str, text: str, command: str
) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(IllegalConfig) as caught:
        load(file=file)
    assert f"pocketmq config import-broker-conf {file} {command}" in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("text", [USUAL, "authenticationEnabled=true\nzzz=1\n"])
def test_a_broker_conf_is_read_as_its_import(tmp_path: Path, text: str) -> None:
    file = conf(tmp_path, text)
    toml = tmp_path / "broker.toml"
    toml.write_text(import_file(file).text)
    read, imported = load(file=file), load(file=toml)
    assert [read.value(key) for key in KNOBS] == [imported.value(key) for key in KNOBS]
    assert read.preset == imported.preset == "server"


def test_names_without_effect_are_warnings_of_one_line(tmp_path: Path) -> None:
    file = conf(tmp_path, "brokerId=0\nfileReservedTime=48\nzzzzzzzz=9\nbrokername=x\n")
    config = load(file=file)
    assert config.origins == {"retention.age_ms": f"{file}:2"}
    left_out, unknown = config.warnings
    assert left_out.startswith(f"{file}: without effect: brokerId; reasons: pocketmq config import")
    names = "zzzzzzzz in line 3, brokername in line 4 (did you mean brokerName?)"
    assert unknown == f"{file}: unknown names: {names}"


def test_a_value_that_cannot_be_read_ends_a_start_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(IllegalConfig, match=r"flushDiskType \(.*broker\.conf:2\)"):
        load(file=conf(tmp_path, "brokerId=0\nflushDiskType=SOMETIMES\n"))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            "fileReservedTime=soon",
            "setting fileReservedTime ({}:1): 'soon' is not a number of h",
        ),
        ("deleteWhen=25", "setting deleteWhen ({}:1): '25' is not a list of hours"),
    ],
)
def test_an_error_names_the_setting_as_the_file_does(
    tmp_path: Path, line: str, problem: str
) -> None:
    file = conf(tmp_path, f"{line}\n")
    (found,) = map(str, import_file(file, strict=True).problems)
    assert found.startswith(problem.format(file))


def test_a_port_alone_keeps_the_host_of_the_defaults(tmp_path: Path) -> None:
    defaults = tmp_path / "image.toml"
    defaults.write_text('[rpc]\nlisten = "0.0.0.0:8081"\n')
    file = conf(tmp_path, "listenPort=10911\n")
    assert load(file=file).rpc.listen == "127.0.0.1:10911"
    config = load(file=file, environment={"POCKETMQ_DEFAULTS": str(defaults)})
    assert config.rpc.listen == "0.0.0.0:10911"


@pytest.mark.parametrize(
    "text", ["[store", "flush = 1\n", "# listenPort = 1\n[broker\n", "[store]\nlistenPort = 1\n"]
)
def test_another_wrong_file_does_not(tmp_path: Path, text: str) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(text)
    with pytest.raises(IllegalConfig) as caught:
        load(file=file)
    assert "import-broker-conf" not in str(caught.value)
