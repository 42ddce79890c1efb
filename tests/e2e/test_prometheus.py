"""A real Prometheus scrapes the daemon, evaluates the rules that come with it, and says no word."""

import asyncio
import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Self
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

import pytest

from pocketmq.client import (
    AsyncClient,
    ClientError,
    KeyQuery,
    Message,
    PullQuery,
    Receipt,
    ReceiveQuery,
    Resolution,
)
from tests.e2e.daemon import Daemon, here
from tests.metrics.contract import (
    ACCESS,
    EXPORTS,
    NATIVE,
    OWN,
    ROLES,
    SESSIONS,
    SETTINGS,
    TIMER,
    compare,
    families,
)

MONITORING: Final = Path(__file__).resolve().parents[2] / "conf" / "monitoring"
PATIENCE_S: Final = 60
SENT: Final = 7
# RocketMQ counts in milliseconds; who looks for its names finds them.
EXPECTED_LINT: Final = re.compile(r'rocketmq_\w+_milliseconds use base unit "seconds" .*')
CONFIG: Final = """
global: {{scrape_interval: 200ms, evaluation_interval: 200ms}}
rule_files: ["{rules}/alerts.yml", "{rules}/recording-rules.yml"]
scrape_configs:
  - job_name: pocketmq
    static_configs: [{{targets: ["{target}"]}}]
"""
SECURED: Final = """\
    scheme: https
    tls_config: {{ca_file: "{certificate}", server_name: localhost}}
    authorization: {{type: Bearer, credentials: "{token}"}}
"""

_open = build_opener(ProxyHandler({})).open


def needed(program: str) -> str:
    """Returns the path of a program; skip the test without it."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is missing")
    return path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Prometheus:
    """A Prometheus that scrapes one target; runs inside a `with`."""

    def __init__(self, directory: Path, target: str, more: str = "") -> None:
        self._program = needed("prometheus")
        self._directory = directory
        self._config = directory / "prometheus.yml"
        self._config.write_text(CONFIG.format(rules=MONITORING, target=target) + more, "utf-8")
        self.log = directory / "prometheus.log"
        self._address = f"127.0.0.1:{free_port()}"

    def __enter__(self) -> Self:
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    self._program,
                    f"--config.file={self._config}",
                    f"--storage.tsdb.path={self._directory / 'series'}",
                    f"--web.listen-address={self._address}",
                    "--log.level=warn",
                ],
                stdout=log,
                stderr=log,
                cwd=self._directory,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_S)

    def ask(self, path: str, **words: str) -> Any:
        """Returns the data of an answer of its HTTP API."""
        url = f"http://{self._address}/api/v1/{path}?{urlencode(words)}"
        with _open(url, timeout=PATIENCE_S) as answer:
            document = json.load(answer)
        assert document["status"] == "success"
        return document["data"]

    def values(self, query: str) -> list[float]:
        """Returns the numbers a query gives now; none while Prometheus starts."""
        try:
            result = self.ask("query", query=query)["result"]
        except (URLError, ConnectionError):
            assert self._process.poll() is None, self.log.read_text()
            return []
        return [float(row["value"][1]) for row in result]

    def until(self, query: str, wanted: list[float]) -> None:
        """Returns when a query gives these numbers."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := self.values(query)) != wanted:
            assert time.monotonic() < deadline, f"{query} gives {found}, not {wanted}"
            time.sleep(0.1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("scraped") / "store") as daemon:
        for number in range(SENT):
            assert daemon.ask_here("produce", "orders", f"hello {number}", "--queue", "0").code == 0
        yield daemon


def test_over_tls_it_is_scraped_with_a_token_on_the_port_of_clients(tmp_path: Path) -> None:
    needed("prometheus")
    store = tmp_path / "store"
    made = here("user", "add", "scraper", "--admin", "--store", str(store))
    keys = ("--access-key", "scraper", "--secret-key", json.loads(made.out)["secret"])
    token = here("user", "token", *keys).out.strip()
    certificate = store / "pocketmq" / "tls" / "certificate.pem"
    asks = ("--set", "access.check=on", "--set", "rpc.tls_only=true")
    broker = Daemon(store, *asks)
    broker.begin()
    try:
        broker.serve()
        more = SECURED.format(certificate=certificate, token=token)
        with Prometheus(tmp_path, broker.endpoint, more) as prometheus:
            prometheus.until('up{job="pocketmq"}', [1])
            prometheus.until('pocketmq_store_state{state="running"}', [1])
    finally:
        broker.end()


def test_what_was_sent_is_counted_by_a_real_prometheus(broker: Daemon, tmp_path: Path) -> None:
    with Prometheus(tmp_path, broker.ready["http"]) as prometheus:
        prometheus.until('up{job="pocketmq"}', [1])
        prometheus.until('sum(rocketmq_messages_in_total{topic="orders"})', [SENT])
        prometheus.until('pocketmq_store_state{state="running"}', [1])
        assert broker.ask_here("produce", "orders", "one more").code == 0
        prometheus.until('sum(rocketmq_messages_in_total{topic="orders"})', [SENT + 1])
        prometheus.until(
            'kafka_server_brokertopicmetrics_messagesin_total{topic="orders"}', [SENT + 1]
        )
        (target,) = prometheus.ask("targets")["activeTargets"]
        assert (target["health"], target["lastError"]) == ("up", "")
        groups = prometheus.ask("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        assert {rule["health"] for rule in rules} <= {"ok", "unknown"}
        firing = [r["name"] for r in rules if r["type"] == "alerting" and r["state"] == "firing"]
        assert "PocketMQDown" not in firing
    assert not re.findall("level=(?:warn|error).*scrape.*", prometheus.log.read_text())


def test_promtool_finds_nothing_wrong_with_the_page(broker: Daemon) -> None:
    page = broker.page("/metrics").text
    command = [needed("promtool"), "check", "metrics"]
    done = subprocess.run(
        command, input=page, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    lines = (done.stdout + done.stderr).splitlines()
    assert not [line for line in lines if not EXPECTED_LINT.fullmatch(line)]


def test_the_daemons_page_is_the_contract(broker: Daemon) -> None:
    shown = broker.page("/metrics").text
    compare(
        families(shown), (*NATIVE, *TIMER, *SESSIONS, *ACCESS, *SETTINGS, *EXPORTS, *OWN, *ROLES)
    )


def dashboard_queries() -> list[str]:
    """Returns every query of the dashboard as Grafana sends it, of all that is there."""
    panels = json.loads((MONITORING / "grafana-dashboard.json").read_text("utf-8"))["panels"]
    texts = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    return [re.sub(r"\$\w+", ".*", text.replace("$__rate_interval", "5s")) for text in texts]


async def make_names(endpoint: str, secret: str) -> None:
    """Creates the topics and the group that `use_everything` needs."""
    async with AsyncClient(endpoint, retry_ms=0, access_key="admin", secret_key=secret) as client:
        for name, kind in (("later", "delay"), ("payments", "transaction")):
            await client.admin.create_topic(name, type_name=kind)
        await client.admin.create_group("g")


def saying(resolution: Resolution) -> Callable[[Receipt], Resolution]:
    """Returns local work of a transaction that ends in this resolution."""
    return lambda receipt: resolution


async def use_everything(endpoint: str, secret: str) -> None:
    """Does what the dashboard shows: sends, delays, decides, receives, and fails."""
    stranger = AsyncClient(endpoint, retry_ms=0, access_key="admin", secret_key="guess")
    async with stranger:
        with pytest.raises(ClientError):
            await stranger.admin.store_status()
    async with AsyncClient(endpoint, retry_ms=0, access_key="admin", secret_key=secret) as client:
        await client.send_many([Message("orders", b"x", keys=["k"], queue_id=0) for _ in range(4)])
        await client.query_by_key(KeyQuery("orders", "k"))
        await client.pull(PullQuery("orders", 0, 0))
        await client.send(Message("later", b"x", delay_level=5))
        at_ms = int(time.time() * 1000) + 3_600_000
        await client.send(Message("later", b"x", deliver_at_ms=at_ms))
        for resolution in (*Resolution, Resolution.UNKNOWN):  # one of them stays undecided
            message = Message("payments", b"x", producer_group="p")
            await client.send_in_transaction(message, saying(resolution))
        await client.answer_checks("p", lambda _: Resolution.COMMIT, count_max=1)
        received = await client.receive(ReceiveQuery("g", "orders", max_messages=4, wait_ms=5_000))
        handles = [message.receipt_handle for message in received]
        await client.ack("g", "orders", handles[:1])
        await client.forward_to_dead_letters("g", "orders", handles[1:2])


def test_every_query_of_the_dashboard_has_data(tmp_path: Path) -> None:
    needed("prometheus")
    store = tmp_path / "store"
    made = here("user", "add", "admin", "--admin", "--store", str(store))
    secret = json.loads(made.out)["secret"]
    token = here("user", "token", "--access-key", "admin", "--secret-key", secret).out.strip()
    sets = ("access.check=on", "transactions.timeout_ms=1s", "transactions.check_interval_ms=1s")
    settings = [word for one in sets for word in ("--set", one)]
    with Daemon(store, *settings) as broker:
        bearer = f'    authorization: {{type: Bearer, credentials: "{token}"}}\n'
        with Prometheus(tmp_path, broker.ready["http"], bearer) as prometheus:
            prometheus.until('up{job="pocketmq"}', [1])
            asyncio.run(make_names(broker.endpoint, secret))
            missing = dashboard_queries()
            deadline = time.monotonic() + PATIENCE_S
            while missing:
                assert time.monotonic() < deadline, missing
                # Rates need counters that grow between two scrapes.
                asyncio.run(use_everything(broker.endpoint, secret))
                missing = [query for query in missing if not prometheus.values(query)]


@pytest.mark.parametrize(
    ("kind", "files"),
    [("rules", ["alerts.yml", "recording-rules.yml"]), ("config", ["prometheus.yml"])],
)
def test_promtool_accepts_what_is_shipped(kind: str, files: list[str]) -> None:
    command = [needed("promtool"), "check", kind, *(str(MONITORING / name) for name in files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr


FIRES: Final = {
    "PocketMQFollowersTooFew": ("pocketmq_replicas_missing", "0 1+0x20", "{}"),
    "PocketMQFollowerAbsent": ("pocketmq_replicas", "1 0+0x20", "{}"),
    "PocketMQFollowerLagging": ("pocketmq_replica_lag_bytes", "0 67108865+0x20", "{}"),
    "PocketMQFollowerLate": ("pocketmq_replica_lag_seconds", "0 61+0x20", "{}"),
    "PocketMQFollowerAlone": ("pocketmq_follower_connected", "1 0+0x20", "{}"),
    "PocketMQDiverged": ("pocketmq_replica_diverged_bytes", "0 1+0x20", "{}"),
    "PocketMQFenced": ("pocketmq_replica_role", "0 1+0x20", '{role="fenced"}'),
}
"""An alert, and the series, values each minute, and labels with which it fires later."""


@pytest.mark.parametrize("alert", FIRES)
def test_alerts_of_replication_fire_and_not_before(tmp_path: Path, alert: str) -> None:
    series, values, labels = FIRES[alert]
    expected = f'ALERTS{{alertname="{alert}", alertstate="firing"}}'
    tests = {
        "rule_files": [str(MONITORING / "alerts.yml")],
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": series + labels, "values": values}],
                "promql_expr_test": [
                    {"expr": f"count({expected})", "eval_time": "0m", "exp_samples": []},
                    {
                        "expr": f"count({expected})", "eval_time": "10m",
                        "exp_samples": [{"labels": "{}", "value": 1}],
                    },
                ],
            }
        ],
    }  # fmt: skip
    path = tmp_path / "alerts.json"
    path.write_text(json.dumps(tests))
    command = [needed("promtool"), "test", "rules", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
