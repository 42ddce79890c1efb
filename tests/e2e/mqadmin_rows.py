"""Tables that mqadmin prints, as rows of cells, and how those of a real RocketMQ are recorded.

The recorded rows are in `mqadmin_rows.json`. With the jars of `scripts/bench/rocketmq.pom.xml` in
DIR, `python -m tests.e2e.mqadmin_rows DIR` records them again: a store of PocketMQ is served by a
RocketMQ 5.5.0, and mqadmin prints the tables of that broker.
"""

import json
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from pocketmq.wire.remoting import Command, encode
from tests.e2e.daemon import Daemon
from tests.e2e.official.classic import classic_program
from tests.e2e.test_mqadmin import mqadmin, stocked
from tests.rpc.classic.consumer import heartbeat
from torture.real_broker import LOGBACK, OPENED, free_ports

RECORDED: Final = Path(__file__).with_name("mqadmin_rows.json")
COMMANDS: Final = (
    "clusterList", "clusterList -m", "brokerStatus -b {at}", "topicList", "topicList -c",
    "topicClusterList -t orders", "topicStatus -t orders", "topicRoute -t orders",
    "topicRoute -t orders -l", "getConsumerConfig -g readers", "consumerProgress -g readers",
    "consumerProgress -g readers -t orders", "consumerProgress -g idle", "consumerProgress",
    "statsAll -t orders", "statsAll", "haStatus -b {at}", "producer -b {at}",
    "consumerConnection -g readers", "allocateMQ -t orders -i 10.0.0.1,10.0.0.2",
    "brokerConsumeStats -b {at}", "queryMsgByKey -t orders -k k1",
    "queryMsgByOffset -t orders -b broker-a -i 0 -o 0",
    "queryCq -t orders -q 0 -i 0 -c 2 -b {at}", "printMsg -t orders",
    "printMsgByQueue -t orders -a broker-a -i 0 -p true",
    "consumeMessage -t orders -b broker-a -i 0 -o 0 -c 1",
)  # fmt: skip
"""Commands that change nothing."""
RULES: Final[Mapping[str, re.Pattern[str]]] = {
    "ADDRESS": re.compile(r"\b127\.0\.0\.1:\d+"),
    "DATE": re.compile(r"\b20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d(,\d+)?"),
    "ID": re.compile(r"\b[0-9A-F]{32}\b"),
    "MS": re.compile(r"\b1[789]\d{11}\b"),
    "DIR": re.compile(r"/[\w./-]+/commitlog"),
    "RATE": re.compile(r"\b\d+\.\d+(?!\.)\b"),
    "AGE": re.compile(r"\[ .* seconds \]"),
}
"""What stands for a part that differs in each run -> the part."""
_GAP: Final = re.compile(r"\t|\s{2,}|(?<=\w): ")


def rows(text: str) -> list[str]:
    """Returns the rows of a table, sorted, their cells joined by " | "."""
    for name, part in RULES.items():
        text = part.sub(name, text)
    found = (_GAP.split(line.strip()) for line in text.splitlines() if line.strip())
    return sorted(" | ".join(cell for cell in cells if cell) for cells in found)


@contextmanager
def member(at: str) -> Iterator[None]:
    """Keeps a client connected that produces, and consumes as a member of the group "readers"."""
    host, _, port = at.rpartition(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(encode(Command(34, {}, heartbeat("readers", "orders"))))
        assert client.recv(4)
        yield


def stock(store: Path) -> None:
    """Writes the store whose tables are compared."""
    with Daemon(store) as daemon:
        stocked(daemon.endpoint)
        with member(daemon.endpoint):
            pass
        assert daemon.stop() == 0


def tables(at: str, home: Path, names: str = "") -> dict[str, list[str]]:
    """Returns the rows that each command prints of a broker.

    names   address of the name server; "": that of the broker
    """
    classes = classic_program("5.5.0", "Admin.java", "rocketmq-tools")
    with member(at):
        told = mqadmin(classes, home, at, COMMANDS, names or at)
    return {command: rows(text) for command, text in told.items()}


@contextmanager
def _java(jars: Path, place: Path, start: str, *options: str) -> Iterator[None]:
    opened = [word for package in OPENED for word in ("--add-opens", f"{package}=ALL-UNNAMED")]
    classes = f"{place / 'conf'}:{jars}/*"
    command = [
        "java", "-Xmx512m", f"-Duser.home={place}", f"-Drocketmq.home.dir={place}", *opened,
        "-cp", classes, f"org.apache.rocketmq.{start}", *options,
    ]  # fmt: skip
    with (place / f"{start}.out").open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=place)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def record(jars: Path, place: Path) -> dict[str, list[str]]:
    """Returns the tables of a RocketMQ with a store of PocketMQ."""
    store = place / "store"
    stock(store)
    names, broker = free_ports()
    settings = {
        "brokerName": "broker-a", "brokerIP1": "127.0.0.1", "listenPort": broker,
        "haListenPort": broker + 1, "bindAddress": "127.0.0.1", "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog", "mappedFileSizeCommitLog": 64 << 20,
        "maxHashSlotNum": 200_000, "maxIndexNum": 1_000_000,
    }  # fmt: skip
    name_server = {"listenPort": names, "bindAddress": "127.0.0.1", "kvConfigPath": place / "kv"}
    for file, content in (("broker.conf", settings), ("names.conf", name_server)):
        (place / file).write_text("".join(f"{name}={content[name]}\n" for name in content))
    (place / "conf").mkdir()
    for name in ("broker", "namesrv"):
        (place / f"conf/rmq.{name}.logback.xml").write_text(LOGBACK.format(file=place / name))
    at, name_address = f"127.0.0.1:{broker}", f"127.0.0.1:{names}"
    with (
        _java(jars, place, "namesrv.NamesrvStartup", "-c", str(place / "names.conf")),
        _java(jars, place, "broker.BrokerStartup", "-c", str(place / "broker.conf"), "-n",
              name_address),
    ):  # fmt: skip
        end = monotonic() + 120
        while b"boot success" not in (place / "broker.BrokerStartup.out").read_bytes():
            assert monotonic() < end, "the broker does not start"
            sleep(0.1)
        return tables(at, place, name_address)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        recorded = record(Path(sys.argv[1]).resolve(), Path(scratch))
    RECORDED.write_text(json.dumps(recorded, indent=1) + "\n", "utf-8")
