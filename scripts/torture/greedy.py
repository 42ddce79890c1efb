"""One user exhausts resources, by one strategy after another, beside a good user and an admin.

    a broker with users ◄─ greedy          a separate process: greedy_ways.py
                        ◄─ a good user     sends, receives and acknowledges at a steady rate
                        ◄─ an admin        reads the status, lists, creates and deletes users

Each strategy runs on a new store. Its row has the p99 of both other users' calls, their refused
calls, the growth of the broker's memory, and the duration of a stop by SIGTERM during the strategy.
The first row, without a strategy, is the baseline of the machine.
"""

import asyncio
import json
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, Final, NamedTuple

from bench.load import percentile
from harness.budget import Budget
from harness.process import anonymous_mib, module
from pocketmq.client import AsyncClient, ClientError, Message, ReceiveQuery
from pocketmq.model.access import User
from pocketmq.tools.users import changed_roster
from tests.e2e.daemon import Daemon
from tests.kit.users import SECRET, grant_of
from torture import greedy_ways
from torture.greedy_ways import WAYS

SECONDS_MAX: Final = 60.0
SECONDS_MIN: Final = 1.0
P99_S: Final = 0.2
GROWTH_MAX: Final = 128 << 20
STOP_S: Final = 5.0
END_S: Final = 60.0
"""Time limit of a stop, after which the broker is killed."""
GOOD_PAUSE_S: Final = 0.05
ADMIN_PAUSE_S: Final = 0.1
LOOK_S: Final = 0.1
WAIT_S: Final = 20.0
"""Time limit of a call by the good user or the admin, after which it counts as lost."""
NOTHING: Final = "(nothing)"
SETTINGS: Final = (
    *("--set", "access.check=on"),
    *("--set", "store.commit_log_file_size_bytes=128MiB"),
)
FILES: Final = 4_096


class Besieged(Daemon):
    """A broker whose event loop may be late: the good calls show the effect."""

    def _check_lateness(self) -> None:
        pass

    def _look(self) -> None:
        pass

    def anonymous_bytes(self) -> int:
        """Returns the broker's anonymous memory, 0 once it has ended."""
        with suppress(OSError):
            return int(anonymous_mib(self.pid) * (1 << 20))
        return 0


class Waits:
    """Durations and errors of calls."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.refused: list[str] = []

    async def time(self, work: Awaitable[Any]) -> Any:
        """Awaits a call and records its duration; returns its result."""
        begun = perf_counter()
        try:
            async with asyncio.timeout(WAIT_S):
                return await work
        except (ClientError, TimeoutError) as error:
            self.refused.append(f"{type(error).__name__}: {error}")
            return None
        finally:
            self.seconds.append(perf_counter() - begun)

    @property
    def p99_s(self) -> float:
        """The p99 of the durations."""
        return percentile(sorted(self.seconds), 0.99)


class Row(NamedTuple):
    """Effects of one strategy on the other users."""

    good_ms: int
    admin_ms: int
    calls: int
    refused: list[str]
    growth_mib: int
    stop_s: float
    code: int
    attack: dict[str, int]

    @property
    def faults(self) -> list[str]:
        """Violations of the limits in this row."""
        found = [f"p99 {ms} ms" for ms in (self.good_ms, self.admin_ms) if ms > P99_S * 1000]
        found += [f"refused {self.refused[0]} ({len(self.refused)})"] if self.refused else []
        found += [f"{self.growth_mib} MiB"] if self.growth_mib > GROWTH_MAX >> 20 else []
        found += [f"ended in {self.stop_s:.1f} s"] if self.stop_s > STOP_S else []
        return [*found, *([f"exit code {self.code}"] if self.code else [])]

    def text(self) -> str:
        """Returns the row's text in the table."""
        return (
            f"good p99 {self.good_ms} ms, admin p99 {self.admin_ms} ms, {self.calls} calls, "
            f"{len(self.refused)} refused, + {self.growth_mib} MiB, ended in {self.stop_s:.1f} s; "
            f"greedy: {json.dumps(self.attack)}"
        )


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Tries all strategies; returns a row for each.

    Errors   AssertionError: violations of the limits
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, most), most))
    names = [NOTHING, *WAYS]
    seconds = min(SECONDS_MAX, max(SECONDS_MIN, budget.seconds / len(names)))
    rows: dict[str, str] = {}
    wrong: list[str] = []
    for name in names:
        row = tried(place / "store", name, seconds)
        rows[name] = row.text()
        wrong += [f"{name}: {', '.join(row.faults)}"] if row.faults else []
        print(f"  {name}: {rows[name]}{' <-- ' + ', '.join(row.faults) if row.faults else ''}")
        sys.stdout.flush()
    assert not wrong, "\n".join(wrong)
    return {"seconds each": round(seconds, 1), **rows}


def tried(store: Path, name: str, seconds: float) -> Row:
    """Runs a strategy for `seconds` on a new store; returns its row."""
    shutil.rmtree(store, ignore_errors=True)
    with changed_roster(store) as roster:
        roster.add(User("root", SECRET, is_admin=True))
        roster.add(User("good", SECRET))
        roster.add(User(greedy_ways.USER, greedy_ways.SECRET))
        for resource_name in ("topic:orders", "group:billing"):
            roster.grant(grant_of("good", "pub,sub,get", resource_name))
        for resource_name in ("topic:mine*", "group:mine*"):
            roster.grant(grant_of(greedy_ways.USER, "pub,sub,get,create,update", resource_name))
    with Besieged(store, *SETTINGS) as broker:
        return asyncio.run(_beside(broker, name, seconds))


async def _beside(broker: Besieged, name: str, seconds: float) -> Row:
    good, root = Waits(), Waits()
    async with AsyncClient(broker.endpoint, access_key="root", secret_key=SECRET) as client:
        await client.admin.create_topic("orders")
        await client.admin.create_group("billing")
        for topic in ("mine", "mine-idle", "mine-later", "mine-half"):
            await client.admin.create_topic(topic)
        for group in ("mine-group", "mine-idle"):
            await client.admin.create_group(group)
    base = peak = broker.anonymous_bytes()
    attack = _begun(broker, name, seconds)
    works = [asyncio.create_task(work) for work in (_good(broker, good), _admin(broker, root))]
    until = monotonic() + seconds
    while monotonic() < until:
        await asyncio.sleep(LOOK_S)
        peak = max(peak, broker.anonymous_bytes())
    for work in works:
        work.cancel()
    await asyncio.gather(*works, return_exceptions=True)
    stop_s, code = await asyncio.to_thread(_stopped, broker)
    return Row(
        good_ms=int(good.p99_s * 1000),
        admin_ms=int(root.p99_s * 1000),
        calls=len(good.seconds) + len(root.seconds),
        refused=[*good.refused, *root.refused],
        growth_mib=(peak - base) >> 20,
        stop_s=stop_s,
        code=code,
        attack=await asyncio.to_thread(_ended, attack),
    )


def _begun(broker: Besieged, name: str, seconds: float) -> "subprocess.Popen[str] | None":
    if name == NOTHING:
        return None
    given = (name, broker.endpoint, broker.ready["http"], seconds + END_S)
    return subprocess.Popen(
        module("torture.greedy_ways", *given),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip


def _ended(attack: "subprocess.Popen[str] | None") -> dict[str, int]:
    """Ends an attack after the broker has ended; returns the attack's last counts of outcomes."""
    if attack is None:
        return {}
    attack.kill()
    out, _ = attack.communicate()
    lines = [line for line in out.splitlines() if line.endswith("}")]
    found: dict[str, int] = json.loads(lines[-1]) if lines else {}
    return found


def _stopped(broker: Besieged) -> tuple[float, int]:
    """Stops a broker, kills it at the limit; returns the duration of the stop and the exit code."""
    begun = perf_counter()
    broker.signal(signal.SIGTERM)
    try:
        code = broker.wait()
    except subprocess.TimeoutExpired:
        broker.end()
        code = -signal.SIGKILL
    return perf_counter() - begun, code


async def _good(broker: Besieged, waits: Waits) -> None:
    """Sends, receives and acknowledges at a steady rate."""
    async with AsyncClient(
        broker.endpoint, retry_ms=0, access_key="good", secret_key=SECRET
    ) as client:
        while True:
            await waits.time(client.send(Message("orders", b"good" * 100)))
            found = await waits.time(client.receive(ReceiveQuery("billing", "orders")))
            if found:
                handles = [leased.receipt_handle for leased in found]
                await waits.time(client.ack("billing", "orders", handles))
            await asyncio.sleep(GOOD_PAUSE_S)


async def _admin(broker: Besieged, waits: Waits) -> None:
    """Makes the calls of an admin, each round on a new connection."""
    while True:
        async with AsyncClient(
            broker.endpoint, retry_ms=0, access_key="root", secret_key=SECRET
        ) as client:
            steps: tuple[Callable[[], Awaitable[Any]], ...] = (
                client.admin.store_status,
                client.admin.access.list_users,
                lambda: client.admin.access.create_user("guest", SECRET),
                lambda: client.admin.access.delete_user("guest"),
            )
            for step in steps:
                await waits.time(step())
                await asyncio.sleep(ADMIN_PAUSE_S)
