"""Two daemons: one follows the other through rolls and kills of either, and ends byte-equal."""

import asyncio
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from pocketmq.client import AsyncClient, Message
from pocketmq.client.client_error import ClientError
from pocketmq.format.names import COMMIT_LOG_DIRECTORY
from tests.e2e.daemon import Daemon
from tests.kit.golden_log import files_below

SMALL = ("--set", "store.commit_log_file_size_bytes=128KiB")
LIMIT_S = 60


def log_of(directory: Path) -> bytes:
    """Returns the log of a store, without zeros at its end."""
    files = files_below(directory / COMMIT_LOG_DIRECTORY)
    return b"".join(files[name] for name in sorted(files)).rstrip(b"\0")


@contextmanager
def load(endpoint: str, sent: list[bytes]) -> Iterator[None]:
    """Sends messages until the block ends, also over restarts; `sent` are those acknowledged."""
    over = Event()

    async def send() -> None:
        async with AsyncClient(endpoint, retry_ms=20_000) as client:
            number = 0
            while not over.is_set():
                body = b"%d " % number + b"x" * (number * 37 % 3_000)
                number += 1
                try:
                    await client.send(Message("orders", body))
                except ClientError:
                    continue
                sent.append(body)

    thread = Thread(target=lambda: asyncio.run(send()))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def wait_for(count: int, sent: list[bytes]) -> None:
    """Returns once so many more messages were acknowledged."""
    goal, until = len(sent) + count, time.monotonic() + LIMIT_S
    while len(sent) < goal:
        assert time.monotonic() < until, "no message is acknowledged"
        time.sleep(0.01)


def ends(*endpoints: str) -> list[tuple[int, int]]:
    """Returns (appended, dispatched) of brokers."""

    async def ask() -> list[tuple[int, int]]:
        found = []
        for endpoint in endpoints:
            async with AsyncClient(endpoint, retry_ms=20_000) as client:
                status = await client.admin.store_status()
                found.append((status.appended_offset, status.dispatched_offset))
        return found

    return asyncio.run(ask())


def catch_up(leader: str, follower: str) -> None:
    """Returns once the follower has and shows everything of a leader that stands still."""
    until = time.monotonic() + LIMIT_S
    while True:
        led, followed = ends(leader, follower)
        if led[0] == followed[0] == followed[1]:
            return
        assert time.monotonic() < until, f"the follower is at {followed}, the leader at {led}"


def test_a_follower_is_byte_equal_after_kills_of_either_side(tmp_path: Path) -> None:
    sent: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        follows = (*SMALL, "--set", f"replication.leader={address}")
        leader = Daemon(tmp_path / "a", *SMALL, listening=listening)
        follower = Daemon(tmp_path / "b", *follows)
        try:
            leader.begin()
            leader.serve()
            with load(address, sent):
                wait_for(150, sent)
                follower.begin()
                follower.serve()
                for victim in (follower, leader, follower, leader):
                    wait_for(60, sent)
                    victim.signal(signal.SIGKILL)
                    victim.wait()
                    victim.end()
                    victim.begin()
                    victim.serve()
                wait_for(60, sent)
            catch_up(address, follower.endpoint)
            assert follower.stop() == 0
            assert leader.stop() == 0
        finally:
            for one in (leader, follower):
                one.end()
    assert len(log_of(tmp_path / "a")) > 4 * 128 * 1024
    assert log_of(tmp_path / "a") == log_of(tmp_path / "b")
    logs = log_of(tmp_path / "b")
    assert all(body in logs for body in sent)
