"""The wheel holds what a client and a server need: types, protos, and no tests."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def built(kind: str, place: Path) -> Path:
    """Build a wheel or an sdist of this checkout."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(place)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (made,) = place.iterdir()
    return made


def test_the_wheel_holds_types_protos_and_data(tmp_path: Path) -> None:
    names = set(zipfile.ZipFile(built("wheel", tmp_path)).namelist())
    protos = {f"broker/{path.relative_to(ROOT)}" for path in ROOT.glob("proto/**/*.proto")}
    stubs = {str(path.relative_to(ROOT)) for path in ROOT.glob("broker/**/*.pyi")}
    assert len(protos) == len(stubs) == 3
    wanted = {"broker/py.typed", "broker/client/__init__.py", "broker/backfill/log4j2.properties"}
    assert names >= protos | stubs | wanted
    tops = {name.partition("/")[0].partition("-")[0] for name in names}
    assert tops == {"broker", "pocketmq"}


@pytest.mark.parametrize(
    "name", ["proto/pocketmq/v1/broker.proto", "conf/broker.toml", "docs/client.md",
             "examples/blocking.py", "README.md", "CHANGELOG.md", "broker/py.typed"]
)  # fmt: skip
def test_the_sdist_holds_all_that_a_checkout_does(name: str, sdist: set[str]) -> None:
    assert name in sdist


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names in an sdist."""
    with tarfile.open(built("sdist", tmp_path_factory.mktemp("sdist"))) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}
