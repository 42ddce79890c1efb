"""Compiles the modules of pocketmq.native.COMPILED into one library; see scripts/compile.

A library of the same sources is kept. The file `sources`, which a broker reads first, is removed
before and written after all other files, so a broker never sees a part of the library. The other
files are replaced one by one, so a broker that has just read `sources` finds all files.
"""

import argparse
import ast
import fcntl
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import chain
from pathlib import Path, PurePath
from time import perf_counter
from typing import Final, TextIO

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE_ROOT: Final = ROOT / "broker"
sys.path.insert(0, str(SOURCE_ROOT))

from pocketmq import native  # noqa: E402
from tidy_source import imported, is_test, read_project  # noqa: E402

CACHE: Final = ROOT / ".cache" / "mypyc"
OBJECTS: Final = ROOT / ".cache" / "objects"
PACKAGE: Final = f"{native.__name__}.built"
RUN_ONCE: Final = (
    "tests/backfill/", "tests/cli/", "tests/e2e/", "tests/faults/", "tests/files/",
    "tests/rebuild/", "tests/rpc/own/test_requests_go.py", "tests/rpc/test_authorisation.py",
    "tests/rpc/test_serving.py",
    "tests/services/consume/test_power_cuts.py", "tests/services/consume/test_walk.py",
    "tests/services/test_handing_over.py", "tests/services/test_later_walk.py",
    "tests/services/test_schedule", "tests/services/test_timer",
    "tests/services/transaction/test_crashes.py", "tests/store/read/test_unit_repair.py",
    "tests/store/test_left_over.py", "tests/tools/", "tests/walk/", "tests/wire/test_chance.py",
)  # fmt: skip
"""Tests that exercise compiled modules little (whole processes, files, offline tools, access,
delays), or last long (walks, crash explorers, traced memory, random frames)."""
VALUES: Final = frozenset({
    "pocketmq.format.addresses", "pocketmq.format.properties", "pocketmq.model.batch",
    "pocketmq.model.stats", "pocketmq.rpc.pending_reply", "pocketmq.services.produce.rules",
})  # fmt: skip
"""Modules whose values tests of all kinds are made of: only tests of their name exercise them."""
APART: Final = frozenset({
    "pocketmq.files", "pocketmq.format", "pocketmq.log", "pocketmq.model", "pocketmq.rpc",
    "pocketmq.store",
})  # fmt: skip
"""Packages with modules that do not use each other: a test exercises only those it imports."""
REPORTED: Final = "compile: "
"""Begin of a line of progress of compile_library.py."""
SHOWN_MAX: Final = 8_000
LACKING: Final = 2
"""Exit code if this machine cannot compile."""
DUE: Final = 3
"""Exit code of --check if the library is missing or was made of other sources."""
UNDER_WAY: Final = 4
"""Exit code of --check if another process is compiling."""
LIBRARY: Final = Path(__file__).with_name("compile_library.py")
PROOF: Final = "import sys; from pocketmq import native; sys.exit(native.why_not_compiled() or 0)"


def main() -> int:
    """Compiles the modules, or removes compiled ones; returns 1 or LACKING after a failure."""
    parser = argparse.ArgumentParser(prog="scripts/compile", description=__doc__)
    parser.add_argument("--clean", action="store_true", help="remove what was compiled")
    parser.add_argument("--force", action="store_true", help="compile what is up to date, too")
    parser.add_argument("--list", action="store_true", help="print the names of the files")
    parser.add_argument(
        "--check", action="store_true",
        help=f"compile nothing; exit with {DUE} if there is work, {UNDER_WAY} if it is being done, "
        f"{LACKING} if it cannot be done",
    )  # fmt: skip
    parser.add_argument("--tests", action="store_true", help="only print the tests of the modules")
    given = parser.parse_args()
    os.environ[native.PURE_VARIABLE] = "1"  # Does not load the library that it replaces.
    if given.tests:
        print(*sorted({*chain(*tests_by_module().values())}), sep="\n")
        return 0
    if given.clean:
        with _alone():
            _remove()
        return 0
    if given.force or _is_due():
        if why := lacking():
            print(f"compile: {why}", file=sys.stderr)
            return LACKING
        if given.check:
            return UNDER_WAY if _is_under_way() else DUE
        with _alone():
            # Another process may have compiled meanwhile.
            if (given.force or _is_due()) and (
                code := _compile(sys.stderr if given.list else sys.stdout)
            ):
                return code
    if given.list:
        print(*(path.name for path in files()), sep="\n")
    return 0


def _is_due() -> bool:
    return not native.SOURCES.exists() or bool(native.stale()) or bool(_fault())


def _fault() -> str:
    """Returns the error of a process that loads the compiled modules; empty: they run.

    The process has the caller's PYTHONPATH: there pip gives an isolated build its packages.
    """
    paths = filter(None, (str(SOURCE_ROOT), os.environ.get("PYTHONPATH")))
    proof = _run("-c", PROOF, POCKETMQ_PURE="0", PYTHONPATH=os.pathsep.join(paths))
    return proof.stdout if proof.returncode else ""


def _is_under_way() -> bool:
    try:
        with (native.BUILT / ".lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


@contextmanager
def _alone() -> Iterator[None]:
    """Locks the source tree against a second compilation."""
    native.BUILT.mkdir(exist_ok=True)
    with (native.BUILT / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def lacking() -> str:
    """Returns a description of what this machine lacks for compiling; empty: nothing."""
    place = native.BUILT if native.BUILT.exists() else native.BUILT.parent
    if not os.access(place, os.W_OK):
        return f"this user may not write to {place}"
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler: {compiler} is not on the PATH"
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.exists():
        return f"Python's headers are missing: there is no {header}"
    absent = [name for name in ("mypyc", "setuptools", "librt") if find_spec(name) is None]
    return f"Python's packages {', '.join(absent)} are missing" if absent else ""


def followed(command: list[str], progress: TextIO) -> tuple[int, str]:
    """Runs a program, passing on its progress; returns its exit code and its other lines."""
    words: list[str] = []
    with subprocess.Popen(
        [sys.executable, *command],
        cwd=SOURCE_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None, "a pipe"
        for line in process.stdout:
            if line.startswith(REPORTED):
                print(line, end="", file=progress, flush=True)
            else:
                words.append(line)
    return process.returncode, "".join(words)


def tests_by_module() -> dict[str, list[str]]:
    """Returns the paths of each compiled module's unit tests, sorted.

    These are tests that import the module, or another compiled one that imports it, and tests in
    the folder of its package.
    """
    project = read_project(ROOT)
    known = {source.dotted: source for source in project.broker}
    uses = {
        name: {source.dotted for source in imported(known[name], known)} for name in native.COMPILED
    }
    found: dict[str, list[str]] = {name: [] for name in native.COMPILED}
    for test in filter(is_test, project.sources):
        if not test.path.startswith(RUN_ONCE):
            subjects = {source.dotted for source in imported(test, known)}
            for name in _exercised(test.name, subjects, uses):
                found[name].append(test.path)
    return found


def _exercised(test: PurePath, subjects: set[str], uses: Mapping[str, set[str]]) -> set[str]:
    """Returns the compiled modules that a test exercises; `subjects`: those it imports."""
    folder = ".".join(["pocketmq", *test.parts[1:-1]])
    found, further = set[str](), set[str]()
    for name in native.COMPILED:
        package, _, last = name.rpartition(".")
        if name in VALUES:
            is_own = package == folder and test.stem == f"test_{last}"
        else:
            is_own = name in subjects or (package == folder and folder not in APART)
        if is_own:
            further.add(name)
    while further:
        found |= further
        further = {used for name in further for used in uses[name] & uses.keys()} - found
    return found


def files() -> list[Path]:
    """Returns the compiled files of this interpreter, `sources` last."""
    return [*sorted(native.BUILT.glob(f"*{native.SUFFIX}")), native.SOURCES]


def _remove() -> None:
    for path in reversed(files()):
        path.unlink(missing_ok=True)


def _compile(progress: TextIO) -> int:
    """Compiles; `progress` gets lines at once, on another stream than the names of --list."""
    began = perf_counter()
    print(
        f"{REPORTED}{len(native.COMPILED)} modules, a minute or less …", file=progress, flush=True
    )
    # Digests precede the compilation: an edit during it makes the library stale, not wrong.
    digests = {path: native.digest_of(path) for path in depends_on()}
    with tempfile.TemporaryDirectory(prefix="pocketmq-compile-") as scratch:
        paths = map(native.source_of, native.COMPILED)
        command = [str(LIBRARY), scratch, str(CACHE), str(OBJECTS), PACKAGE, *paths]
        code, words = followed(command, progress)
        if code:
            print(words[-SHOWN_MAX:], file=sys.stderr)
            return 1
        _take(Path(scratch, "lib"), "".join(f"{digests[path]}  {path}\n" for path in digests))
    if fault := _fault():
        print(f"compiled, but {fault}", file=sys.stderr)
        return 1
    size = sum(path.stat().st_size for path in files())
    seconds = perf_counter() - began
    count = len(native.COMPILED)
    print(
        f"compile: {count} modules compiled in {seconds:.0f} s, {size // 1024} KiB", file=sys.stderr
    )
    return 0


def _run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=SOURCE_ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def _take(made: Path, sources: str) -> None:
    """Moves the compiled files from directories of packages to one directory, by full names."""
    native.SOURCES.unlink(missing_ok=True)
    old = {*files()}
    for path in made.rglob(f"*{native.SUFFIX}"):
        target = native.BUILT / ".".join(path.relative_to(made).parts).removeprefix(f"{PACKAGE}.")
        draft = target.with_suffix(".new")
        shutil.copy(path, draft)
        # Renamed, not overwritten: a running broker maps the old file.
        draft.rename(target)
        old.discard(target)
    for path in old:
        path.unlink(missing_ok=True)
    draft = native.SOURCES.with_name("sources.new")
    draft.write_text(sources)
    draft.rename(native.SOURCES)


def depends_on() -> list[str]:
    """Returns the paths of the sources that the library depends on, sorted.

    These are the compiled modules, and the package's modules that they import, as constants are
    inlined. For a re-exported name the module that defines it also counts.
    """
    wanted = {native.source_of(name) for name in native.COMPILED}
    for path in sorted(wanted):
        for module, name in _imports(path):
            wanted.update(_origins(module, name))
    return sorted(wanted)


def _imports(path: str) -> Iterator[tuple[str, str]]:
    """Yields (module, name) for each import of a source; a whole module has the name *."""
    for node in ast.walk(ast.parse((SOURCE_ROOT / path).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "*") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)


def _origins(module: str, name: str) -> Iterator[str]:
    """Yields the sources of a name: the module itself, and the modules that it imports it from."""
    if module.partition(".")[0] != "pocketmq":
        return
    path = _path_of(f"{module}.{name}") or _path_of(module)
    yield path
    for further, passed_on in _imports(path):
        if passed_on in (name, "*") and further != module:
            yield from _origins(further, name)


def _path_of(module: str) -> str:
    """Returns the path of a module's or package's source; empty: there is none."""
    for path in (native.source_of(module), native.source_of(f"{module}.__init__")):
        if (SOURCE_ROOT / path).exists():
            return path
    return ""


if __name__ == "__main__":
    sys.exit(main())
