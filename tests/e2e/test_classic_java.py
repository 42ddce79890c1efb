"""RocketMQ's classic client for Java works as it is, with the broker's port as its name server."""

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.daemon import Daemon
from tests.e2e.official.programs import built, need, run

OWN: Final = Path(__file__).parent / "classic"
RUN_S: Final = 500
CASES: Final = [
    "push by tag", "two members share", "the rest takes over", "retry", "dead letter by pull",
    "orderly", "broadcast", "lite pull", "push by sql",
]  # fmt: skip


def program(version: str) -> str:
    """Returns the class path of the program with a version of the client."""
    need("java", "javac", "mvn")

    def build(folder: Path) -> None:
        classpath = folder / "classpath"
        run(
            "mvn", "-q", "-B", "-f", str(OWN / "pom.xml"), f"-Drocketmq={version}",
            "dependency:build-classpath", f"-Dmdep.outputFile={classpath}",
        )  # fmt: skip
        needed = classpath.read_text("utf-8").strip()
        run("javac", "-nowarn", "-d", str(folder), "-cp", needed, str(OWN / "Classic.java"))

    folder = built(
        f"classic-{version}", [OWN / name for name in ("pom.xml", "Classic.java")], build
    )
    return f"{folder}{os.pathsep}{(folder / 'classpath').read_text('utf-8').strip()}"


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3"])
def test_consumers_for_java(tmp_path: Path, version: str) -> None:
    classes = program(version)
    with Daemon(tmp_path / "store") as daemon:
        done = subprocess.run(
            ("java", f"-Duser.home={tmp_path}", "-Xmx256m", "-cp", classes, "Classic",
             daemon.endpoint),
            capture_output=True, text=True, check=False, timeout=RUN_S,
        )  # fmt: skip
    told = [line for line in done.stdout.splitlines() if line.startswith(("ok ", "failed "))]
    assert told == [f"ok {name}" for name in CASES], done.stderr[-2_000:]
