"""Starts and stops: killed in recovery, told to stop under load, started twice.

A stop in order leaves nothing to do for the next start: no abort mark, nothing cut, no record that
is not in the views already.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

import pytest

from pocketmq.client import ClientError
from pocketmq.format.names import ABORT_FILE
from tests.e2e.daemon import Daemon, pocketmq
from tests.faults.history import History
from tests.faults.lives import SMALL_FILES, can_trace, tracer, words
from tests.faults.load import Load

SEED: Final = 7
RECOVERY_KILLS: Final = 4
"""A start costs half a second; 8 s are for them. `scripts/torture/run kill` kills in starts and
stops for hours."""
RECOVERY_CALLS: Final = ("fdatasync", "fsync", "pwrite64", "fallocate", "rename", "unlink")
STOPS: Final = 4
"""Each with half a second of load, 11 s in all."""
KILLED_STOPS: Final = 2
STOP_S_MAX: Final = 5.0
WANTED: Final = 1_500
NOTHING_TO_DO: Final = {"@clean"}
REFUSED: Final = 4
USAGE: Final = 2

Brokers = Callable[[int], "Broker"]


class Broker:
    """One store with its clients, through starts and ends of its broker."""

    def __init__(self, place: Path, seed: int) -> None:
        self.store = place / "store"
        self.history = History(place / "history.jsonl")
        self.load = Load(self.history, seed)
        self.chance = Random(seed)
        print(f"repro: pytest tests/faults/test_restart.py, seed {seed}")

    def daemon(self, *settings: str, call: str = "", number: int = 0) -> Daemon:
        """Returns a broker that is not started yet."""
        traced = tracer(call, number) if call else ()
        return Daemon(self.store, *words({}, *SMALL_FILES, *settings), tracer=traced)

    def look(self, daemon: Daemon) -> None:
        """Compares everything."""
        asyncio.run(self.load.look(daemon.endpoint, whole=True))

    def work(self, daemon: Daemon, number: signal.Signals, wanted: int = WANTED) -> float:
        """Sends until a signal is due; returns when it was sent, as time.monotonic()."""
        sent_at: list[float] = []

        def end() -> None:
            sent_at.append(time.monotonic())
            daemon.signal(number)

        asyncio.run(self.load.run(daemon.endpoint, wanted, end))
        return sent_at[0]

    def files(self) -> dict[str, bytes]:
        """Returns the content of the views and the log."""
        parts = [self.store / name for name in ("commitlog", "consumequeue", "index")]
        files = [path for part in parts for path in sorted(part.rglob("*")) if path.is_file()]
        return {str(path.relative_to(self.store)): path.read_bytes() for path in files}


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    """Makes the broker of a test from a seed; its history ends with the test."""
    made: list[Broker] = []

    def make(seed: int) -> Broker:
        made.append(Broker(tmp_path, seed))
        return made[-1]

    yield make
    for broker in made:
        broker.history.close()


def opened(daemon: Daemon) -> dict[str, str]:
    """Returns what a broker said when its store was open."""
    lines = [json.loads(line) for line in daemon.log.read_text().splitlines()]
    (event,) = [line for line in lines if line.get("event") == "store.opened"]
    found: dict[str, str] = event
    return found


def mapped(page: str, name: str) -> float:
    """Returns the value of a metric without labels of its own."""
    values = [line for line in page.splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
    return sum(float(line.rsplit(" ", 1)[1]) for line in values)


def check_views_complete(store: Path) -> None:
    """Fails where a stopped store's views lack anything of its log, which a start would add."""
    done = pocketmq("store", "verify", str(store), "-o", "jsonl", "--max-findings", "5")
    assert (done.code, done.out) == (0, ""), f"{done.out}{done.err}"


# -- killed in recovery ----------------------------------------------------------------------------


@pytest.mark.timeout(200)
def test_recovery_that_is_killed_again_and_again_ends_the_same(brokers: Brokers) -> None:
    if not can_trace():
        pytest.skip("strace is missing, or may not trace")
    broker = brokers(SEED)
    killed = 0
    for round_number in range(RECOVERY_KILLS):
        if not round_number % 2:  # the others recover what was half recovered
            with broker.daemon() as daemon:
                broker.look(daemon)
                broker.work(daemon, signal.SIGKILL)
                daemon.wait()
        call = broker.chance.choice(RECOVERY_CALLS)
        daemon = broker.daemon(call=call, number=broker.chance.randint(1, 3))
        daemon.begin()
        try:
            if daemon.becomes_ready():  # it was not called so often before; it may be any moment
                with suppress(ProcessLookupError):
                    daemon.signal(signal.SIGKILL)
        finally:
            daemon.end()
        killed += 1
    with broker.daemon() as daemon:
        broker.look(daemon)
        daemon.signal(signal.SIGKILL)
        daemon.wait()
    before = broker.files()
    with broker.daemon() as daemon:
        broker.look(daemon)
        daemon.signal(signal.SIGKILL)
        daemon.wait()
    after = broker.files()
    different = [
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    ]
    assert not different, "a second recovery is to find nothing to do"
    assert killed >= RECOVERY_KILLS
    assert broker.history.figures["acknowledged"] >= WANTED * RECOVERY_KILLS // 2
    done = pocketmq("store", "verify", str(broker.store), "--read-only")
    assert done.code == 0, done.out + done.err


# -- stopped under load ----------------------------------------------------------------------------


@pytest.mark.timeout(200)
def test_a_stop_under_load_is_quick_and_leaves_nothing_to_do(brokers: Brokers) -> None:
    broker = brokers(SEED + 1)
    plans: list[str] = []
    stops = 0
    for number in range(STOPS):
        flush = ("sync", "async")[number % 2]
        daemon = broker.daemon(f"store.flush={flush}")
        with daemon:
            plans.append(opened(daemon)["plan"])
            page = daemon.page("/metrics").text
            assert mapped(page, "pocketmq_recovery_truncated_bytes") == 0
            broker.look(daemon)
            told_at = broker.work(daemon, signal.SIGTERM)
            assert daemon.wait() == os.EX_OK, daemon.log.read_text()
            took_s = time.monotonic() - told_at
            assert took_s <= STOP_S_MAX, f"it took {took_s:.1f} s to end"
            stops += 1
        assert not (broker.store / ABORT_FILE).exists()
        check_views_complete(broker.store)
    with broker.daemon() as daemon:
        plans.append(opened(daemon)["plan"])
        broker.look(daemon)
        assert daemon.stop() == os.EX_OK
    assert plans[0] == "@no_log"
    assert set(plans[1:]) <= NOTHING_TO_DO
    assert len(plans) == STOPS + 1
    assert stops >= STOPS
    assert broker.history.figures["acknowledged"] >= STOPS * WANTED


# -- killed while it stops -------------------------------------------------------------------------


def test_a_stop_that_is_killed_loses_nothing(brokers: Brokers) -> None:
    broker = brokers(SEED + 2)
    for _ in range(KILLED_STOPS):
        with broker.daemon() as daemon:
            broker.look(daemon)
            broker.work(daemon, signal.SIGTERM, wanted=500)
            time.sleep(broker.chance.uniform(0, 0.05))
            daemon.signal(signal.SIGKILL)
            daemon.wait()
    with broker.daemon() as daemon:
        broker.look(daemon)
        assert daemon.stop() == os.EX_OK
    assert broker.history.figures["acknowledged"] >= KILLED_STOPS * 500


# -- started twice ---------------------------------------------------------------------------------


async def acknowledged_meanwhile(broker: Broker, daemon: Daemon) -> tuple[int, str, int, str]:
    """Starts a second broker on the store, and one on the port, while the first one works."""
    port = ["--listen", daemon.endpoint, "--http", "127.0.0.1:0"]
    free = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    elsewhere = broker.store.with_name("other")

    async def second(store: Path, ports: list[str]) -> tuple[int, str]:
        done = await asyncio.to_thread(pocketmq, "serve", "--store", str(store), *ports)
        return done.code, done.err

    async def all_seconds() -> tuple[int, str, int, str]:
        on_store = await second(broker.store, free)
        on_port = await second(elsewhere, port)
        daemon.signal(signal.SIGTERM)
        return *on_store, *on_port

    _, answers = await asyncio.gather(
        broker.load.run(daemon.endpoint, 10**9, lambda: None), all_seconds()
    )
    return answers


def test_a_second_broker_refuses_and_the_first_does_not_notice(brokers: Brokers) -> None:
    broker = brokers(SEED + 3)
    with broker.daemon() as daemon:
        broker.look(daemon)
        answers = asyncio.run(acknowledged_meanwhile(broker, daemon))
        assert daemon.wait() == os.EX_OK
    store_code, store_err, port_code, port_err = answers
    assert store_code == REFUSED
    assert f"{broker.store} is in use by process " in store_err
    assert port_code == USAGE
    assert daemon.endpoint in port_err
    assert "Traceback" not in store_err + port_err
    with broker.daemon() as daemon:
        broker.look(daemon)
        assert opened(daemon)["plan"] in NOTHING_TO_DO
        assert daemon.stop() == os.EX_OK
    assert broker.history.figures["acknowledged"] >= WANTED


def test_clients_of_a_broker_that_stopped_are_told(brokers: Brokers) -> None:
    broker = brokers(SEED + 4)
    with broker.daemon() as daemon:
        broker.look(daemon)
        assert daemon.stop() == os.EX_OK
        with pytest.raises(ClientError, match="no broker answers"):
            broker.look(daemon)
