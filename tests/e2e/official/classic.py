"""RocketMQ's classic client for Java: programs that are compiled with a version of it."""

import os
from pathlib import Path
from typing import Final

from tests.e2e.official.programs import Program, built, need, run

VERSIONS: Final = ("5.3.3", "4.9.8")
QUICK: Final = tuple(
    f"-Drocketmq.client.rebalance.{name}=1000"
    for name in ("waitInterval", "minInterval", "lockInterval")
)
"""Rebalance and lock queues each second: the default is 20 s."""
OWN: Final = Path(__file__).parents[1] / "classic"


def classic_program(version: str, source: str, artifact: str = "rocketmq-client") -> str:
    """Returns the class path of a program with a version of the client.

    source     name of its file, "Classic.java"
    artifact   RocketMQ's module that it needs
    Errors   Missing
    """
    need("java", "javac", "mvn")

    def build(folder: Path) -> None:
        classpath = folder / "classpath"
        run(
            "mvn", "-q", "-B", "-f", str(OWN / "pom.xml"), f"-Drocketmq={version}",
            f"-Dartifact={artifact}",
            "dependency:build-classpath", f"-Dmdep.outputFile={classpath}",
        )  # fmt: skip
        needed = classpath.read_text("utf-8").strip()
        run("javac", "-nowarn", "-d", str(folder), "-cp", needed, str(OWN / source))

    folder = built(f"classic-{version}", [OWN / "pom.xml", OWN / source], build)
    return f"{folder}{os.pathsep}{(folder / 'classpath').read_text('utf-8').strip()}"


def lives_program(version: str, home: Path | None = None) -> Program:
    """Returns a program with producers and push consumers of a version: Lives.java.

    home     folder of its logs; None: the user's home folder
    Errors   Missing
    """
    own = () if home is None else (f"-Duser.home={home}",)
    classes = classic_program(version, "Lives.java", "rocketmq-tools")
    options = ("-Xshare:auto", "-Xmx256m", *own, *QUICK)
    return Program(("java", *options, "-cp", classes, "Lives"), {})
