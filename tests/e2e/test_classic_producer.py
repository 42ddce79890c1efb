"""RocketMQ's classic producers for Java work as they are; the port is their name server."""

import asyncio
import subprocess
from pathlib import Path
from typing import Final

import pytest

from pocketmq.client import AsyncClient, PullQuery
from pocketmq.model.message import StoredMessage
from tests.e2e.daemon import Daemon
from tests.e2e.official.classic import classic_program, java_command

RUN_S: Final = 90
SENT: Final = {
    "sync": 1, "async": 2, "batch": 1, "delay": 1, "order": 3, "transaction": 2, "large": 1,
}  # fmt: skip
"""Form -> number of its results."""
BODIES: Final = [
    b"async 0", b"async 1", b"batch 0", b"batch 1", b"batch 2", b"committed", b"one", b"one way",
    b"order 0", b"order 1", b"order 2",
]  # fmt: skip


def produced(version: str, endpoint: str, topic: str, home: Path) -> dict[str, list[list[str]]]:
    """Runs a producer to its end; returns the columns of its lines by form."""
    classes = classic_program(version, "Producer.java")
    done = subprocess.run(
        java_command(classes, "Producer", endpoint, topic, home=home),
        capture_output=True, text=True, check=False, timeout=RUN_S,
    )  # fmt: skip
    found: dict[str, list[list[str]]] = {}
    for line in done.stdout.splitlines():
        form, *columns = line.split("\t")
        found.setdefault(form, []).append(columns)
    assert "refused" in found, done.stderr or done.stdout
    return found


async def stored(endpoint: str, topic: str) -> list[StoredMessage]:
    """Returns the messages of all queues of a topic."""
    found: list[StoredMessage] = []
    async with AsyncClient(endpoint) as client:
        config = await client.admin.describe_topic(topic)
        for queue in config.queues:
            batch = await client.pull(PullQuery(topic, queue.queue_id, 0))
            found += batch.messages
    return found


@pytest.mark.timeout(180, func_only=True)
@pytest.mark.parametrize("version", ["5.3.3", "4.9.8"])
def test_a_producer_sends_in_every_form(version: str, tmp_path: Path) -> None:
    with Daemon(tmp_path / "store") as daemon:
        rows = produced(version, daemon.endpoint, "Classic", tmp_path)
        messages = asyncio.run(stored(daemon.endpoint, "Classic"))
    assert {form: len(rows[form]) for form in SENT} == SENT
    assert {columns[0] for form in SENT for columns in rows[form]} == {"SEND_OK"}
    assert rows["refused"] == [["13"]]
    assert [queue for _, _, queue, _ in rows["order"]] == ["1"] * 3
    offsets = [int(columns[3]) for columns in rows["order"]]
    assert offsets == [*range(offsets[0], offsets[0] + 3)]
    bodies = sorted(one.body for one in messages if len(one.body) < 100)
    assert [body for body in bodies if body not in (b"later", b"timed")] == BODIES
    assert [one.body for one in messages if len(one.body) > 100] == [b"0123456" * 14_285 + b"01234"]
    ids = {one.body: one.unique_key for one in messages}
    assert ids[b"one"] == rows["sync"][0][1]
    keys = {one.properties["KEYS"] for one in messages if one.tag == "sync"}
    assert keys == {"key-sync"}
