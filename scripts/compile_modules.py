"""Compiles the modules of broker.native.COMPILED into one library; see scripts/compile.

What is there and was made of the same sources stays. The library appears whole or not at all:
`sources`, which a broker looks for first, is removed before and written after everything else.
"""

import argparse
import ast
import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ["POCKETMQ_PURE"] = "1"  # what compiles must not load what it is about to replace

from broker import native  # noqa: E402

CACHE: Final = ROOT / ".cache" / "mypyc"
PACKAGE: Final = f"{native.__name__}.built"


def main() -> int:
    """Compile, or remove what was compiled; 1: it could not be compiled, and why."""
    parser = argparse.ArgumentParser(prog="scripts/compile", description=__doc__)
    parser.add_argument("--clean", action="store_true", help="remove what was compiled")
    parser.add_argument("--force", action="store_true", help="compile what is up to date, too")
    given = parser.parse_args()
    with _alone():
        if given.clean:
            _remove()
            return 0
        if not given.force and native.SOURCES.exists() and not native.stale():
            return 0
        return _compile()


@contextmanager
def _alone() -> Iterator[None]:
    """Two at once in one tree take turns."""
    native.BUILT.mkdir(exist_ok=True)
    with (native.BUILT / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remove() -> None:
    """Remove what was compiled for this interpreter; `sources` first."""
    native.SOURCES.unlink(missing_ok=True)
    for path in native.BUILT.glob(f"*{native.SUFFIX}"):
        path.unlink()


def _compile() -> int:
    began = perf_counter()
    # Taken before the compiler reads: an edit meanwhile makes the outcome stale, not wrong.
    digests = {path: native.digest_of(path) for path in part_of_it()}
    with tempfile.TemporaryDirectory(prefix="pocketmq-compile-") as scratch:
        done = subprocess.run(
            [sys.executable, "-c", SETUP, scratch, str(CACHE), PACKAGE,
             *map(native.source_of, native.COMPILED)],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            print(done.stdout[-8000:], file=sys.stderr)
            return 1
        _remove()
        _take(Path(scratch, "lib"))
    native.SOURCES.write_text("".join(f"{digests[path]}  {path}\n" for path in digests))
    size = sum(path.stat().st_size for path in native.BUILT.glob(f"*{native.SUFFIX}"))
    seconds = perf_counter() - began
    print(f"{len(native.COMPILED)} modules compiled in {seconds:.0f} s, {size // 1024} KiB")
    return 0


SETUP: Final = """
import os, sys
from setuptools import setup
from mypyc.build import mypycify
scratch, cache, package, *paths = sys.argv[1:]
extensions = mypycify(
    ["--cache-dir", cache, *paths], group_name=f"{package}.modules", target_dir=f"{scratch}/c",
    opt_level="3", debug_level="0",
)
os.chdir(scratch)  # where no pyproject.toml has anything to say to setuptools
sys.argv[1:] = ["-q", "build_ext", "--build-lib", f"{scratch}/lib", "--build-temp", f"{scratch}/o"]
setup(name="pocketmq", ext_modules=extensions)
"""


def _take(made: Path) -> None:
    """Put what the compiler made, laid out by packages, into one directory by full names."""
    for path in made.rglob(f"*{native.SUFFIX}"):
        name = ".".join(path.relative_to(made).parts).removeprefix(f"{PACKAGE}.")
        target = native.BUILT / name
        draft = target.with_name(f"{name}.new")
        draft.write_bytes(path.read_bytes())
        draft.chmod(0o755)
        # Renamed, as a running broker has the old file in its memory.
        draft.rename(target)


def part_of_it() -> list[str]:
    """Return the paths of the sources that the library depends on, sorted.

    The compiled modules, and what they import of our own: constants become part of the code. A
    name that a module only passes on counts for the module it comes from as well.
    """
    wanted = {native.source_of(name) for name in native.COMPILED}
    for path in sorted(wanted):
        for module, name in _imports(path):
            wanted.update(_origins(module, name))
    return sorted(wanted)


def _imports(path: str) -> Iterator[tuple[str, str]]:
    """Yield (module, name) of what a source imports of our own; a whole module has name *."""
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "*") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)


def _origins(module: str, name: str) -> Iterator[str]:
    """Yield the sources that a name comes from: the module asked, and those it has it from."""
    if module.partition(".")[0] != "broker":
        return
    inner = f"{module}.{name}"
    for candidate in (inner, module):
        for path in (native.source_of(candidate), f"{candidate.replace('.', '/')}/__init__.py"):
            if not (ROOT / path).exists():
                continue
            yield path
            for further, passed_on in _imports(path):
                if candidate == module and passed_on in (name, "*") and further != module:
                    yield from _origins(further, name)
            return


if __name__ == "__main__":
    sys.exit(main())
