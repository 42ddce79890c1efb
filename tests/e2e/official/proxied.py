"""Official clients on a broker behind RocketMQ's own proxy; run by `scripts/torture/run proxied`.

The proxy is RocketMQ 5.5.0's in cluster mode, with the broker as its name server. LEFT_OUT names
the cases that it changes. Other clients are left out: the one for Go waits for less than the
proxy's least time (ILLEGAL_POLLING_TIME), and that for Python may receive before the proxy has its
settings, which it answers with an error of its own.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.daemon import Daemon
from tests.e2e.official.cases import Cases
from tests.e2e.official.programs import Official, Program
from torture.moving_in import jars_here, wait_for
from torture.real_broker import free_ports

LEFT_OUT: Final = {
    "test_what_is_left_comes_again_when_its_time_is_over": "invisible durations below 10 s",
    "test_order_is_kept_over_failures": "order in a group that is not orderly",
    "test_operators_ask_it_and_settings_come_again": "questions to clients by their ids",
    "test_a_namespace_is_part_of_names": "namespaces",
    "test_over_tls_too": "brokers of their own, not the proxy",
    "test_keys_open_and_others_do_not": "brokers of their own, not the proxy",
    "test_a_client_ends_whose_connection_has_just_broken": "brokers of their own, not the proxy",
    "test_clients_go_on_when_the_broker_comes_back": "brokers of their own, not the proxy",
    "test_clients_hear_nothing_of_a_restart_on_a_socket_that_stays": "brokers of their own",
}
"""Cases that are not run here, and what of them the proxy does not pass on."""


class Proxy:
    """RocketMQ's proxy before a broker; gRPC at `endpoint`, inside a `with`."""

    def __init__(self, place: Path, jars: Path, broker: str) -> None:
        port, _ = free_ports()
        self.endpoint = f"127.0.0.1:{port}"
        self._place = place
        config = place / "proxy.json"
        config.write_text(
            json.dumps({
                "rocketMQClusterName": "DefaultCluster", "proxyMode": "CLUSTER",
                "namesrvAddr": broker, "grpcServerPort": port, "remotingListenPort": port + 1,
            })
        )  # fmt: skip
        self._command = [
            "java", "-Xmx512m", f"-Duser.home={place}", f"-Drocketmq.namesrv.addr={broker}",
            "-cp", f"{jars}/*", "org.apache.rocketmq.proxy.ProxyStartup", "-pc", str(config),
        ]  # fmt: skip

    def __enter__(self) -> "Proxy":
        log = self._place / "proxy.log"
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                self._command, stdout=out, stderr=subprocess.STDOUT,
                env={**os.environ, "ROCKETMQ_HOME": str(self._place)},
            )  # fmt: skip
        wait_for(lambda: b"startup successfully" in log.read_bytes(), "the proxy starts")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


class Proxied(Cases):
    """The cases, through the proxy."""

    @pytest.fixture(scope="class")
    @classmethod
    def client(cls, program: Program, broker: Daemon) -> Iterator[Official]:
        """The client's program, which calls the proxy."""
        log = broker.store.with_name("client.log")
        with (
            Proxy(broker.store.parent, jars_here(), broker.endpoint) as proxy,
            Official(program, proxy.endpoint, log) as client,
        ):
            yield client


class TestJava(Proxied):
    """The client for Java."""

    language = "java"


class TestNode(Proxied):
    """The client for Node.js."""

    language = "node"
