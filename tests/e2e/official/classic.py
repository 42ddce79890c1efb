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
LAUNCHER: Final = "QuickEnds.java"
"""Runs a program whose clients end at once."""


def java_command(classes: str, program: str, *words: str, home: Path | None = None) -> list[str]:
    """Returns the command that runs a program of `classic_program`.

    home   folder of its logs; None: the user's home folder
    """
    own = () if home is None else (f"-Duser.home={home}",)
    options = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m", *QUICK)
    launched = Path(LAUNCHER).stem
    return ["java", *own, *options, "-cp", classes, launched, program, *words]


def classic_program(version: str, source: str, artifact: str = "rocketmq-client") -> str:
    """Returns the class path of a program with a version of the client.

    source     name of its file, "Classic.java"
    artifact   RocketMQ's module that it needs
    Errors   Missing
    """
    need("java", "javac", "mvn")
    needed = _class_path(version, artifact)
    sources = [OWN / source, OWN / LAUNCHER]

    def build(folder: Path) -> None:
        run("javac", "-nowarn", "-d", str(folder), "-cp", needed, *map(str, sources))

    made = built(f"classic-{version}", [OWN / "pom.xml", *sources], build)
    return f"{made}{os.pathsep}{needed}"


def _class_path(version: str, artifact: str) -> str:
    """Returns the class path of a module, which Maven has fetched."""

    def fetch(folder: Path) -> None:
        run(
            "mvn", "-q", "-B", "-f", str(OWN / "pom.xml"), f"-Drocketmq={version}",
            f"-Dartifact={artifact}",
            "dependency:build-classpath", f"-Dmdep.outputFile={folder / 'classpath'}",
        )  # fmt: skip

    made = built(f"{artifact}-{version}", [OWN / "pom.xml"], fetch)
    return (made / "classpath").read_text("utf-8").strip()


def lives_program(version: str, home: Path | None = None) -> Program:
    """Returns a program with producers and push consumers of a version: Lives.java.

    home     folder of its logs; None: the user's home folder
    Errors   Missing
    """
    classes = classic_program(version, "Lives.java", "rocketmq-tools")
    return Program(tuple(java_command(classes, "Lives", home=home)), {})
