"""A start of RocketMQ's mqbroker becomes settings: its files, its store, its ports, its users."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from pocketmq.config.load import load
from pocketmq.config.official import APPLIED, official_start
from pocketmq.config.sections import Config
from pocketmq.model.errors import IllegalConfig

HOME = {"HOME": "/h"}


def conf(directory: Path, text: str, name: str = "broker.conf") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / name
    file.write_text(text)
    return file


def settings(
    environment: Mapping[str, str], file: Path | None = None, proxy: Path | None = None
) -> Config:
    """Returns the settings with which mqbroker runs."""
    start = official_start(file, proxy, environment)
    return load(file=start.file, environment=environment, assignments=start.assignments)


def test_without_files_it_is_as_rocketmqs_image(tmp_path: Path) -> None:
    config = settings({"HOME": str(tmp_path)})
    assert config.store.directory == f"{tmp_path}/store"
    assert (config.rpc.listen, config.http.listen) == ("0.0.0.0:8081", "0.0.0.0:5557")
    assert config.access.check == "users"


def test_the_image_s_own_defaults_give_way_and_the_operators_words_do_not(tmp_path: Path) -> None:
    defaults = conf(
        tmp_path, '[store]\ndirectory = "/v"\n[http]\nlisten = "1.1.1.1:1"\n', "image.toml"
    )
    given = {"HOME": str(tmp_path), "POCKETMQ_DEFAULTS": str(defaults)}
    assert settings(given).store.directory == f"{tmp_path}/store"
    assert settings(given).http.listen == "0.0.0.0:5557"
    told = settings(
        {**given, "POCKETMQ__STORE__DIRECTORY": "/mine", "POCKETMQ__RPC__LISTEN": "[::]:9"}
    )
    assert (told.store.directory, told.rpc.listen) == ("/mine", "[::]:9")
    assert settings({**given, "POCKETMQ_INSECURE": "1"}).access.check == "off"


def test_the_store_is_where_the_file_or_java_says(tmp_path: Path) -> None:
    file = conf(tmp_path, "storePathRootDir=/data/store\nstorePathCommitLog=/data/commitlog\n")
    assert settings(HOME, file).store.directory == "/data/store"
    java = "-server -Xms512m -Duser.home=/opt -Xmx512m"
    assert settings({**HOME, "JAVA_OPT_EXT": java}).store.directory == "/opt/store"
    assert settings({**HOME, "JAVA_OPT": "-Dmy.user.home=/opt"}).store.directory == "/h/store"


def test_the_port_of_classic_clients_is_not_the_port_of_grpc(tmp_path: Path) -> None:
    file = conf(tmp_path, "listenPort=10911\nbrokerName=b7\nflushDiskType=SYNC_FLUSH\n")
    config = settings(HOME, file)
    assert config.rpc.listen == "0.0.0.0:8081"
    assert config.broker.advertised_port == 0
    assert (config.broker.name, config.store.flush, config.preset) == ("b7", "sync", "server")


def test_a_proxys_file_has_the_ports_and_the_certificate(tmp_path: Path) -> None:
    document: dict[str, object] = {
        "grpcServerPort": 9081,
        "tlsCertPath": "/c",
        "tlsKeyPath": "/k",
        "metricsPromExporterPort": "5558",
    }
    proxy = conf(tmp_path, json.dumps(document), "rmq-proxy.json")
    config = settings(HOME, proxy=proxy)
    assert (config.rpc.listen, config.http.listen) == ("0.0.0.0:9081", "0.0.0.0:5558")
    assert config.rpc.tls_cert == "/c"
    with pytest.raises(IllegalConfig, match=r"none\.json: it cannot be read"):
        settings(HOME, proxy=tmp_path / "none.json")


@pytest.mark.parametrize(
    "environment", [{"ROCKETMQ_HOME": "{}/rocketmq-5.3.2"}, {"HOME": "{}"}], ids=["named", "found"]
)
def test_files_of_rocketmqs_home_count_if_none_is_named(
    tmp_path: Path, environment: Mapping[str, str]
) -> None:
    home = tmp_path / "rocketmq-5.3.2"
    conf(home / "conf", "brokerName=usual\n")
    conf(home / "conf", '{"grpcServerPort": 9081}', "rmq-proxy.json")
    other = conf(home / "conf", "brokerName=other\n", "other.conf")
    given = {name: text.format(tmp_path) for name, text in environment.items()}
    config = settings(given)
    assert (config.broker.name, config.rpc.listen) == ("usual", "0.0.0.0:9081")
    assert settings(given, other).broker.name == "other"
    # RocketMQ's working directory is bin.
    assert settings(given, Path("../conf/other.conf")).broker.name == "other"


def test_a_file_that_is_named_and_missing_is_an_error() -> None:
    with pytest.raises(IllegalConfig, match=r"/none/broker\.conf"):
        settings(HOME, Path("/none/broker.conf"))


def test_calls_are_checked_if_the_file_asks_for_it(tmp_path: Path) -> None:
    for name in ("authenticationEnabled", "aclEnable"):
        assert settings(HOME, conf(tmp_path, f"{name}=true\n")).access.check == "on"
        assert settings(HOME, conf(tmp_path, f"{name}=false\n")).access.check == "users"


def test_the_first_admin_is_the_files(tmp_path: Path) -> None:
    text = 'initAuthenticationUser={"username":"root","password":"s3cret"}\n'
    assert official_start(conf(tmp_path, text), None, {}).admin == ("root", "s3cret")
    assert official_start(None, None, {}).admin == ("", "")
    with pytest.raises(IllegalConfig, match="initAuthenticationUser") as caught:
        official_start(conf(tmp_path, "initAuthenticationUser={s3cret}\n"), None, {})
    assert "s3cret" not in str(caught.value)


def test_names_that_mqbroker_applies_are_not_told_as_without_effect(tmp_path: Path) -> None:
    text = "brokerId=0\naclEnable=true\nauthenticationEnabled=true\ninitAuthenticationUser={}\n"
    file = conf(tmp_path, text)
    (told,) = load(file=file, applied=APPLIED).warnings
    assert told.startswith(f"{file}: without effect: brokerId; reasons: ")
    (other,) = load(file=file).warnings
    assert "brokerId, aclEnable, authenticationEnabled, initAuthenticationUser; " in other
