"""The examples run, against a broker of this checkout."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from pocketmq import native
from pocketmq.testing import RocketMQ
from tests.e2e.daemon import Daemon, ended

ROOT = Path(__file__).resolve().parents[2]


def run(name: str, *arguments: str) -> list[str]:
    """Returns the lines that an example prints."""
    command = [sys.executable, str(ROOT / "examples" / name), *arguments]
    done = ended(command, cwd=ROOT, env=ENV)
    assert done.code == 0, done.err
    return done.out.splitlines()


ENV = {
    "PYTHONPATH": str(ROOT / "broker"),
    "PATH": "/usr/bin:/bin",
    **{name: text for name, text in os.environ.items() if name == native.PURE_VARIABLE},
}
"""Nothing else of what is set here reaches an example."""


def test_the_examples_with_rocketmqs_client_run(rocketmq: RocketMQ, tmp_path: Path) -> None:
    endpoint = rocketmq.endpoint
    for topic, kind in (("steps", "fifo"), ("reminders", "delay"), ("payments", "transaction")):
        rocketmq.create_topic(topic, kind)
    names = ("fifo.py", "delay.py", "transaction.py")
    with beside(*names, endpoint=endpoint) as (steps, delays, payments):
        sent = run("producer.py", endpoint)
        assert all(re.fullmatch(r"sent \w{34}", line) for line in sent)
        assert [message.unique_key for message in rocketmq.messages("orders", 3)] == [
            line.removeprefix("sent ") for line in sent
        ]
        audited = run("simple_consumer.py", endpoint)
        assert sorted(line.split(" paid ")[0] for line in audited) == [
            f"order {number}" for number in (40, 41, 42)
        ]
        assert all("{'country': 'NO'}" in line for line in audited)
        with Pushed(endpoint) as pushed:
            rocketmq.wait_for_lag_0("shippers", "orders", timeout=30)
        assert sorted(pushed.lines) == [
            "Press Enter to end.",
            "order 40 paid: shipped at attempt 1",
            "order 41 paid: no truck, again later",
            "order 41 paid: shipped at attempt 2",
            "order 42 paid: shipped at attempt 1",
        ]
    for order in ("order-1", "order-2"):
        own = [line for line in steps.result() if line.startswith(order)]
        assert own == [f"{order} {step}" for step in ("paid", "packed", "shipped")]
    assert delays.result() == ["drink tea"]
    assert payments.result() == ["payment 1 booked", "payment 2 rolled back"]
    assert [message.body for message in rocketmq.messages("payments", 1)] == [b"payment 1"]


@contextmanager
def beside(*names: str, endpoint: str) -> Iterator[list[Future[list[str]]]]:
    """Runs examples beside those of the block, as each has topics of its own."""
    with ThreadPoolExecutor() as pool:
        yield [pool.submit(run, name, endpoint) for name in names]


class Pushed:
    """The push consumer of the examples while it runs, then what it printed."""

    def __init__(self, endpoint: str) -> None:
        command = [sys.executable, str(ROOT / "examples/push_consumer.py"), endpoint]
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENV
        )

    def __enter__(self) -> "Pushed":
        return self

    def __exit__(self, *error: object) -> None:
        printed, _ = self._process.communicate("\n", timeout=60)
        self.lines = printed.splitlines()
        assert self._process.returncode == 0


@pytest.mark.parametrize("name", sorted(one.name for one in (ROOT / "examples/own").glob("*.py")))
def test_an_example_without_a_broker_ends_with_the_cause(name: str) -> None:
    topic = ["orders"] if name == "tail.py" else []
    command = [sys.executable, str(ROOT / "examples/own" / name), *topic, "127.0.0.1:9"]
    done = ended(command, cwd=ROOT, env=ENV)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("no broker answers at 127.0.0.1:9: Connection refused; next: ")
    assert done.err.count("\n") == 1


def test_the_examples_with_our_client_run(tmp_path: Path) -> None:
    with Daemon(tmp_path / "store") as broker:
        names = ("own/consuming.py", "own/transactions.py", "own/delays.py")
        with beside(*names, endpoint=broker.endpoint) as (consuming, transactions, delays):
            stored, pulled, by_key, by_id = run("own/blocking.py", broker.endpoint)
            assert run("own/tasks.py", broker.endpoint) == [f"{n} step {n}" for n in range(10)]
            told = run("own/tail.py", "example-tasks", broker.endpoint, "3")
        assert re.fullmatch(r"stored: \w{32} and \w{32}", stored)
        assert pulled == "pulled: order 42 paid"
        assert by_key == "by key: ['order 42 shipped', 'order 42 paid']"
        assert by_id == "by id: order 42 shipped"
        assert told == ["0 0 None step 0", "0 1 None step 1", "0 2 None step 2"]
        assert consuming.result() == [
            *(f"invoice {n} attempt 1" for n in range(3)),
            "nonsense attempt 1",
            "given up: this one cannot be worked off",
            "dead letter: nonsense",
        ]
        assert transactions.result() == ["order 1: COMMIT", "asked about 1 order", "open: 0"]
        *waits, taken_back, first, second = delays.result()
        assert [line.split()[0] for line in [*waits, taken_back]] == ["waits:"] * 3 + ["taken"]
        assert {first, second} == {"due: in two seconds", "due: when level 2 is over"}
        assert broker.stop() == 0


PAGES = ["README.md", "docs/howto/client.md", "docs/howto/consuming.md", "docs/howto/delays.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_first_python_of_a_page_runs(page: str, tmp_path: Path) -> None:
    text = (ROOT / page).read_text().partition("```python\n")[2].partition("```")[0]
    assert text
    script = tmp_path / "script.py"
    with Daemon(tmp_path / "store") as broker:
        script.write_text(text.replace("127.0.0.1:8081", broker.endpoint))
        done = ended([sys.executable, str(script)], cwd=tmp_path, env=ENV)
        assert (done.code, done.err) == (0, "")
        assert done.out.splitlines()[0].startswith("order 42 paid")
        assert broker.stop() == 0
