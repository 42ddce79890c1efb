"""A release: wheels from the sdist with the commit, an SBOM of the lock, sums, refusals."""

import json
import os
import re
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path
from venv import EnvBuilder

import grpc
import pytest

import core_lock
import make_release
from make_release import ReleaseFault, checked_version, main, pythons_found
from pocketmq import __version__
from pocketmq.native.commit import commit

ROOT = make_release.ROOT
WHEEL = f"pocketmq-{__version__}-py3-none-any.whl"
SDIST = f"pocketmq-{__version__}.tar.gz"
COMMIT = "1" * 40
SBOM = f"pocketmq-{__version__}.cdx.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trial release without compiled wheels."""
    place = tmp_path_factory.mktemp("release") / "files"
    assert main(["--trial", "--pure", "--out", str(place)]) == 0
    return place


def test_the_files_are_an_sdist_a_wheel_an_sbom_and_their_sums(made: Path) -> None:
    assert {path.name for path in made.iterdir()} == {WHEEL, SDIST, SBOM, "SHA256SUMS"}
    lines = [line.split("  ") for line in (made / "SHA256SUMS").read_text().splitlines()]
    assert [name for _, name in lines] == sorted([WHEEL, SDIST, SBOM])
    for digest, name in lines:
        assert sha256((made / name).read_bytes()).hexdigest() == digest


def test_the_wheel_of_the_sdist_is_that_of_the_checkout(made: Path, tmp_path: Path) -> None:
    wheel = make_release.built_wheel(Path(sys.executable), ROOT, tmp_path, compiled=False)
    assert wheel.read_bytes() == (made / WHEEL).read_bytes()


def test_an_installed_wheel_names_its_version_and_commit(made: Path, tmp_path: Path) -> None:
    """In an environment of its own, which borrows only the dependencies of this one."""
    environment = tmp_path / "env"
    EnvBuilder(symlinks=True).create(environment)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps"]
    subprocess.run([*pip, "--no-index", str(made / WHEEL)], check=True)
    (site,) = environment.glob("lib/python3.*/site-packages")
    (site / "borrowed.pth").write_text(f"{Path(grpc.__file__).parents[1]}\n")
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}

    def told(*arguments: str) -> str:
        command = [str(environment / "bin" / "pocketmq"), *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=kept, stdout=subprocess.PIPE, text=True, check=True
        ).stdout

    shown = json.loads(told("version", "-o", "json"))
    assert (shown["version"], shown["commit"]) == (__version__, commit())
    assert told("--version") == f"pocketmq, version {__version__} (commit {commit()[:12]})\n"


def test_the_wheel_holds_the_commit(made: Path) -> None:
    with zipfile.ZipFile(made / WHEEL) as archive:
        assert archive.read("pocketmq/native/COMMIT").decode() == f"{commit()}\n"


@pytest.mark.parametrize("named", [COMMIT, ""])
def test_a_tree_without_git_has_the_commit_that_the_environment_names(
    named: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = make_release.unpacked(made / SDIST, tmp_path)
    (tree / "broker" / "pocketmq" / "native" / "COMMIT").unlink()
    monkeypatch.setenv("POCKETMQ_COMMIT", named)
    wheel = make_release.built_wheel(Path(sys.executable), tree, tmp_path, compiled=False)
    with zipfile.ZipFile(wheel) as archive:
        is_there = "pocketmq/native/COMMIT" in archive.namelist()
        assert is_there == bool(named)
        assert not named or archive.read("pocketmq/native/COMMIT").decode() == f"{named}\n"


def test_the_sbom_has_the_pinned_core_with_its_hashes(made: Path) -> None:
    bill = json.loads((made / SBOM).read_text())
    lock = (ROOT / "requirements.lock").read_text()
    core = core_lock.core_of(lock, core_lock.core_names())
    pinned = {pin.split()[0] for pin in core_lock.pins(core)}
    found = {f"{one['name']}=={one['version']}" for one in bill["components"]}
    assert (bill["bomFormat"], found) == ("CycloneDX", pinned)
    assert bill["metadata"]["component"]["name"] == "pocketmq"
    hashes = {
        one["content"]
        for component in bill["components"]
        for reference in component["externalReferences"]
        for one in reference["hashes"]
    }
    assert hashes == set(re.findall(r"sha256:([0-9a-f]{64})", core))


def test_files_of_an_earlier_release_are_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--trial", "--pure", "--out", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"release: {tmp_path} exists: remove it, or give another --out\n"
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A committed tree that can be released."""
    (tmp_path / "broker" / "pocketmq").mkdir(parents=True)
    (tmp_path / "broker" / "pocketmq" / "__init__.py").write_text('__version__ = "1.2.3"\n')
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text("## 1.2.3 - 2026-11-27\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.example"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "A tree"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    return tmp_path


def test_a_committed_tree_with_a_dated_version_is_released(checkout: Path) -> None:
    assert checked_version(checkout) == "1.2.3"


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("pyproject.toml", 'version = "1.2.4"\n', "does not name version 1.2.3"),
        ("CHANGELOG.md", "## Unreleased\n", "no dated part of 1.2.3"),
        ("new.py", "", "1 files are not committed"),
    ],
)
def test_another_tree_is_not(checkout: Path, name: str, text: str, why: str) -> None:
    (checkout / name).write_text(text)
    with pytest.raises(ReleaseFault, match=why):
        checked_version(checkout)
    if name != "pyproject.toml":
        assert checked_version(checkout, is_trial=True) == "1.2.3"


def test_each_python_is_taken_once_and_a_named_one_must_run() -> None:
    this, again = pythons_found([sys.executable]), pythons_found([sys.executable, "python3"])
    assert this == again[: len(this)]
    with pytest.raises(ReleaseFault, match="no-such-python does not run"):
        pythons_found(["no-such-python"])


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "scripts/release --python" in capsys.readouterr().out
