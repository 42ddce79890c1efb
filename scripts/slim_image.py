"""Prepares the image's environment: `slim` removes files no broker reads, `warm` writes bytecode.

    python3 scripts/slim_image.py slim /opt/pocketmq    in the stage that builds
    python3 scripts/slim_image.py warm                  in the image, as root

The root of a container may be read-only, so bytecode that is missing is made at each start again.
`warm` runs one broker and some commands, which write the bytecode of the modules they import.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.request import ProxyHandler, build_opener

DIRECTORIES: Final = frozenset({"__pycache__", "tests", "test"})
"""Names of directories that programs never read, wherever they are."""
SUFFIXES: Final = frozenset({".pyi", ".pyx", ".pxd", ".pyd", ".h", ".c", ".a", ".pyc"})
PACKAGES: Final = (
    "numpy/f2py",
    "numpy/distutils",
    "numpy/random",
    "numpy/_core/_simd.*",
    "numpy/_core/*_tests.*",
    "pygments",  # for coloured source code, which no command prints
    "zstandard/_cffi.*",  # for PyPy
)
"""Parts of packages that the broker and its commands do not import."""
WITH_DEBUG: Final = ("zstandard", "uvloop", "lz4", "librt")
"""Packages whose libraries contain debug information."""
CHECKED: Final = ("lz4.frame", "zstandard", "urllib.request")
"""Modules of calls that the commands below do not make; uvloop has a silent replacement."""
PATIENCE_S: Final = 120


def removable(packages: Path) -> Iterator[Path]:
    """Yields the directories and files below a directory of packages that can be removed."""
    for pattern in PACKAGES:
        yield from packages.glob(pattern)
    for place, directories, files in os.walk(packages):
        yield from (Path(place, name) for name in directories if name in DIRECTORIES)
        directories[:] = [name for name in directories if name not in DIRECTORIES]
        yield from (Path(place, name) for name in files if Path(name).suffix in SUFFIXES)


def slim(environment: Path) -> None:
    """Removes what no broker reads from an environment, and debug information if `strip` exists."""
    (packages,) = environment.glob("lib/python3*/site-packages")
    for path in [*removable(packages)]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    libraries = [one for name in WITH_DEBUG for one in (packages / name).rglob("*.so")]
    if shutil.which("strip"):
        subprocess.run(["strip", "--strip-debug", *map(str, libraries)], check=True)


def warm() -> None:
    """Runs a broker and some commands, so that Python writes the bytecode of what they import."""
    environment = {name: text for name, text in os.environ.items() if "BYTECODE" not in name}
    broker = subprocess.Popen(
        ["pocketmq", "dev"], stdout=subprocess.PIPE, env=environment, text=True
    )
    try:
        assert broker.stdout is not None
        addresses = json.loads(broker.stdout.readline())
        environment["POCKETMQ_ENDPOINT"] = addresses["grpc"]
        with build_opener(ProxyHandler({})).open(addresses["console"], timeout=PATIENCE_S) as page:
            page.read()  # The console's process has bytecode of its own.
        for line in ("produce orders hello", "consume orders --pull --from min", "status -o table",
                     "topic ls -o table", "user --help", "serve --help"):  # fmt: skip
            command = ["pocketmq", *line.split()]
            subprocess.run(
                command, stdout=subprocess.DEVNULL, env=environment, check=True, timeout=PATIENCE_S
            )
        check = ["python", "-c", f"import uvloop, {', '.join(CHECKED)}"]
        subprocess.run(check, env=environment, check=True)
    finally:
        broker.terminate()
        broker.wait(PATIENCE_S)


def main(arguments: list[str]) -> None:
    """Runs `slim DIR` or `warm`."""
    if arguments[:1] == ["slim"]:
        slim(Path(arguments[1]))
    else:
        assert arguments == ["warm"], __doc__
        warm()


if __name__ == "__main__":
    main(sys.argv[1:])
