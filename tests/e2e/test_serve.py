"""A first session with the daemon, all through the command line, as a user has it."""

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.daemon import Daemon, pocketmq


def test_a_first_session(tmp_path: Path) -> None:
    with Daemon(tmp_path / "store") as broker:
        sent = broker.ask("produce", "orders", "hello", "-k", "order-42", "-t", "new", "-p", "a=b")
        assert sent.code == 0, sent.err
        receipt = json.loads(sent.out)
        assert receipt["status"] == "SEND_OK"

        queue = str(receipt["queue_id"])
        read = broker.ask("consume", "orders", "--pull", "--queue", queue, "-o", "jsonl")
        (message,) = read.rows
        assert message["body_text"] == "hello"
        assert message["tag"] == "new"
        assert message["keys"] == ["order-42"]
        assert message["properties"]["a"] == "b"
        assert message["message_id"] == receipt["message_id"]
        assert message["offset_message_id"] == receipt["offset_message_id"]

        assert broker.ask("msg", "by-key", "orders", "order-42", "-o", "jsonl").rows == [message]
        for message_id in (receipt["message_id"], receipt["offset_message_id"]):
            found = broker.ask("msg", "get", message_id, "--topic", "orders", "-o", "jsonl")
            assert found.rows == [message]

        assert broker.ask("topic", "ls", "-o", "jsonl").rows[0]["name"] == "orders"
        assert broker.stop() == 0
        assert broker.rest() == ""
    dumped = pocketmq("store", "dump", str(tmp_path / "store"), "-o", "jsonl")
    assert dumped.rows == [message]
    assert '"event":"broker.stopped"' in broker.log.read_text()


def test_lines_of_a_pipe_come_back_in_order(tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(2_000)]
    with Daemon(tmp_path / "store") as broker:
        made = broker.ask("topic", "create", "lines", "--queues", "1")
        assert made.code == 0, made.err
        sent = broker.ask(
            "produce", "lines", "--file", "-", "-o", "jsonl", given="\n".join(lines) + "\n"
        )
        assert [row["queue_offset"] for row in sent.rows] == list(range(2_000))
        read = broker.ask("consume", "lines", "--pull", "--queue", "0", "-o", "jsonl")
        assert [row["body_text"] for row in read.rows] == lines
        part = broker.ask(
            "consume",
            "lines",
            "--pull",
            "--queue",
            "0",
            "--from",
            "1990",
            "--max",
            "3",
            "-o",
            "jsonl",
        )
        assert [row["body_text"] for row in part.rows] == lines[1990:1993]
        assert broker.stop() == 0


def test_what_was_sent_is_there_after_a_restart(tmp_path: Path) -> None:
    with Daemon(tmp_path / "store") as broker:
        broker.ask("produce", "orders", "hello", "-k", "k")
        assert broker.stop() == 0
    with Daemon(tmp_path / "store") as broker:
        (row,) = broker.ask("msg", "by-key", "orders", "k", "-o", "jsonl").rows
        assert row["body_text"] == "hello"
        assert broker.stop() == 0


def test_sigterm_answers_a_parked_poll_and_ends_with_0(tmp_path: Path) -> None:
    with Daemon(tmp_path / "store") as broker:
        broker.ask("produce", "orders", "hello", "--queue", "0")
        wait = ["--wait", "25s", "--queue", "0", "--from", "max", "-o", "json"]
        command = [sys.executable, "-m", "pocketmq", "consume", "orders", "--pull", *wait]
        with subprocess.Popen(
            [*command, "--endpoint", broker.endpoint], stdout=subprocess.PIPE, text=True
        ) as parked:
            while "pocketmq_long_poll_waiters 1.0" not in broker.page("/metrics").text:
                assert parked.poll() is None
            assert broker.stop() == 0
            out, _ = parked.communicate(timeout=20)
            assert parked.returncode == 0
            assert out == "[]\n"


def test_ctrl_c_ends_the_daemon_as_sigterm_does(tmp_path: Path) -> None:
    with Daemon(tmp_path / "store") as broker:
        broker.signal(signal.SIGINT)
        assert broker.wait() == 0


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Processes that are started take SIGINT, also where tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_a_command_without_a_trace(tmp_path: Path) -> None:
    with Daemon(tmp_path / "store") as broker:
        broker.ask("produce", "orders", "hello", "--queue", "0")
        command = [sys.executable, "-m", "pocketmq", "consume", "orders", "--pull", "--wait", "25s"]
        with subprocess.Popen(
            [*command, "--queue", "0", "--endpoint", broker.endpoint],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as parked:
            while "pocketmq_long_poll_waiters 1.0" not in broker.page("/metrics").text:
                assert parked.poll() is None
            parked.send_signal(signal.SIGINT)
            out, words = parked.communicate(timeout=20)
        assert parked.returncode == 130
        assert words == ""
        assert [row["body_text"] for row in json.loads(out)] == ["hello"]
        assert broker.stop() == 0


def test_a_store_serves_one_broker_at_a_time(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with Daemon(store) as broker:
        ports = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
        second = pocketmq("serve", "--store", str(store), *ports)
        assert second.code == 4
        assert second.out == ""
        assert f"{store} is in use by process {broker.pid} (" in second.err
        refused = pocketmq("store", "dump", str(store))
        assert refused.code == 4
        assert "--read-only" in refused.err
        assert pocketmq("store", "dump", str(store), "--read-only").out == "[]\n"
        assert broker.ask("produce", "orders", "still there").code == 0
        assert broker.stop() == 0


def test_a_port_that_is_taken_is_an_error_that_names_it(tmp_path: Path) -> None:
    with Daemon(tmp_path / "a") as broker:
        for flag, address in (("--listen", broker.ready["grpc"]), ("--http", broker.ready["http"])):
            other = "--http" if flag == "--listen" else "--listen"
            ports = [flag, address, other, "127.0.0.1:0"]
            refused = pocketmq("serve", "--store", str(tmp_path / "b"), *ports)
            assert refused.code == 2
            assert address in refused.err
            assert "Traceback" not in refused.err


def test_the_http_port_shows_metrics_health_and_version(tmp_path: Path) -> None:
    with Daemon(
        tmp_path / "store", "--set", "brokerName=b7", "--set", "store.flush=async"
    ) as broker:
        broker.ask("produce", "orders", "hello")
        metrics = broker.page("/metrics").text
        (line,) = [x for x in metrics.splitlines() if x.startswith("rocketmq_messages_in_total{")]
        assert 'node_id="b7"' in line
        assert 'topic="orders"' in line
        assert line.endswith(" 1.0")
        assert broker.page("/livez").status == 200
        assert broker.page("/startupz").status == 200
        assert json.loads(broker.page("/readyz").text) == {"state": "running"}
        assert json.loads(broker.page("/version").text)["version"] == broker.ready["version"]
        assert broker.page("/nothing").status == 404


def test_the_ready_line_is_the_first_and_only_one(tmp_path: Path) -> None:
    with Daemon(tmp_path / "store") as broker:
        assert list(broker.ready) == [
            "grpc",
            "grpc_tls",
            "classic_vip",
            "http",
            "console",
            "store",
            "pid",
            "version",
        ]
        assert broker.ready["pid"] == broker.pid
        assert broker.ready["store"] == str(tmp_path / "store")
        assert broker.stop() == 0
        assert broker.rest() == ""


def test_the_daemon_may_open_as_many_files_as_the_machine_lets_it(tmp_path: Path) -> None:
    _, files_max = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Daemon(tmp_path / "store") as broker:
        limits = Path(f"/proc/{broker.pid}/limits")
        if not limits.exists():
            pytest.skip("procfs is missing")
        (line,) = [x for x in limits.read_text().splitlines() if x.startswith("Max open files")]
        assert line.split()[3:5] == [str(files_max), str(files_max)]


def test_nobody_there_is_exit_5() -> None:
    done = pocketmq("topic", "ls", "--endpoint", "127.0.0.1:1")
    assert done.code == 5
    assert done.out == ""
    assert "Next:  start that broker, or name another one: --endpoint HOST:PORT" in done.err
    assert "Traceback" not in done.err
