"""The image serves as its user on a read-only root, keeps its store in the volume, and stops.

What two bare Debians stand in for, one of them with a compiler, are python:3.13-slim and
python:3.13, which no machine without a registry has.
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from debian_root import CACHE, ROOT, Unavailable
from enclosure import lacking
from pocketmq import __version__
from tests.e2e.image import Container, Image, built_image, health_command
from tests.e2e.recipes import recipes

pytestmark = pytest.mark.timeout(1800)  # the first time two Debians are made, and all is compiled

USER = 3000
STORE = "/var/lib/pocketmq"


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    if missing := lacking("buildah", "debootstrap"):
        pytest.skip(missing)
    CACHE.mkdir(exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="image-", dir=CACHE))
    try:
        with built_image(place) as image:
            yield image
    except Unavailable as error:
        pytest.skip(str(error))
    finally:
        shutil.rmtree(place)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A directory as docker makes a named volume: the image's user owns it."""
    made = tmp_path / "volume"
    made.mkdir(mode=0o755)
    os.chown(made, USER, USER)
    return made


def test_the_image_says_how_it_is_run(image: Image) -> None:
    assert image.settings["User"] == f"{USER}:{USER}"
    assert image.settings["Volumes"] == {STORE: {}}
    assert image.settings["StopSignal"] == "SIGTERM"
    assert image.settings["Entrypoint"] == ["pocketmq"]
    assert image.settings["Cmd"] == ["serve"]
    assert set(image.settings["ExposedPorts"]) == {"8081/tcp", "5557/tcp"}


def test_the_image_names_what_it_is(image: Image) -> None:
    prefix = "org.opencontainers.image."
    labels = {name.removeprefix(prefix): text for name, text in image.settings["Labels"].items()}
    assert labels["title"] == "PocketMQ"
    assert labels["licenses"] == "Apache-2.0"
    assert labels["version"] == __version__
    assert {"description", "revision"} <= labels.keys()


def test_the_image_holds_the_broker_and_no_tools(image: Image, volume: Path) -> None:
    code = "import importlib.metadata as m; print(*sorted(d.name for d in m.distributions()))"
    names = image.run(volume, "/opt/pocketmq/bin/python", "-c", code).out.split()
    assert "pocketmq" in names
    assert "grpcio" in names
    assert image.run(volume, "/opt/pocketmq/bin/python", "-c", "import uvloop, numpy").code == 0
    tools = {"pip", "setuptools", "hatchling", "mypy", "pyspark", "pytest"}
    assert not tools & set(names)
    assert not (image.root / "src" / "broker").exists()  # a mount of the build leaves src itself


def test_the_image_runs_compiled_and_has_no_compiler(image: Image, volume: Path) -> None:
    shown = image.run(volume, "pocketmq", "version", "-o", "json")
    assert json.loads(shown.out)["modules"] == "compiled", shown.err
    assert image.run(volume, "/bin/sh", "-c", "command -v cc gcc").out == ""


def test_nothing_but_the_volume_can_be_written(image: Image, volume: Path) -> None:
    code = "id -u; for at in / /tmp /opt/pocketmq . ; do touch $at/it && echo $at; done"
    tried = image.run(volume, "/bin/sh", "-c", code)
    assert tried.out.split() == [str(USER), "."]
    assert tried.err.count("Read-only file system") == 3


def test_a_container_that_nobody_may_call_does_not_start_and_says_how(
    image: Image, volume: Path
) -> None:
    tried = image.docker_run(volume)
    assert tried.code == 2
    assert "there is no enabled user" in tried.err
    lines = [line for line in tried.err.splitlines() if "docker run" in line]
    assert [re.findall(r"-e (\w+)=", line) for line in lines] == [
        ["POCKETMQ_ADMIN_SECRET"],
        ["POCKETMQ_INSECURE"],
    ]


def test_one_line_starts_a_container_that_is_open(image: Image, volume: Path) -> None:
    with Container(image, volume, environment={"POCKETMQ_INSECURE": "1"}) as broker:
        assert broker.ready["grpc"] == "0.0.0.0:8081"
        assert broker.ask("produce", "orders", "hello").code == 0
        assert broker.ready["console"] == "http://127.0.0.1:5557/"
        assert broker.stop() == 0


def test_one_line_starts_a_container_with_an_admin_who_asks_inside_it_without_keys(
    image: Image, volume: Path
) -> None:
    given = {"POCKETMQ_ADMIN_SECRET": "s3cret"}
    with Container(image, volume, secret="s3cret", environment=given) as broker:
        assert broker.ready["store"] == STORE
        assert broker.ready["pid"] == 1
        assert broker.status_of("/login") == 200  # by the console, in a process of its own
        assert broker.health() == 0
        sent = broker.ask("produce", "orders", "hello", "-k", "order-42", "-o", "json")
        assert json.loads(sent.out)["status"] == "SEND_OK", sent.err
        inside = broker.run("pocketmq", "topic", "ls", "-o", "jsonl")
        assert [row["name"] for row in inside.rows] == ["orders"], inside.err
        read = broker.ask("consume", "orders", "--pull", "--from", "min", "-o", "jsonl")
        assert [row["body_text"] for row in read.rows] == ["hello"]
        assert broker.stop() == 0
    assert '"event":"broker.stopped"' in broker.log.read_text()
    assert {path.stat().st_uid for path in volume.rglob("*")} == {USER}

    with Container(image, volume, secret="s3cret") as broker:
        found = broker.ask("msg", "by-key", "orders", "order-42", "-o", "jsonl")
        assert found.rows == read.rows
        assert broker.stop() == 0


def test_a_user_is_made_in_the_volume_before_the_first_start(image: Image, volume: Path) -> None:
    made = image.docker_run(volume, "user", "add", "admin", "--admin", "--store", STORE)
    with Container(image, volume, secret=json.loads(made.out)["secret"]) as broker:
        assert broker.ask("produce", "orders", "hello").code == 0
        assert broker.stop() == 0


def test_the_image_takes_the_place_of_rocketmqs(image: Image, volume: Path, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=b7\nbrokerId=0\nlistenPort=10911\nflushDiskType=ASYNC_FLUSH\n")
    home = "/home/rocketmq"
    words = ("sh", "mqbroker", "-n", "namesrv:9876", "--enable-proxy", "-c", f"{home}/b.conf")
    with Container(
        image, volume, *words,
        at=f"{home}/store", shared={conf: f"{home}/b.conf"},
        environment={"NAMESRV_ADDR": "namesrv:9876"},
    ) as broker:  # fmt: skip
        assert broker.ready["grpc"] == "0.0.0.0:8081"
        assert broker.ready["store"] == f"{home}/store"
        assert broker.ask("produce", "orders", "hello").code == 0
        shown = broker.ask("status", "-o", "json")
        assert json.loads(shown.out)["broker"] == "b7", shown.out
        assert broker.health() == 0
        assert broker.stop() == 0
    assert (volume / "commitlog").is_dir()


@pytest.mark.parametrize("name", [*recipes()])
def test_a_container_of_each_recipe_is_ready_and_takes_messages(
    image: Image, volume: Path, name: str
) -> None:
    recipe = recipes()[name]
    with Container(image, volume, environment=recipe.environment) as broker:
        assert broker.status_of(recipe.ready_page or "/readyz") == 200
        assert broker.health() == 0
        assert broker.ask("produce", "orders", "hello").code == 0
        assert broker.stop() == 0


def test_the_image_has_the_files_for_prometheus(image: Image, volume: Path) -> None:
    done = image.docker_run(volume, "monitoring", "init", f"{STORE}/monitoring")
    assert done.code == 0, done.err
    place = f"{STORE}/monitoring/prometheus.yml"
    shipped = (ROOT / "conf" / "monitoring").iterdir()
    expected = {path.name: path.read_text("utf-8") for path in shipped}
    made = {path.name: path.read_text("utf-8") for path in (volume / "monitoring").iterdir()}
    assert made["prometheus.yml"].count(place) == 1
    made["prometheus.yml"] = made["prometheus.yml"].replace(place, "conf/monitoring/prometheus.yml")
    assert made == expected


def test_a_start_finds_its_bytecode_in_the_image(image: Image) -> None:
    made = {path.name.partition(".")[0] for path in image.root.glob("opt/**/*.pyc")}
    assert {"serve", "message_store", "multiarray"} <= made
    assert "test_multiarray" not in made


def test_the_image_leaves_out_tests_and_headers(image: Image) -> None:
    packages = image.root / "opt" / "pocketmq"
    assert not [*packages.rglob("tests"), *packages.rglob("*.h"), *packages.rglob("*.pyi")]
    size = sum(path.lstat().st_size for path in packages.rglob("*"))
    assert size < 110 * 2**20, size


def test_the_health_command_fails_where_nothing_serves(image: Image, volume: Path) -> None:
    assert image.run(volume, "env", *health_command(image)).code != 0


def test_a_volume_of_someone_else_is_refused_in_words(image: Image, volume: Path) -> None:
    os.chown(volume, 0, 0)
    tried = image.docker_run(volume, "serve", "--insecure")
    assert tried.code == 2
    assert f"{STORE} of user id 0 is not writable for user id 3000; run the broker as" in tried.err
    assert "Traceback" not in tried.err
