"""Runs RocketMQ: a name server, and broker and proxy together in one process.

The proxy runs in local mode, the fastest: there is no network hop between it and the broker.
Settings are the defaults except ports, paths, the flush mode and timeouts. The timeouts are long,
so that no call fails on a briefly busy machine. Sends arrive as apache.rocketmq.v2 over gRPC.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import grpc

from bench.peer.content import GROUP, TOPIC, unary_content, v2_request
from harness.process import SAID_MAX, need
from torture.real_broker import LOGBACK, OPENED, free_ports

VERSION: Final = "5.5.0"
QUEUE_COUNT: Final = 8
SEND: Final = "/apache.rocketmq.v2.MessagingService/SendMessage"
CLIENT_ID: Final = "x-mq-client-id"
HEAP: Final = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC")
START_SECONDS: Final = 120
END_SECONDS: Final = 60
POM: Final = Path(__file__).parents[1] / "rocketmq.pom.xml"
HOW_TO: Final = "mvn -q -B -f {} dependency:copy-dependencies -DoutputDirectory={}"


class RocketMQ:
    """A running RocketMQ: the broker's process, the proxy's address, and the store."""

    def __init__(self, process: subprocess.Popen[bytes], target: str, store: Path) -> None:
        self.process = process
        self.target = target
        self.store = store

    @property
    def pid(self) -> int:
        """The process of broker and proxy."""
        return self.process.pid


def checked_jars(directory: Path, parts: Sequence[str] = ("proxy", "namesrv")) -> Path:
    """Checks that a directory holds the required jars, and returns it.

    Errors   SystemExit: jars are missing; the text states how to get them
    """
    wanted = [directory / f"rocketmq-{name}-{VERSION}.jar" for name in parts]
    missing = [jar.name for jar in wanted if not jar.exists()]
    if missing:
        how = HOW_TO.format(POM, directory.resolve())
        raise SystemExit(f"{directory} lacks {' and '.join(missing)}; from Maven Central: {how}")
    need("java", "install a JRE 17")
    return directory.resolve()


@contextmanager
def rocketmq_server(jars: Path, *, sync: bool = False) -> Iterator[RocketMQ]:
    """Runs RocketMQ with a topic of eight queues and a group, on a temporary store.

    The block begins when RocketMQ accepts sends.

    sync   whether a reply waits for the disk (SYNC_FLUSH)
    """
    with (
        _named(jars, sync=sync) as (place, names, broker),
        _running(jars, place, *_proxy_command(place, names)) as process,
    ):
        real = RocketMQ(process, f"127.0.0.1:{broker + 3}", place / "store")
        _wait_until_ready(real, place)
        yield real


@contextmanager
def sync_master(jars: Path, settings: Mapping[str, str]) -> Iterator[RocketMQ]:
    """Runs a name server, a SYNC_MASTER and its proxy; sends need a slave, which may follow later.

    settings   further ones of the broker, whose port is three below the proxy's
    """
    with _named(jars, sync=False) as (place, names, broker):
        conf, own = place / "broker.conf", {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}
        lines = "".join(f"{name}={value}\n" for name, value in {**own, **settings}.items())
        conf.write_text(conf.read_text("utf-8") + lines, "utf-8")
        with _running(jars, place, *_proxy_command(place, names)) as process:
            yield RocketMQ(process, f"127.0.0.1:{broker + 3}", place / "store")


def _proxy_command(place: Path, names: str) -> tuple[str, ...]:
    return (
        "proxy.ProxyStartup", "-pm", "LOCAL", "-bc", str(place / "broker.conf"),
        "-pc", str(place / "conf/rmq-proxy.json"), "-n", names,
    )  # fmt: skip


@contextmanager
def broker_alone(jars: Path) -> Iterator[RocketMQ]:
    """Runs a name server and a broker without a proxy; classic clients reach it at `target`.

    The broker accepts requests when its port does; its first ones may still be refused.
    """
    with _named(jars, sync=False) as (place, names, broker):
        command = ("broker.BrokerStartup", "-c", str(place / "broker.conf"), "-n", names)
        with _running(jars, place, *command) as process:
            yield RocketMQ(process, f"127.0.0.1:{broker}", place / "store")


@contextmanager
def broker_pair(jars: Path) -> Iterator[RocketMQ]:
    """Runs a SYNC_MASTER and its slave; a send is acknowledged once both have it in memory.

    Until the slave follows, sends are answered with FLUSH_SLAVE_TIMEOUT.
    """
    with _named(jars, sync=False) as (place, names, port), ExitStack() as stack:
        conf = place / "broker.conf"
        settings = dict(line.split("=", 1) for line in conf.read_text("utf-8").splitlines())
        settings |= {
            "brokerRole": "SYNC_MASTER", "inSyncReplicas": "2", "brokerIP2": "127.0.0.1"
        }  # fmt: skip
        slave = place / "slave"
        other = settings | {
            "brokerId": "1", "brokerRole": "SLAVE", "listenPort": str(port + 10),
            "haListenPort": str(port + 11), "storePathRootDir": str(slave),
            "storePathCommitLog": str(slave / "commitlog"),
        }  # fmt: skip
        for name, given in (("broker.conf", settings), ("slave.conf", other)):
            lines = "".join(f"{key}={value}\n" for key, value in given.items())
            (place / name).write_text(lines, "utf-8")
        command = ("broker.BrokerStartup", "-n", names, "-c")
        master = stack.enter_context(_running(jars, place, *command, str(conf)))
        stack.enter_context(_running(jars, place, *command, str(place / "slave.conf")))
        yield RocketMQ(master, f"127.0.0.1:{port}", place / "store")


@contextmanager
def _named(jars: Path, *, sync: bool) -> Iterator[tuple[Path, str, int]]:
    """Runs a name server; yields a configured directory, its address, and the broker's port."""
    with tempfile.TemporaryDirectory(prefix="rocketmq-bench-") as temporary:
        place = Path(temporary)
        names, broker = free_ports()
        _configure(place, names, broker, sync=sync)
        with _running(jars, place, "namesrv.NamesrvStartup", "-c", str(place / "namesrv.conf")):
            yield place, f"127.0.0.1:{names}", broker


def _configure(place: Path, names: int, broker: int, *, sync: bool) -> None:
    settings = {
        "brokerName": "real", "brokerClusterName": "DefaultCluster", "brokerId": "0",
        "brokerIP1": "127.0.0.1", "namesrvAddr": f"127.0.0.1:{names}", "listenPort": str(broker),
        "haListenPort": str(broker + 1), "bindAddress": "127.0.0.1",
        "storePathRootDir": str(place / "store"),
        "storePathCommitLog": str(place / "store/commitlog"),
        "brokerRole": "ASYNC_MASTER", "flushDiskType": "SYNC_FLUSH" if sync else "ASYNC_FLUSH",
        "waitTimeMillsInSendQueue": "60000", "osPageCacheBusyTimeOutMills": "60000",
    }  # fmt: skip
    name_server = {
        "listenPort": str(names), "bindAddress": "127.0.0.1", "kvConfigPath": str(place / "kv.json")
    }  # fmt: skip
    for file, content in (("broker.conf", settings), ("namesrv.conf", name_server)):
        lines = "".join(f"{name}={value}\n" for name, value in content.items())
        (place / file).write_text(lines, "utf-8")
    proxy = {
        "rocketMQClusterName": "DefaultCluster", "namesrvAddr": f"127.0.0.1:{names}",
        "grpcServerPort": broker + 3, "remotingListenPort": broker + 4, "proxyMode": "LOCAL",
    }  # fmt: skip
    (place / "conf").mkdir()
    (place / "conf/rmq-proxy.json").write_text(json.dumps(proxy), "utf-8")
    topic = {
        "topicName": TOPIC, "readQueueNums": QUEUE_COUNT, "writeQueueNums": QUEUE_COUNT, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False,
    }  # fmt: skip
    (place / "store/config").mkdir(parents=True)
    table = {"topicConfigTable": {TOPIC: topic}}
    (place / "store/config/topics.json").write_text(json.dumps(table), "utf-8")
    group = {"groupName": GROUP, "consumeEnable": True, "consumeFromMinEnable": True}
    table = {"subscriptionGroupTable": {GROUP: group}}
    (place / "store/config/subscriptionGroup.json").write_text(json.dumps(table), "utf-8")
    for name in ("broker", "namesrv", "proxy"):
        logback = LOGBACK.format(file=place / f"{name}.log")
        (place / "conf" / f"rmq.{name}.logback.xml").write_text(logback, "utf-8")


@contextmanager
def _running(
    jars: Path, place: Path, start: str, *arguments: str
) -> Iterator[subprocess.Popen[bytes]]:
    opened = [word for package in OPENED for word in ("--add-opens", f"{package}=ALL-UNNAMED")]
    heap = HEAP if start.startswith(("proxy", "broker")) else ("-Xmx256m", "-XX:+UseSerialGC")
    command = [
        "java", *heap, f"-Duser.home={place}", f"-Drocketmq.home.dir={place}", *opened,
        "-cp", f"{place / 'conf'}:{jars}/*", f"org.apache.rocketmq.{start}", *arguments,
    ]  # fmt: skip
    with (place / f"{start}.out").open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=place)
    try:
        yield process
    finally:
        process.kill()
        process.wait(END_SECONDS)


def _wait_until_ready(real: RocketMQ, place: Path) -> None:
    """Waits until a send is accepted; its message stays in a queue."""
    end, request = monotonic() + START_SECONDS, v2_request([unary_content()])
    why = "nothing"
    while monotonic() < end and real.process.poll() is None:
        try:
            with grpc.insecure_channel(real.target) as channel:
                call = channel.unary_unary(SEND)
                answer = call(request, timeout=5, metadata=((CLIENT_ID, "bench"),))
            if is_sent(answer):
                return
            why = repr(answer[:200])
        except grpc.RpcError as error:
            why = str(error)
        sleep(0.05)
    said = (place / "proxy.ProxyStartup.out").read_text("utf-8", "replace")
    raise SystemExit(f"RocketMQ does not take sends: {why}\n{said[-SAID_MAX:]}")


def is_sent(answer: bytes) -> bool:
    """Returns whether a v2 SendMessageResponse has the status OK (20000)."""
    return b"\x08\xa0\x9c\x01" in answer[:8]
