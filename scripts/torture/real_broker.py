"""Runs Apache RocketMQ brokers on stores: fetches jars by Maven, and compiles a driver.

The driver (`RealBroker.java`) runs a name server, a broker and their clients in one process. It is
compiled against each version's jars in `.cache/rocketmq/VERSION`. If this user may create a network
namespace, the process runs in one that has only loopback.
"""

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

from harness.budget import NotHere
from harness.process import CACHE, Failed, ended, need

JARS: Final = CACHE / "rocketmq"
DRIVER: Final = Path(__file__).with_name("RealBroker.java")
ARTIFACTS: Final = ("broker", "namesrv", "tools", "client")
RUN_S: Final = 420
"""Time limit for a broker's start, plan and stop."""

FETCH_S: Final = 1800
SAID_MAX: Final = 1500
OPENED: Final = tuple(
    f"java.base/{package}"
    for package in "java.lang java.util java.nio java.net sun.nio.ch jdk.internal.ref".split()
)
LOGBACK: Final = """<configuration><appender name="F" class="ch.qos.logback.core.FileAppender">
<file>{file}</file><encoder><pattern>%d %p %m%n</pattern></encoder></appender>
<root level="WARN"><appender-ref ref="F"/></root></configuration>
"""
SETTERS: Final = (
    "org.apache.rocketmq.store.config.MessageStoreConfig",
    "org.apache.rocketmq.common.BrokerConfig",
)

Document = dict[str, Any]


class RealFailed(Exception):
    """A real broker failed; the text contains its last output."""


@dataclass(frozen=True)
class Real:
    """A version of RocketMQ: its jars, the compiled driver, and the names of its settings."""

    version: str
    jars: Path
    classes: Path
    settings: frozenset[str]


def real(version: str) -> Real:
    """Returns a version of RocketMQ; fetches and compiles it the first time.

    Errors   NotHere: no Java, no javac, or no jars and no Maven to fetch them
    """
    for program in ("java", "javac", "javap"):
        need(program, "install a JDK 17")
    jars = JARS / version / "lib"
    if not (jars / f"rocketmq-broker-{version}.jar").exists():
        _fetch(version, jars)
    classes = JARS / "driver" / version
    compiled = classes / "RealBroker.class"
    if not compiled.exists() or compiled.stat().st_mtime < DRIVER.stat().st_mtime:
        classes.mkdir(parents=True, exist_ok=True)
        _ended(["javac", "-nowarn", "-d", str(classes), "-cp", f"{jars}/*", str(DRIVER)])
    known = classes / "setters"
    if not known.exists():
        known.write_text(_ended(["javap", "-cp", f"{jars}/*", *SETTERS]), "utf-8")
    told = known.read_text("utf-8")
    names = re.findall(r" set(\w+)\(", told)
    return Real(version, jars, classes, frozenset(name[0].lower() + name[1:] for name in names))


def _fetch(version: str, jars: Path) -> None:
    need("mvn", f"install Maven, which fetches {jars}")
    dependencies = "".join(
        f"<dependency><groupId>org.apache.rocketmq</groupId><artifactId>rocketmq-{name}</artifactId>"
        f"<version>{version}</version></dependency>"
        for name in ARTIFACTS
    )
    folder = jars.parent
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>pocketmq</groupId>"
        f"<artifactId>rocketmq-jars</artifactId><version>{version}</version>"
        f"<dependencies>{dependencies}</dependencies></project>",
        "utf-8",
    )
    command = ["mvn", "-q", "-B", "-f", str(folder), "dependency:copy-dependencies"]
    _ended([*command, f"-DoutputDirectory={jars}"], timeout_s=FETCH_S)


def _ended(command: Sequence[str], timeout_s: int = RUN_S) -> str:
    try:
        return ended(command, timeout_s=timeout_s)
    except Failed as why:
        raise NotHere(str(why)) from why


@dataclass(frozen=True)
class Plan:
    """The work of a real broker on a store.

    parts     kinds of messages to send, by their names in RealBroker.java
    ask       further (topic, key) to query
    hidden    topics to read that are not in the topic table
    is_killed whether the process ends as by kill -9
    wait_ms   pause before it reads
    producer  group of its producer, which decides checked transactions by their property `answer`
    ports     of name server and broker, which other processes then reach; None: it is alone
    """

    run: str
    parts: Sequence[str]
    settings: Mapping[str, str]
    seed: int = 1
    ask: Sequence[tuple[str, str]] = ()
    hidden: Sequence[str] = ()
    is_killed: bool = False
    wait_ms: int = 0
    producer: str = "versions-producer"
    ports: tuple[int, int] | None = None


def run_real(one: Real, place: Path, store: Path, plan: Plan) -> list[Document]:
    """Runs a broker of a version on a store; returns its output (see RealBroker.java).

    place    a directory for its configuration and logs
    Errors   RealFailed: it failed, or took too long; with its last output
    """
    place.mkdir(parents=True, exist_ok=True)
    out = _written_plan(place, store, plan)
    opened = [word for package in OPENED for word in ("--add-opens", f"{package}=ALL-UNNAMED")]
    command = [
        *(() if plan.ports else _alone()),
        "java", "-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        f"-Duser.home={place}", f"-Drocketmq.home.dir={place}", *opened,
        "-cp", f"{one.classes}:{one.jars}/*", "RealBroker", str(place / "plan.properties"),
    ]  # fmt: skip
    with (place / "said").open("w+", encoding="utf-8") as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, cwd=place)
        try:
            code: int | str = process.wait(RUN_S)
        except subprocess.TimeoutExpired:
            code = f"no end after {RUN_S} s"
        finally:
            process.kill()
            process.wait()
        said.seek(0)
        text = said.read()
    if code != 0 or "READ " not in text:
        raise RealFailed(f"RocketMQ {one.version}, run {plan.run}: {code}: {_told(text)}")
    return [json.loads(line) for line in out.read_text("utf-8").splitlines()]


def _told(text: str) -> str:
    """Returns the lines that describe errors."""
    own = [line for line in text.splitlines() if "|-" not in line]  # Without logback's lines.
    lines = [line for line in own if re.search("Exception|Error", line)]
    return " | ".join(lines[:4])[:SAID_MAX] or " | ".join(own[-3:])[-SAID_MAX:]


def _written_plan(place: Path, store: Path, plan: Plan) -> Path:
    names, broker = plan.ports or free_ports()
    is_ipv6 = plan.settings.get("brokerIP1", "").startswith("[")
    settings = {
        "brokerName": "real", "brokerClusterName": "DefaultCluster", "brokerId": "0",
        "brokerIP1": "127.0.0.1", "namesrvAddr": f"127.0.0.1:{names}", "listenPort": str(broker),
        "haListenPort": str(broker + 1), "bindAddress": "::" if is_ipv6 else "127.0.0.1",
        "storePathRootDir": str(store), "storePathCommitLog": str(store / "commitlog"),
        "brokerRole": "ASYNC_MASTER", "flushDiskType": "ASYNC_FLUSH",
        "waitTimeMillsInSendQueue": "60000", "osPageCacheBusyTimeOutMills": "60000",
        "transactionCheckInterval": "3600000", "autoCreateTopicEnable": "true", **plan.settings,
    }  # fmt: skip
    conf = place / "conf"
    conf.mkdir(exist_ok=True)
    for name in ("broker", "namesrv"):
        logback = LOGBACK.format(file=place / f"{name}.log")
        (conf / f"logback_{name}.xml").write_text(logback, "utf-8")
    out = place / "told.jsonl"
    (place / "ask.tsv").write_text("".join(f"{t}\t{k}\n" for t, k in plan.ask), "utf-8")
    given = {
        "namesrv.conf": str(place / "namesrv.conf"), "broker.conf": str(place / "broker.conf"),
        "namesrv.address": settings["namesrvAddr"],
        "broker.address": f"{settings['brokerIP1']}:{broker}", "parts": ",".join(plan.parts),
        "ask": str(place / "ask.tsv"), "hidden": ",".join(plan.hidden), "out": str(out),
        "seed": str(plan.seed), "run": plan.run, "end": "kill" if plan.is_killed else "stop",
        "wait_ms": str(plan.wait_ms), "producer": plan.producer,
    }  # fmt: skip
    name_server = {"listenPort": str(names), "bindAddress": "127.0.0.1"}
    name_server["kvConfigPath"] = str(place / "kv.json")
    for file, content in (
        ("broker.conf", settings), ("namesrv.conf", name_server), ("plan.properties", given),
    ):  # fmt: skip
        lines = "".join(f"{name}={value}\n" for name, value in content.items())
        (place / file).write_text(lines, "utf-8")
    return out


@cache
def _alone() -> tuple[str, ...]:
    """Returns the prefix of a command in its own network namespace; (): that is not allowed."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return ()
    for options in (("--net",), ("--net", "--map-root-user")):
        words = ("unshare", *options, "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
        if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0:
            return words
    return ()


def free_ports() -> tuple[int, int]:
    """Returns free ports for a name server and a broker.

    The broker also uses ports next to its own, so the four after it are free.
    """
    chance = Random(os.urandom(8))
    while True:
        port = chance.randrange(20_000, 32_000, 10)
        try:
            for wanted in range(port, port + 10):
                with socket.socket() as one:
                    one.bind(("127.0.0.1", wanted))
        except OSError:
            continue
        return port, port + 4
