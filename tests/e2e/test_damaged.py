"""A store that was damaged while its broker was down: served, refused, accepted, mended."""

import json
import signal
from pathlib import Path

import pytest

from tests.e2e.daemon import Daemon, here
from tests.e2e.test_health import NOT_SERVING, SERVING, asker_of

TOPIC = "orders"
SENT = [f"message {number:02d} {'x' * 200}" for number in range(40)]
DAMAGED = 17
EXIT_DAMAGED = 10


def flip(store: Path, row: dict[str, int]) -> None:
    """Changes a byte in the body of a message that `store dump` showed."""
    log = next((store / "commitlog").iterdir())
    content = bytearray(log.read_bytes())
    content[row["physical_offset"] + 120] ^= 0x20
    log.write_bytes(content)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of 40 messages in one queue, its broker killed, one of them damaged since."""
    with Daemon(tmp_path / "store") as broker:
        assert broker.ask_here("topic", "create", TOPIC, "--queues", "1").code == 0
        broker.ask_here("produce", TOPIC, "--file", "-", given="\n".join(SENT) + "\n")
        broker.signal(signal.SIGKILL)  # What is durable is looked at again.
        assert broker.wait() == -signal.SIGKILL
    rows = here("store", "dump", str(tmp_path / "store"), "-o", "jsonl").rows
    flip(tmp_path / "store", rows[DAMAGED])
    return tmp_path / "store"


def bodies(broker: Daemon) -> list[str]:
    read = broker.ask_here("consume", TOPIC, "--pull", "--queue", "0", "-o", "jsonl")
    return [row["body_text"] for row in read.rows]


def sound() -> list[str]:
    return SENT[:DAMAGED] + SENT[DAMAGED + 1 :]


async def test_what_is_sound_is_served_and_nothing_is_taken(store: Path) -> None:
    log_before = next((store / "commitlog").iterdir()).read_bytes()
    with Daemon(store) as broker:
        assert bodies(broker) == sound()
        refused = broker.ask_here("produce", TOPIC, "more")
        assert refused.code != 0
        assert "damaged" in refused.err
        async with asker_of(broker) as asker:
            assert await asker.statuses() == [SERVING, SERVING, SERVING, NOT_SERVING]
        assert 'pocketmq_store_state{state="damaged"} 1.0' in broker.page("/metrics").text
        assert broker.page("/readyz").status == 200
        assert broker.stop() == 0
    assert next((store / "commitlog").iterdir()).read_bytes() == log_before
    told = [json.loads(line) for line in broker.log.read_text().splitlines()]
    (damage,) = [line for line in told if line["event"] == "log.damaged"]
    assert damage["path"].endswith("0" * 20)
    assert damage["bytes"] > 200
    assert here("store", "verify", str(store)).code == EXIT_DAMAGED


def test_accepted_damage_costs_that_message_alone(store: Path) -> None:
    with Daemon(store, "--accept-damage") as broker:
        assert broker.ask_here("produce", TOPIC, "more").code == 0
        assert bodies(broker) == [*sound(), "more"]
        assert broker.stop() == 0
    assert len(list((store / "pocketmq" / "quarantine").glob("*/*.json"))) == 1
    assert here("store", "verify", str(store)).code == 0
    with Daemon(store) as broker:
        assert bodies(broker) == [*sound(), "more"]


def test_a_repair_mends_it_too(store: Path) -> None:
    assert here("store", "repair", str(store)).code == EXIT_DAMAGED
    assert here("store", "repair", str(store), "--yes").code == 0
    with Daemon(store) as broker:
        assert bodies(broker) == sound()
        assert broker.ask_here("produce", TOPIC, "more").code == 0
