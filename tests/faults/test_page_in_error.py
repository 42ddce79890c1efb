"""An unreadable page of a mapped file ends the broker by SIGBUS, and no message is lost.

Python cannot answer SIGBUS. Another program shortens the log's file behind what was written:
the next append finds no page there, which is what an unreadable disk does too. The broker's last
words are where every thread stood; given its length back, the store goes on.
"""

import asyncio
import os
import signal
from pathlib import Path
from typing import Final

import pytest

from pocketmq.client import AsyncClient, ClientError, Message
from tests.e2e.daemon import Daemon, bodies_of
from tests.faults.lives import words

FILE_SIZE: Final = 1024 * 1024
BEFORE: Final = 50
"""Messages acknowledged before the page is gone, 2 KiB each."""
BODY_SIZE: Final = 2_048
TOPIC: Final = "orders"
PAGE_SIZE: Final = 4_096

SETTINGS: Final = words({}, f"mappedFileSizeCommitLog={FILE_SIZE}", "store.reserve_size_bytes=0")


def body(number: int) -> bytes:
    """Returns the body of a message."""
    return b"%06d" % number * (BODY_SIZE // 6)


async def send(endpoint: str, begin: int, end: int) -> int:
    """Sends one message after the other until one fails; returns how many were acknowledged."""
    async with AsyncClient(endpoint, retry_ms=0) as client:
        for number in range(begin, end):
            try:
                await client.send_many([Message(TOPIC, body(number), queue_id=0)])
            except ClientError:
                return number
    return end


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_a_page_that_is_gone_ends_the_broker_and_loses_nothing(tmp_path: Path, flush: str) -> None:
    settings = [*SETTINGS, *words({"store.flush": flush})]
    with Daemon(tmp_path / "store", *settings) as daemon:
        assert asyncio.run(send(daemon.endpoint, 0, BEFORE)) == BEFORE
        (path, *_) = sorted((tmp_path / "store" / "commitlog").iterdir())
        written = BEFORE * (BODY_SIZE + 512)
        os.truncate(path, written + -written % PAGE_SIZE)
        acknowledged = asyncio.run(send(daemon.endpoint, BEFORE, FILE_SIZE // BODY_SIZE))
        assert BEFORE <= acknowledged < FILE_SIZE // BODY_SIZE
        assert daemon.wait() == -signal.SIGBUS
        told = daemon.log.read_text()
        last_words = told.partition("Fatal Python error: Bus error")[2]
        # Modules that run compiled have no frames there: who called them has.
        assert "most recent call first" in last_words
        assert "/broker/" in last_words
    os.truncate(path, FILE_SIZE)
    with Daemon(tmp_path / "store", *settings) as daemon:
        found = bodies_of(daemon.endpoint, TOPIC)
        assert found[:acknowledged] == [body(number) for number in range(acknowledged)]
        assert len(found) <= acknowledged + 1
        assert asyncio.run(send(daemon.endpoint, len(found), len(found) + 10)) == len(found) + 10
        assert daemon.stop() == os.EX_OK
