"""systemd hears that the broker starts, serves, reads its settings again, and stops."""

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

from pocketmq.app.serve import hang_up
from pocketmq.app.stage import Stage
from pocketmq.app.supervisor import Supervisor, is_journal, supervisor_of
from pocketmq.config.live import LiveConfig
from pocketmq.config.load import examine, load
from tests.running_broker import broker_with

ME = str(os.getpid())


class Heard:
    """The datagrams of a broker, each as a dict."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.news: asyncio.Queue[str] = asyncio.Queue()

    def __call__(self, text: str) -> None:
        self.texts.append(text)
        self.news.put_nowait(text)

    async def next(self, count: int) -> list[str]:
        """Returns this many datagrams, waiting for them."""
        return [await self.news.get() for _ in range(count)]

    @property
    def words(self) -> list[str]:
        """The first line of each, without beats."""
        lines = [text.split("\n")[0] for text in self.texts]
        return [line for line in lines if line != "WATCHDOG=1"]


async def test_a_life_is_reported_in_its_order(tmp_path: Path) -> None:
    heard = Heard()
    stage = Stage(supervisor=Supervisor(heard))
    async with broker_with(tmp_path, stage=stage):
        assert heard.words == ["READY=1"]
        assert "STATUS=running" in heard.texts[-1]
    assert heard.words == ["READY=1", "STOPPING=1"]
    start = heard.texts[0].split("\n")
    assert start[:2] == ["WATCHDOG=1", "EXTEND_TIMEOUT_USEC=60000000"]
    assert start[2].startswith("STATUS=")
    assert start[2].endswith(" %")


async def test_beats_go_on_until_the_end_and_extend_the_start_until_it_is_ready() -> None:
    heard = Heard()
    supervisor = Supervisor(heard, beat_s=0.000_1)
    supervisor.start(lambda: "recovering")
    assert all("EXTEND_TIMEOUT_USEC=" in text for text in await heard.next(3))
    supervisor.ready()
    while "READY=1" not in (await heard.next(1))[0]:
        pass
    assert set(await heard.next(2)) == {"WATCHDOG=1\nSTATUS=recovering"}
    supervisor.close()
    count = len(heard.texts)
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(heard.texts) == count


async def test_a_reload_is_reported_from_its_begin_to_its_end() -> None:
    heard = Heard()
    live = LiveConfig(load(), examine)
    hang_up(live, asyncio.get_running_loop().create_future(), Supervisor(heard))
    assert heard.words == ["RELOADING=1", "READY=1"]
    assert "MONOTONIC_USEC=" in heard.texts[0]
    stop: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    hang_up(LiveConfig(load()), stop, Supervisor(heard))
    assert stop.result() == signal.SIGHUP.name


@pytest.mark.parametrize("is_abstract", [False, True])
def test_datagrams_reach_the_socket_and_its_names_leave_the_environment(
    tmp_path: Path, is_abstract: bool
) -> None:
    path = f"pocketmq-{ME}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{path}" if is_abstract else path)
        address = f"@{path}" if is_abstract else path
        environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "6000000", "WATCHDOG_PID": ME}
        supervisor_of(environment).ready()
        assert listening.recv(100) == b"READY=1\nSTATUS="
    assert environment == {}


def test_a_supervisor_that_is_gone_disturbs_nobody(tmp_path: Path) -> None:
    supervisor_of({"NOTIFY_SOCKET": str(tmp_path / "none")}).ready()
    supervisor_of({}).ready()


@pytest.mark.parametrize(
    ("environment", "beat_s"),
    [
        ({}, 5.0),
        ({"WATCHDOG_USEC": "3000000"}, 1.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": ME}, 1.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, 5.0),
        ({"WATCHDOG_USEC": "60000000"}, 5.0),
        ({"WATCHDOG_USEC": "soon"}, 5.0),
    ],
)
def test_three_beats_fit_into_the_watchdogs_time(
    environment: dict[str, str], beat_s: float
) -> None:
    assert supervisor_of({"NOTIFY_SOCKET": "/n", **environment}).beat_s == beat_s


def test_the_journal_is_known_by_its_device_and_inode(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file:
        found = os.fstat(file.fileno())
        stream = f"{found.st_dev}:{found.st_ino}"
        assert is_journal({"JOURNAL_STREAM": stream}, file.fileno())
        assert not is_journal({"JOURNAL_STREAM": f"{stream}1"}, file.fileno())
        assert not is_journal({}, file.fileno())
