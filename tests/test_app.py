"""All parts together in this process: they start, serve, and stop in order."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pocketmq import __version__
from pocketmq.app import serve as app
from pocketmq.app.stage import Stage, with_topics
from pocketmq.client import ClientError, Message, PullQuery
from pocketmq.config.addresses import held_port, split_address
from pocketmq.config.live import LiveConfig
from pocketmq.config.load import load
from pocketmq.files.disk import Disk
from pocketmq.model.errors import FsyncFailed, IllegalConfig, SystemTopic
from pocketmq.model.reading import PullStatus
from pocketmq.store.recovery.progress import Starting
from tests.running_broker import RunningBroker, broker_with, page


async def test_a_session_from_ready_to_stopped(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "store") as broker:
        sent = [Message("orders", b"hello", keys=["k"], queue_id=0)]
        (receipt,) = await broker.client.send_many(sent)
        pulled = await broker.client.pull(PullQuery("orders", 0, 0, wait_ms=5_000))
        status = await broker.client.admin.store_status()
        metrics = await broker.page("/metrics")
        assert (tmp_path / "store" / "abort").exists()
    assert broker.serving.result() == 0
    assert [message.body for message in pulled.messages] == [b"hello"]
    assert pulled.messages[0].unique_key == receipt.message_id
    assert status.state == "running"
    assert 'rocketmq_messages_in_total{cluster="DefaultCluster",' in metrics
    assert "pocketmq_build_info{" in metrics
    assert not (tmp_path / "store" / "abort").exists()


async def test_the_ready_line_tells_where_everything_is(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "store") as broker:
        addresses = dict(broker.addresses)
        assert "200" in (await broker.page("/readyz")).split("\r\n")[0]
    names = "grpc grpc_tls classic_vip http console store pid version"
    assert list(addresses) == names.split()
    assert split_address(addresses["grpc"])[1] > 0
    assert split_address(addresses["http"])[1] > 0
    assert addresses["grpc_tls"] == addresses["grpc"]
    assert addresses["store"] == str(tmp_path / "store")
    assert addresses["version"] == __version__


async def test_messages_carry_the_address_bound(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "store") as broker:
        port = split_address(broker.addresses["grpc"])[1]
        (receipt,) = await broker.client.send_many([Message("orders", b"x")])
    assert receipt.offset_message_id == f"7F000001{port:08X}{0:016X}"


async def test_stopping_answers_parked_polls(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "store") as broker:
        await broker.client.send_many([Message("orders", b"x", queue_id=0)])
        async with asyncio.TaskGroup() as tasks:
            query = PullQuery("orders", 0, 1, wait_ms=30_000)
            parked = tasks.create_task(broker.client.pull(query))
            while "pocketmq_long_poll_waiters 1.0" not in await broker.page("/metrics"):
                pass
            broker.stop.set_result("test")
    assert parked.result().status is PullStatus.OFFSET_OVERFLOW_ONE
    assert parked.result().messages == []
    assert broker.serving.result() == 0


class FailingDisk(Disk):
    """A disk that keeps nothing from a moment on."""

    def __init__(self) -> None:
        super().__init__()
        self.has_failed = False

    def sync(self, descriptor: int) -> None:
        """Keeps what was written, or refuses to."""
        if self.has_failed:
            raise FsyncFailed(why="of a test")
        super().sync(descriptor)


async def test_a_disk_that_fails_ends_the_broker_with_74(tmp_path: Path) -> None:
    disk = FailingDisk()
    async with broker_with(tmp_path / "store", stage=Stage(disk=disk)) as broker:
        await broker.client.send_many([Message("orders", b"x")])
        disk.has_failed = True
        with pytest.raises(ClientError):
            await broker.client.send_many([Message("orders", b"y")])
        assert await _has_ended(broker)
    assert broker.serving.result() == app.EXIT_STORE_FAILED == 74
    assert (tmp_path / "store" / "abort").exists()


async def _has_ended(broker: RunningBroker) -> bool:
    while True:
        try:
            await broker.page("/livez")
        except OSError:
            return True


async def test_during_recovery_it_is_alive_not_ready_and_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_begun = asyncio.Event()

    async def recover_for_ever(*told: object) -> None:
        starting = told[-1]
        assert isinstance(starting, Starting)
        starting.recover()
        has_begun.set()
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(app, "open_store", recover_for_ever)
    stop: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    with held_port("127.0.0.1:0") as http:
        given = [f"store.directory={tmp_path}", "rpc.listen=127.0.0.1:0", f"http.listen={http}"]
        config = load(assignments=given)

        def announce(addresses: Mapping[str, object]) -> None:
            raise AssertionError(addresses)

        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(app.serve(LiveConfig(config), announce, stop))
            await has_begun.wait()
            statuses = [
                (await page(http, path)).split()[1] for path in ("/startupz", "/livez", "/readyz")
            ]
            stop.set_result("SIGTERM")
    assert statuses == ["200", "200", "503"]
    assert serving.result() == 0


async def test_an_http_address_in_use_stops_everything_again(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "a") as broker:
        taken = f"http.listen={broker.addresses['http']}"
        with pytest.raises(IllegalConfig):
            async with broker_with(tmp_path / "b", taken):
                pass
    assert not (tmp_path / "b" / "abort").exists()


async def test_the_second_signal_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    stop: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    app.request_stop(stop, signal.SIGTERM)
    assert (stop.result(), codes) == ("SIGTERM", [])
    with pytest.raises(asyncio.InvalidStateError):  # where a process would have ended
        app.request_stop(stop, signal.SIGINT)
    assert codes == [130]


def test_without_assertions_it_does_not_start() -> None:
    done = subprocess.run(
        [sys.executable, "-O", "-m", "pocketmq", "serve"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "python -O" in done.stderr
    assert done.stdout == ""


async def test_topics_are_there_before_clients_come(tmp_path: Path) -> None:
    stage = Stage(prepare=with_topics([("orders", ""), ("steps", "FIFO")]))
    async with broker_with(tmp_path / "store", stage=stage) as broker:
        found = [await broker.client.admin.describe_topic(name) for name in ("orders", "steps")]
    assert [dict(topic.attributes) for topic in found] == [{}, {"message.type": "FIFO"}]


async def test_a_topic_that_cannot_be_made_ends_the_start(tmp_path: Path) -> None:
    stage = Stage(prepare=with_topics([("TBW102", "")]))
    with pytest.raises(SystemTopic):
        async with broker_with(tmp_path / "store", stage=stage):
            pytest.fail("it serves")
