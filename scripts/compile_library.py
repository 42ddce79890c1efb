"""Builds one library of typed modules by mypyc: a C file and an object of each, linked.

    compile_library.py SCRATCH MYPY_CACHE OBJECT_CACHE PACKAGE PATHS…

mypyc runs in a separate process, so that its half GiB is free before the compilers start. One
compiler runs per processor. A cached object is reused if all its inputs are equal: sources,
headers, options, compiler, interpreter. Its name contains a digest of the inputs and a digest of
its content, so that an object torn by a power failure is not used.
"""

import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path
from shutil import copy
from threading import Lock
from time import perf_counter
from typing import Any, Final

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

OBJECTS_MAX: Final = 600
"""Most objects in the cache; the least recently used go first. A library has about 150."""
# Types are checked elsewhere, with all imports installed. Compiling requires only mypy and
# setuptools.
MYPY: Final = (
    "--config-file=", "--explicit-package-bases", "--ignore-missing-imports",
    "--follow-imports=silent",
)  # fmt: skip
# Hidden symbols make calls between modules direct. Warnings about generated C are useless, and
# mypyc would make them errors.
OPTIONS: Final = ("-fvisibility=hidden", "-w")
OPTIMIZE: Final = "POCKETMQ_OPTIMIZE"
"""Environment variable with gcc's level of optimization: at 0, compiling takes half as long."""
REPORTED: Final = "compile: "
"""Begin of a line of progress."""
# Environment variables that compilers read.
SEARCHED: Final = ("CPATH", "C_INCLUDE_PATH", "SDKROOT", "MACOSX_DEPLOYMENT_TARGET")


def main(scratch: Path, mypy_cache: str, objects: Path, package: str, *paths: str) -> None:
    """Translates the modules and builds the library in SCRATCH/lib.

    Errors   SystemExit: mypy or a compiler failed, and has printed its errors
    """
    c = scratch / "c"
    began = perf_counter()
    with ProcessPoolExecutor(1) as pool:
        extensions = pool.submit(translate, c, mypy_cache, package, paths).result()
    sources = {source for extension in extensions for source in extension.sources}
    seconds = perf_counter() - began
    report(f"{len(paths)} modules translated to {len(sources)} C files in {seconds:.0f} s")
    for extension in extensions:
        extension.extra_compile_args = [*extension.extra_compile_args, *OPTIONS]
        places = {*extension.include_dirs, str(c.joinpath(*package.split(".")))}
        extension.include_dirs = sorted(places)  # mypyc's order differs from run to run
        extension.depends = sorted(extension.depends)
    build(scratch, objects, extensions, [*headers(c, extensions), *interpreter()])


def report(text: str) -> None:
    """Prints a line of progress, which compile_modules.py passes on at once."""
    print(f"{REPORTED}{text}", flush=True)


class Progress:
    """Reports each tenth of a number of files."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._done = 0
        self._lock = Lock()
        assert count >= 0, "a number of files"

    def step(self) -> None:
        """Counts one file."""
        with self._lock:
            before = 10 * self._done // self.count
            self._done += 1
            if 10 * self._done // self.count > before:
                report(f"{self._done} of {self.count} C files compiled")


def build(scratch: Path, cache: Path, extensions: list[Extension], common: Iterable[bytes]) -> None:
    """Compiles and links extensions into SCRATCH/lib; all their objects depend on `common`.

    Errors   SystemExit: a compiler failed, and has printed its errors
    """
    cache.mkdir(parents=True, exist_ok=True)
    os.chdir(scratch)  # A directory without a pyproject.toml, which setuptools would read.
    setup(
        name="pocketmq",
        ext_modules=extensions,
        cmdclass={"build_ext": parallel_build(scratch, cache, [*common])},
        script_args=[
            "-q", "build_ext", "--build-lib", f"{scratch}/lib", "--build-temp", f"{scratch}/o",
            "--parallel", str(processors()),
        ],
    )  # fmt: skip
    prune(cache)


def translate(c: Path, cache: str, package: str, paths: Iterable[str]) -> list[Extension]:
    """Writes C files; returns the extensions to build: a library, and one entry for each module."""
    from mypyc.build import mypycify

    made: list[Extension] = mypycify(
        [*MYPY, f"--cache-dir={cache}", *paths],
        group_name=f"{package}.modules",
        target_dir=str(c),
        opt_level=os.environ.get(OPTIMIZE, "3"),
        debug_level="0",
        multi_file=True,
    )
    return made


def processors() -> int:
    """Returns the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def headers(c: Path, extensions: Iterable[Extension]) -> list[bytes]:
    """Returns the texts of all headers that mypyc wrote or contains, in order."""
    places = {Path(place) for extension in extensions for place in extension.include_dirs} | {c}
    found = {path for place in places for path in place.rglob("*.h")}
    return [path.read_bytes() for path in sorted(found)]


def interpreter() -> list[bytes]:
    """Returns texts that identify the interpreter, the machine and their settings."""
    searched = [f"{name}={os.environ.get(name, '')}" for name in SEARCHED]
    return [*map(os.fsencode, (sys.version, sys.prefix, *os.uname()[2:], *searched))]


def parallel_build(scratch: Path, cache: Path, common: list[bytes]) -> type[build_ext]:
    """Returns a setuptools command that compiles sources in parallel, or reuses cached objects."""

    class ParallelBuild(build_ext):  # type: ignore[misc]
        """The setuptools command that compiles all sources of an extension in parallel."""

        def build_extensions(self) -> None:
            compiler = self.compiler
            compile_one = compiler.compile
            command = [*compiler.compiler_so, "--version"]
            said = subprocess.run(command, capture_output=True, check=False).stdout
            progress = Progress(sum(len(extension.sources) for extension in self.extensions))
            of_all = [*common, said, *map(os.fsencode, compiler.compiler_so)]
            known = {path.name.partition("-")[0]: path for path in cache.glob("*.o")}

            def compiled(source: str, **options: Any) -> str:
                words = repr(sorted(options.items())).replace(str(scratch), "")
                texts = [*of_all, words.encode(), Path(source).name.encode()]
                key = digest([*texts, Path(source).read_bytes()])
                kept = known.get(key)
                if kept is not None and kept.name == name_of(key, kept):
                    kept.touch()
                else:
                    if kept is not None:
                        kept.unlink()
                    (made,) = compile_one([source], **options)
                    kept = cache / name_of(key, Path(made))
                    draft = kept.with_suffix(".new")
                    copy(made, draft)
                    draft.rename(kept)
                progress.step()
                return str(kept)

            def compile_all(sources: list[str], **options: Any) -> list[str]:
                with ThreadPoolExecutor(processors()) as pool:
                    return [*pool.map(partial(compiled, **options), sources)]

            compiler.compile = compile_all
            super().build_extensions()

    return ParallelBuild


def digest(texts: Iterable[bytes]) -> str:
    """Returns the SHA-256 of a list of texts; the limits between texts count."""
    return sha256(b"".join(sha256(text).digest() for text in texts)).hexdigest()


def name_of(key: str, made: Path) -> str:
    """Returns the cache name of an object; `key` is the digest of its inputs."""
    return f"{key}-{digest([made.read_bytes()])}.o"


def prune(cache: Path) -> None:
    """Removes all but the OBJECTS_MAX most recently used objects."""
    objects = sorted(cache.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    for path in objects[:-OBJECTS_MAX]:
        path.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), *sys.argv[4:])
