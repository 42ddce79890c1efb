"""The wheel holds what a client and a server need: types, protos, no tests; compiled or not."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import compile_modules
from pocketmq import native

ROOT = Path(__file__).resolve().parents[2]
TREE = ("broker", "conf", "proto", "scripts", "pyproject.toml", "README.md", "LICENSE")
COMPILE_S = 600
"""A library that is not up to date is compiled for its wheel: a minute or two of a free machine."""
WHO_RUNS = "import pocketmq.native.probe as p; from pocketmq import native; print(p.__file__)"


def built(
    kind: str, place: Path, *, root: Path = ROOT, **environment: str
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Builds a wheel or an sdist of a tree; returns it and what was said."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(place)]
    done = subprocess.run(
        command,
        cwd=root,
        env={**os.environ, "POCKETMQ_COMPILE": "0", **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=COMPILE_S,
    )
    (made,) = place.iterdir()
    return made, done


def names_in(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that a wheel is made of, apart from this checkout, with the compiled library."""
    root = tmp_path_factory.mktemp("tree")
    for name in TREE:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, root / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, root / name)
    return root


def test_the_wheel_holds_types_protos_and_data(tmp_path: Path) -> None:
    wheel, _ = built("wheel", tmp_path)
    names = names_in(wheel)
    protos = {f"pocketmq/{path.relative_to(ROOT)}" for path in ROOT.glob("proto/**/*.proto")}
    stubs = {str(path.relative_to(ROOT / "broker")) for path in ROOT.glob("broker/**/*.pyi")}
    assert len(protos) == len(stubs) == 6
    wanted = {
        "pocketmq/py.typed",
        "pocketmq/client/__init__.py",
        "pocketmq/backfill/log4j2.properties",
        *(f"pocketmq/{path.relative_to(ROOT / 'conf')}" for path in ROOT.glob("conf/monitoring/*")),
    }
    assert names >= protos | stubs | wanted
    tops = {name.partition("/")[0].partition("-")[0] for name in names}
    assert tops == {"pocketmq", "pyspark_pocketmq"}
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in names if name.startswith("pocketmq/native/built/")]


@pytest.fixture(scope="module")
def compiled_wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with the library."""
    place = tmp_path_factory.mktemp("compiled")
    return built("wheel", place, root=tree, POCKETMQ_COMPILE="1")[0]


@pytest.mark.timeout(120, func_only=True)  # compiling has its own limit
@pytest.mark.skipif(bool(compile_modules.lacking()), reason="a C compiler is missing")
def test_a_compiled_wheel_is_of_this_platform_and_runs_compiled(
    tree: Path, compiled_wheel: Path, tmp_path: Path
) -> None:
    assert not compiled_wheel.name.endswith("-none-any.whl")
    own = {name for name in names_in(compiled_wheel) if name.startswith("pocketmq/native/built/")}
    compiled = {f"pocketmq/native/built/{name}{native.SUFFIX}" for name in native.COMPILED}
    in_tree = tree / "broker" / native.BUILT.relative_to(ROOT / "broker")
    assert own == {str(path.relative_to(tree / "broker")) for path in in_tree.glob("[!.]*")}
    assert own > compiled
    zipfile.ZipFile(compiled_wheel).extractall(tmp_path / "site")
    done = subprocess.run(
        [sys.executable, "-c", WHO_RUNS],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site"), native.PURE_VARIABLE: "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (Path(done.stdout.strip()).parent, done.stderr) == (
        tmp_path / "site" / "pocketmq" / "native" / "built",
        "",
    )


def test_without_a_compiler_the_wheel_holds_the_sources_and_says_why(
    tree: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "tree"
    shutil.copytree(tree, bare, ignore=shutil.ignore_patterns("built"))
    wheel, done = built("wheel", tmp_path / "dist", root=bare, POCKETMQ_COMPILE="auto", CC="no-cc")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert "no C compiler: no-cc is not on the PATH" in done.stdout + done.stderr
    with pytest.raises(subprocess.CalledProcessError) as refused:
        built("wheel", tmp_path / "other", root=bare, POCKETMQ_COMPILE="1", CC="no-cc")
    assert "POCKETMQ_COMPILE=1 asks for a compiled wheel" in refused.value.stderr


@pytest.mark.parametrize(
    "name", ["proto/pocketmq/v1/broker.proto", "conf/broker.toml", "compose.yaml",
             "conf/systemd/pocketmq.service", "conf/kubernetes/pocketmq.yaml",
             "docs/howto/client.md",
             "examples/producer.py", "README.md", "CHANGELOG.md", "broker/pocketmq/py.typed",
             "scripts/build_hook.py", "scripts/compile_library.py", "scripts/compile_modules.py"]
)  # fmt: skip
def test_the_sdist_holds_all_that_a_checkout_does(name: str, sdist: set[str]) -> None:
    assert name in sdist


def test_the_sdist_holds_nothing_compiled(sdist: set[str]) -> None:
    assert not [name for name in sdist if name.endswith(native.SUFFIX)]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names in an sdist."""
    made, _ = built("sdist", tmp_path_factory.mktemp("sdist"))
    with tarfile.open(made) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}
