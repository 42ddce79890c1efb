"""RocketMQ's own client for Python signs as it always did, and is let in or told why not."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from pocketmq.model.access import User
from pocketmq.tools.users import changed_roster
from tests.kit.users import grant_of
from tests.running_broker import RunningBroker, broker_with

CLIENT: Final = str(Path(__file__).parent / "official" / "signing.py")
SECRET: Final = "a-secret"
END_S: Final = 60


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    """A broker with users: one may send and receive orders, one nothing."""
    with changed_roster(tmp_path) as roster:
        roster.add(User("app", SECRET))
        roster.add(User("idle", SECRET))
        roster.grant(grant_of("app", "pub,sub", "topic:orders"))
        roster.grant(grant_of("app", "sub", "group:billing"))
    async with broker_with(tmp_path, "access.check=on") as running:
        yield running


async def told(broker: RunningBroker, key: str, secret: str, *words: str) -> dict[str, Any]:
    """Returns what the client told."""

    def run() -> dict[str, Any]:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [sys.executable, CLIENT, broker.addresses["grpc"], key, secret, *words],
            capture_output=True, text=True, check=False, timeout=END_S, env=environment,
        )  # fmt: skip
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        assert lines, done.stderr
        found: dict[str, Any] = json.loads(lines[-1])
        return found

    return await asyncio.to_thread(run)


async def test_who_may_sends_and_receives(broker: RunningBroker) -> None:
    sent = await told(broker, "app", SECRET, "send", "orders")
    assert len(sent["message_id"]) > 30
    got = await told(broker, "app", SECRET, "receive", "orders", "billing")
    assert got == {"body": "signed"}


@pytest.mark.parametrize(
    ("key", "secret", "words", "text"),
    [
        ("app", "wrong", ("send", "orders"), "route"),
        ("nobody", SECRET, ("send", "orders"), "route"),
        ("", "", ("send", "orders"), "route"),
        ("idle", SECRET, ("send", "orders"), "route"),
        ("app", SECRET, ("send", "others"), "route"),
        ("app", SECRET, ("receive", "orders", "other"), "user app may not sub 'group:other'"),
    ],
)
async def test_who_may_not_does_not(
    broker: RunningBroker, key: str, secret: str, words: tuple[str, ...], text: str
) -> None:
    """Of routes that it is refused the client tells no more than that; it logs the rest."""
    found = await told(broker, key, secret, *words)
    assert text in found["text"], found
