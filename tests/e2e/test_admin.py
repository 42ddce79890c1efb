"""Running a broker from the command line: topics, groups, offsets, the store, with the daemon."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq.client import AsyncClient
from tests.e2e.daemon import Daemon, Served, here, pocketmq
from tests.kit.golden_log import files_below


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One daemon for all tests here that do not end it; each has topics of its own."""
    with Daemon(tmp_path_factory.mktemp("admin") / "store") as running:
        yield running
        assert running.stop() == 0


def send(broker: Daemon, topic: str, *bodies: str, queue_id: int = 0) -> list[int]:
    """Sends messages to a queue; returns their store times."""
    lines = "".join(f"{body}\n" for body in bodies)
    done = broker.ask_here(
        *("produce", topic, "--file", "-", "--queue", str(queue_id), "-o", "jsonl"), given=lines
    )
    assert done.code == 0, done.err
    return [row["store_timestamp_ms"] for row in done.rows]


def document(broker: Daemon, *arguments: str) -> dict[str, object]:
    """Returns the one JSON document a command prints."""
    done = broker.ask_here(*arguments, "-o", "json")
    assert done.code == 0, done.err
    found: dict[str, object] = json.loads(done.out)
    return found


def rows(broker: Daemon, *arguments: str) -> list[dict[str, object]]:
    """Returns the rows a command prints."""
    done = broker.ask_here(*arguments, "-o", "jsonl")
    assert done.code == 0, done.err
    return done.rows


# -- topics ----------------------------------------------------------------------------------------


def test_a_topic_lives(broker: Daemon) -> None:
    made = document(broker, "topic", "create", "life", "--queues", "2", "--type", "mixed")
    assert (made["write_queue_count"], made["type"]) == (2, "MIXED")
    send(broker, "life", "a", "b", queue_id=1)

    changed = document(broker, "topic", "edit", "life", "--queues", "4", "--permission", "r")
    assert (changed["read_queue_count"], changed["permission"]) == (4, 4)
    refused = broker.ask_here("produce", "life", "c")
    assert refused.code == 4
    document(broker, "topic", "edit", "life", "--permission", "rw")
    send(broker, "life", "c", queue_id=3)
    fewer = broker.ask_here("topic", "edit", "life", "--read-queues", "2", "--yes")
    assert "1 messages are in queues from 2 on" in fewer.err
    document(broker, "topic", "edit", "life", "--read-queues", "4")

    counts = document(broker, "topic", "stats", "life")
    assert (counts["message_count"], counts["stored_count"]) == (3, 3)
    listed = {row["name"]: row for row in rows(broker, "topic", "stats")}
    assert listed["life"]["message_count"] == 3


def test_a_topic_is_removed_only_with_yes(broker: Daemon) -> None:
    document(broker, "topic", "create", "gone", "--queues", "1")
    document(broker, "group", "create", "mourners")
    send(broker, "gone", "a")
    reset = ("group", "reset", "mourners", "--topic", "gone", "--to", "earliest", "--yes")
    assert broker.ask_here(*reset).code == 0

    planned = broker.ask_here("topic", "rm", "gone")
    assert planned.code == 4
    assert json.loads(planned.out) == {
        "topic": "gone",
        "queue_count": 1,
        "message_count": 1,
        "groups": ["mourners"],
        "removed_topics": ["gone"],
        "delayed_messages": 0,
        "open_transactions": 0,
    }
    assert document(broker, "topic", "rm", "gone", "--yes")["removed_topics"] == ["gone"]
    assert broker.ask_here("topic", "info", "gone").code == 3
    assert rows(broker, "group", "lag", "mourners") == []
    document(broker, "topic", "create", "gone", "--queues", "1")
    assert document(broker, "topic", "stats", "gone")["message_count"] == 0
    send(broker, "gone", "anew")
    (message,) = rows(broker, "consume", "gone", "--pull")
    assert message["body_text"] == "anew"


# -- groups ----------------------------------------------------------------------------------------


def test_a_group_falls_behind_and_is_moved(broker: Daemon) -> None:
    document(broker, "topic", "create", "work", "--queues", "1")
    made = document(broker, "group", "create", "workers", "--fifo", "true", "--max-attempts", "3")
    assert (made["fifo"], made["max_attempts"]) == (True, 3)
    send(broker, "work", "early")
    middle = max(send(broker, "work", "early, too")) + 1
    while time.time_ns() // 1_000_000 <= middle:
        time.sleep(0.001)
    send(broker, "work", "late")

    reset = ("group", "reset", "workers", "--topic", "work")
    planned = broker.ask_here(*reset, "--to", str(middle), "-o", "jsonl")
    assert (planned.code, planned.rows[0]["new_offset"]) == (4, 2)
    assert rows(broker, "group", "lag", "workers") == []
    (moved,) = rows(broker, *reset, "--to", str(middle), "--yes")
    assert (moved.get("old_offset"), moved["new_offset"]) == (None, 2)

    (lag,) = rows(broker, "group", "lag", "workers")
    assert (lag["committed_offset"], lag["max_offset"], lag["lag_messages"]) == (2, 3, 1)
    age = lag["lag_ms"]
    assert isinstance(age, int)
    assert age >= 0
    rows(broker, *reset, "--to", "earliest", "--yes")
    (lag,) = rows(broker, "group", "lag", "workers")
    assert lag["lag_messages"] == 3
    rows(broker, *reset, "--to-offset", "1", "--queue", "0", "--yes")
    assert broker.ask_here(*reset, "--to-offset", "4", "--yes").code == 4

    (cloned,) = rows(broker, "group", "clone", "workers", "others", "--yes")
    assert (cloned["group"], cloned["new_offset"]) == ("others", 1)
    sums = {row["group"]: row["lag_messages"] for row in rows(broker, "group", "lag")}
    assert (sums["workers"], sums["others"]) == (2, 2)

    assert broker.ask_here("group", "rm", "workers").code == 4
    document(broker, "group", "rm", "workers", "--yes")
    assert broker.ask_here("group", "info", "workers").code == 3
    assert "workers" not in {row["name"] for row in rows(broker, "group", "ls")}


def test_what_was_changed_is_there_after_a_restart(tmp_path: Path) -> None:
    with Daemon(tmp_path / "store") as broker:
        document(broker, "topic", "create", "orders", "--queues", "2")
        document(broker, "topic", "create", "gone", "--queues", "2")
        send(broker, "orders", "a", "b")
        send(broker, "gone", "a")
        document(broker, "topic", "edit", "orders", "--order")
        document(broker, "topic", "rm", "gone", "--yes")
        document(broker, "group", "create", "readers", "--max-attempts", "5")
        reset = ("group", "reset", "readers", "--topic", "orders", "--to", "latest", "--yes")
        assert broker.ask_here(*reset).code == 0
        assert broker.stop() == 0
    with Daemon(tmp_path / "store") as broker:
        assert document(broker, "topic", "info", "orders")["order"] is True
        assert [row["name"] for row in rows(broker, "topic", "ls")] == ["orders"]
        assert document(broker, "group", "info", "readers")["max_attempts"] == 5
        lag = rows(broker, "group", "lag", "readers")
        assert [row["committed_offset"] for row in lag] == [2, 0]
        assert broker.stop() == 0


# -- the store -------------------------------------------------------------------------------------


def test_the_status_is_told(broker: Daemon) -> None:
    document(broker, "topic", "create", "seen", "--queues", "1")
    send(broker, "seen", "a")
    status = document(broker, "status")
    assert (status["state"], status["directory"]) == ("running", str(broker.store))
    assert status["flushed_offset"] == status["appended_offset"]
    for name in ("disk_free_bytes", "disk_total_bytes", "queue_file_count", "state_since_ms"):
        number = status[name]
        assert isinstance(number, int), name
        assert number > 0, name
    assert status["retention_state"]
    words = broker.ask_here("status", "-o", "table").out
    assert "running since" in words


def test_settings_are_told(broker: Daemon) -> None:
    listen = {row["key"]: row for row in rows(broker, "status", "--settings")}["rpc.listen"]
    assert listen["origin"] == "--listen"


def test_a_moment_of_top(broker: Daemon) -> None:
    document(broker, "topic", "create", "busy", "--queues", "1")
    send(broker, "busy", "a")
    moment = document(broker, "top", "--interval", "100ms")
    topics = moment["topics"]
    assert isinstance(topics, list)
    assert "busy" in {row["name"] for row in topics}


async def test_a_broker_flushes_and_ends_when_asked_to(tmp_path: Path) -> None:
    with Daemon(tmp_path / "store", "--set", "store.flush=async") as broker:
        assert broker.ask("produce", "orders", "a").code == 0
        async with AsyncClient(broker.endpoint, retry_ms=0) as client:
            status = await client.admin.store_status()
            assert await client.admin.flush() >= status.appended_offset
            await client.admin.drain()
        assert broker.wait() == 0
    (message,) = here("store", "dump", str(tmp_path / "store"), "-o", "jsonl").rows
    assert message["body_text"] == "a"


# -- tail ------------------------------------------------------------------------------------------


def test_tail_shows_what_was_and_what_comes(broker: Daemon) -> None:
    document(broker, "topic", "create", "news", "--queues", "3")
    for number in range(6):
        send(broker, "news", str(number), queue_id=number % 3)
    command = [sys.executable, "-m", "pocketmq", "tail", "news", "--since", "10m", "--max", "8"]
    groups = rows(broker, "group", "ls")
    with subprocess.Popen(
        [*command, "-o", "jsonl", "--endpoint", broker.endpoint], stdout=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        early = [json.loads(following.stdout.readline())["body_text"] for _ in range(6)]
        assert early == ["0", "1", "2", "3", "4", "5"]
        send(broker, "news", "6", queue_id=2)
        assert json.loads(following.stdout.readline())["body_text"] == "6"
        send(broker, "news", "7", queue_id=0)
        out, _ = following.communicate(timeout=30)
        assert json.loads(out)["body_text"] == "7"
        assert following.returncode == 0
    last = rows(broker, "tail", "news", "-n", "2", "--no-follow")
    assert [row["body_text"] for row in last] == ["6", "7"]
    assert rows(broker, "tail", "news", "--no-follow") == []
    assert rows(broker, "group", "ls") == groups


# -- dev -------------------------------------------------------------------------------------------


def test_dev_leaves_nothing_but_one_line(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    broker = Served(tmp_path / "dev.log")
    environment = {"TMPDIR": str(scratch), "PATH": "/usr/bin:/bin"}
    broker.start([sys.executable, "-m", "pocketmq", "dev"], env=environment)
    try:
        assert broker.becomes_ready()
        store = Path(broker.ready["store"])
        assert store.parent == scratch
        assert store.is_dir()
        sent = pocketmq("produce", "made-by-a-send", "x", POCKETMQ_ENDPOINT=broker.ready["grpc"])
        assert sent.code == 0, sent.err
        broker.signal(signal.SIGTERM)
        assert broker.wait() == 0
        assert broker.rest() == ""
    finally:
        broker.end()
    assert list(scratch.iterdir()) == []


# -- completion ------------------------------------------------------------------------------------


def test_bash_can_read_the_completion_and_completes_with_it() -> None:
    script = pocketmq("completion", "bash")
    assert script.code == 0
    read = subprocess.run(
        ["bash", "-n"], input=script.out, text=True, capture_output=True, check=False
    )
    assert (read.returncode, read.stderr) == (0, "")
    found = pocketmq(_POCKETMQ_COMPLETE="bash_complete", COMP_WORDS="pocketmq gr", COMP_CWORD="1")
    assert "group" in found.out


def test_a_store_with_a_removed_topic_is_sound_and_built_anew_without_it(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with Daemon(store) as broker:
        for topic in ("orders", "others"):
            assert broker.ask_here("produce", topic, "a", "-k", "k").code == 0
        assert broker.ask_here("topic", "rm", "orders", "--yes").code == 0
        assert broker.ask_here("produce", "orders", "b").code == 0
        assert broker.stop() == 0
    assert here("store", "verify", str(store)).code == 0
    built = pocketmq("store", "rebuild", str(store), "--out", str(tmp_path / "built"))
    assert built.code == 0, built.err
    for view in ("consumequeue", "index"):
        made, again = files_below(store / view), files_below(tmp_path / "built" / view)
        assert made == again
        assert again
