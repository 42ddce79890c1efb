"""The image serves as its user on a read-only root, keeps its store in the volume, and stops.

What two bare Debians stand in for, one of them with a compiler, are python:3.13-slim and
python:3.13, which no machine without a registry has.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from debian_root import CACHE, Unavailable
from enclosure import lacking
from tests.e2e.image import Container, Image, built_image, health_command

pytestmark = pytest.mark.timeout(700)  # the first time two Debians are fetched and laid out

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
    assert image.settings["Entrypoint"][:2] == ["pocketmq", "serve"]
    assert not image.settings["Cmd"]
    assert set(image.settings["ExposedPorts"]) == {"8081/tcp", "5557/tcp"}


def test_the_image_holds_the_broker_and_no_tools(image: Image, volume: Path) -> None:
    code = "import importlib.metadata as m; print(*sorted(d.name for d in m.distributions()))"
    names = image.run(volume, "/opt/pocketmq/bin/python", "-c", code).out.split()
    assert "pocketmq" in names
    assert "grpcio" in names
    tools = {"pip", "setuptools", "hatchling", "mypy", "pyspark", "pytest"}
    assert not tools & set(names)
    assert not (image.root / "src").exists()


def test_the_image_runs_compiled_and_has_no_compiler(image: Image, volume: Path) -> None:
    shown = image.run(volume, "pocketmq", "version", "-o", "json")
    assert json.loads(shown.out)["modules"] == "compiled", shown.err
    assert image.run(volume, "/bin/sh", "-c", "command -v cc gcc").out == ""


def test_nothing_but_the_volume_can_be_written(image: Image, volume: Path) -> None:
    code = "id -u; for at in / /tmp /opt/pocketmq . ; do touch $at/it && echo $at; done"
    tried = image.run(volume, "/bin/sh", "-c", code)
    assert tried.out.split() == [str(USER), "."]
    assert tried.err.count("Read-only file system") == 3


def test_a_container_that_nobody_may_call_does_not_start(image: Image, volume: Path) -> None:
    tried = image.run(volume, "env", *image.settings["Entrypoint"])
    assert tried.code == 2
    assert "there is no user" in tried.err


def test_a_container_keeps_its_store_in_the_volume(image: Image, volume: Path) -> None:
    made = image.run(volume, "pocketmq", "user", "add", "admin", "--admin", "--store", STORE)
    secret = json.loads(made.out)["secret"]
    with Container(image, volume, secret) as broker:
        assert broker.ready["store"] == STORE
        assert broker.ready["pid"] == 1
        assert broker.health() == 0
        sent = broker.ask("produce", "orders", "hello", "-k", "order-42", "-o", "json")
        assert json.loads(sent.out)["status"] == "SEND_OK", sent.err
        read = broker.ask("consume", "orders", "--pull", "--from", "min", "-o", "jsonl")
        assert [row["body_text"] for row in read.rows] == ["hello"]
        assert broker.stop() == 0
    assert '"event":"broker.stopped"' in broker.log.read_text()
    assert {path.stat().st_uid for path in volume.rglob("*")} == {USER}

    with Container(image, volume, secret) as broker:
        found = broker.ask("msg", "by-key", "orders", "order-42", "-o", "jsonl")
        assert found.rows == read.rows
        assert broker.stop() == 0


def test_the_health_command_fails_where_nothing_serves(image: Image, volume: Path) -> None:
    assert image.run(volume, "env", *health_command(image)).code != 0


def test_a_volume_of_someone_else_is_refused_in_words(image: Image, volume: Path) -> None:
    os.chown(volume, 0, 0)
    tried = image.run(volume, "env", *image.settings["Entrypoint"], "--insecure")
    assert tried.code == 74
    assert f"{STORE}/lock: Permission denied" in tried.err
    assert "Traceback" not in tried.err
