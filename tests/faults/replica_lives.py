"""Two daemons under a load, with a proxy in each direction between them: faults, then a comparison.

    with ReplicaLives(place, seed) as lives:
        lives.live("kill leader, promote")      one event of EVENTS under load
        lives.compare()                         both are equal, and the history has no fault

Acknowledgements wait for the follower (`in_sync_replicas = 2` on both). Events are of EVENTS. Each
start sets another clock, and all brokers are forked from one process (forge.py). As root each has a
small ext4 in an image of its own (power_disk.py), which can be filled and whose power can be cut.
"""

import asyncio
import os
import shutil
import signal
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, Self

from harness.process import Failed
from pocketmq.client import AsyncClient, ClientError, DeadlineExceeded, Message, PullQuery
from pocketmq.format.names import COMMIT_LOG_DIRECTORY
from pocketmq.model.batch import PutStatus
from pocketmq.model.replication import FENCED, FOLLOWER, LEADER, ReplicationStatus
from tests.e2e.daemon import messages_of
from tests.e2e.proxy import Proxy
from tests.faults.forge import Forge, Forged
from tests.faults.history import Code, Queue, body_of, code_of
from tests.faults.power_disk import PowerDisk
from tests.faults.replicas import Ack, Leads, PairHistory, Place, Seen, faults_of
from tests.kit.golden_log import files_below

SETTINGS: Final = (
    "--set", "store.commit_log_file_size_bytes=256KiB", "--set", "replication.in_sync_replicas=2",
    "--set", "replication.ack_timeout_ms=1s", "--set", "broker.default_queue_count=1",
)  # fmt: skip
TOPICS: Final = ("orders", "bills")
SLOW_S: Final = 180.0
SENT_S, REFUSED_S = 0.002, 0.05
"""Pauses of a producer: starts need the cores."""
EVENTS: Final = (
    "kill follower", "kill leader", "kill leader, promote", "kill both", "kill both, promote",
    "pause leader, promote", "hand over", "cut", "stall to leader", "stall to follower",
    "lose disk of follower", "fill disk of follower", "fill disk of leader",
    "cut power of both", "cut power of both, promote",
)  # fmt: skip
AHEAD_MS: Final = (-3_600_000, 0, 3_600_000)
"""Each start of a broker sets its clock to one of these."""
KILLS_MAX: Final = 6
"""Most kills of one start: all but the last one are while it starts."""
CUTS_MAX: Final = 6
"""Most power cuts of one event: all but the first one are while both start."""
STARTING_S: Final = 0.4
LOADED_S: Final = (0.05, 0.25)
"""Load before and after an event."""
PULSES: Final = 15
"""Pauses of an old leader after the promotion."""
DISK_BYTES: Final = 160 << 20
COMMITS_S: Final = (1, 5, 1000)
"""Intervals of the journal; each pair has one of them."""
IN_MEMORY: Final = Path("/dev/shm")
"""Holds the images if it exists: a sync of one costs no sync of this machine's disk."""


class Party:
    """One broker: its process, the socket that it keeps over restarts, and the proxy to it.

    As root it has a file system of its own.
    """

    def __init__(self, place: Path, name: str, stack: ExitStack, commit_s: int) -> None:
        self.name = name
        self.place = place / name
        self.store = self.place / "store"
        self.place.mkdir()
        self.disk = _disk(self.place, stack, commit_s)
        self.listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.address = f"127.0.0.1:{self.listening.getsockname()[1]}"
        self.proxy = stack.enter_context(Proxy(self.address))
        self.follows = ""
        self.daemon: Forged | None = None

    def begin(self, forge: Forge, chance: Random) -> None:
        """Starts the process, with another clock."""
        follows = ("--set", f"replication.leader={self.follows}") if self.follows else ()
        ahead_ms = chance.choice(AHEAD_MS)
        self.daemon = Forged(
            forge, self.store, self.listening, *SETTINGS, *follows, ahead_ms=ahead_ms
        )
        self.daemon.begin()

    def kill(self) -> None:
        """Ends the process by SIGKILL."""
        assert self.daemon is not None
        self.daemon.end()
        self.daemon = None

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal."""
        assert self.daemon is not None
        self.daemon.signal(number)

    def fill(self) -> None:
        """Takes the room that is left on its file system, up to some KiB."""
        free = os.statvfs(self.place)
        with (self.place / "ballast").open("wb") as file, suppress(OSError):  # A race for the rest.
            os.posix_fallocate(file.fileno(), 0, max(free.f_bfree - 8, 1) * free.f_frsize)

    def free(self) -> None:
        """Frees that room durably: a power cut must not fill the disk again, for the rules of
        retention delete the oldest files of a full one.
        """
        (self.place / "ballast").unlink()
        descriptor = os.open(self.place, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _disk(place: Path, stack: ExitStack, commit_s: int) -> PowerDisk | None:
    """Mounts a file system of its own at a directory; returns None if this machine cannot."""
    if os.geteuid() != 0:
        return None
    above = IN_MEMORY if IN_MEMORY.is_dir() else None
    image = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=above))) / "image"
    options = f"data=ordered,commit={commit_s}"
    with suppress(Failed, OSError):
        return stack.enter_context(PowerDisk(image, place, "ext4", options, DISK_BYTES))
    return None


class ReplicaLives:
    """A leader and its follower over many events."""

    def __init__(self, place: Path, seed: int) -> None:
        self.chance = Random(seed)
        self.figures: Counter[str] = Counter()
        self.history = PairHistory()
        self._stack = ExitStack()
        commit_s = self.chance.choice(COMMITS_S)
        self._parties = [Party(place, name, self._stack, commit_s) for name in ("a", "b")]
        self._parties[1].follows = self._parties[0].proxy.address
        sockets = [party.listening.fileno() for party in self._parties]
        self._forge = self._stack.enter_context(Forge(sockets))
        self.leader, self.follower = self._parties
        self._seq = 0

    def __enter__(self) -> Self:
        try:
            self._note_leader(0)
            self._start(self.leader, self.follower)
            self.settle()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            for party in self._parties:
                shutil.copytree(party.place, party.place.with_suffix(".kept"))
        self._end()

    def _end(self) -> None:
        for party in self._parties:
            if party.daemon is not None:
                with suppress(OSError):
                    party.signal(signal.SIGCONT)
                party.daemon.end()
        self._stack.close()

    def _start(self, *parties: Party) -> None:
        """Starts brokers, each of which may be killed while it starts, and waits for both."""
        is_first = not self.history.events[1:]
        for _ in range(0 if is_first else self.chance.randrange(KILLS_MAX)):
            killed = self.chance.sample(parties, self.chance.randint(1, len(parties)))
            for party in killed:
                party.begin(self._forge, self.chance)
            time.sleep(self.chance.uniform(0, STARTING_S))
            self.figures["kills at a start"] += len(killed)
            self._kill(*killed)
        for party in parties:
            party.begin(self._forge, self.chance)
        for party in parties:
            assert party.daemon is not None
            party.daemon.serve()

    # -- events --------------------------------------------------------------------------------
    def live(self, event: str) -> None:
        """Lets one event happen under load, and waits until one leads and the other follows."""
        self.figures[event] += 1
        words = event.replace(",", "").replace(" ", "_")
        happens: Callable[[], None] = getattr(self, f"_{words}")
        asyncio.run(self._loaded(happens))
        self.settle()

    async def _loaded(self, happens: Callable[[], None]) -> None:
        over = asyncio.Event()
        loads = [
            asyncio.create_task(self._load(party, lane, topic, over))
            for party in self._parties
            for lane, topic in enumerate(TOPICS)
        ]
        try:
            await asyncio.sleep(self.chance.uniform(*LOADED_S))
            await asyncio.to_thread(happens)
            await asyncio.sleep(self.chance.uniform(*LOADED_S))
        finally:
            over.set()
            await asyncio.gather(*loads)

    async def _load(self, party: Party, lane: int, topic: str, over: asyncio.Event) -> None:
        """Sends to a broker whatever its role is, and reads, until the event is over."""
        async with AsyncClient(party.address, retry_ms=0, timeout_ms=3_000) as client:
            while not over.is_set():
                self._seq += 1
                code, sent_at = (lane, self._seq), time.monotonic()
                body = body_of(code, b"x" * self.chance.choice((10, 300, 3_000)))
                try:
                    receipt = await client.send(Message(topic, body))
                except ClientError:
                    self.figures["sends refused, or without answer"] += 1
                    await asyncio.sleep(REFUSED_S)
                    continue
                self.figures[f"sends: {receipt.status.name}"] += 1
                if receipt.status is PutStatus.OK:
                    place = Place((topic, receipt.queue_id), receipt.queue_offset)
                    now = time.monotonic()
                    self.history.events.append(Ack(now, party.name, place, code, sent_at))
                    if self._seq % 4 == 0:
                        await self._read(client, party, place)
                await asyncio.sleep(SENT_S if receipt.status is PutStatus.OK else REFUSED_S)

    async def _read(self, client: AsyncClient, party: Party, place: Place) -> None:
        """Reads what was acknowledged, and what follows it."""
        (topic, queue_id), at = place
        with suppress(ClientError):
            page = await client.pull(PullQuery(topic, queue_id, at, max_messages=8))
            for message in page.messages:
                found = Place(place.queue, message.queue_offset)
                code, now = code_of(message.body), time.monotonic()
                self.history.events.append(Seen(now, party.name, found, code))
                self.figures["read"] += 1

    def _kill(self, *parties: Party) -> None:
        for party in parties:
            party.kill()
            self.figures["kills"] += 1

    def _kill_follower(self) -> None:
        self._kill(self.follower)
        self._start(self.follower)

    def _kill_leader(self) -> None:
        self._kill(self.leader)
        self._start(self.leader)

    def _kill_leader_promote(self) -> None:
        old = self.leader
        self._kill(old)
        self.promote()
        self._start(old)

    def _kill_both(self) -> None:
        self._kill(*self.chance.sample(self._parties, 2))
        self._start(*self.chance.sample(self._parties, 2))

    def _kill_both_promote(self) -> None:
        old = self.leader
        self._kill(*self.chance.sample(self._parties, 2))
        self._start(self.follower)
        self.promote()
        self._start(old)

    def _cut_power_of_both(self) -> None:
        if self._cut_power():
            self._start(*self.chance.sample(self._parties, 2))

    def _cut_power_of_both_promote(self) -> None:
        old = self.leader
        if self._cut_power():
            self._start(self.follower)
            self.promote()
            self._start(old)

    def _cut_power(self) -> bool:
        """Cuts the power of both, also while they start; returns whether this machine can."""
        disks = [party.disk for party in self._parties if party.disk is not None]
        if len(disks) < len(self._parties):
            return False
        for number in range(self.chance.randint(1, CUTS_MAX)):
            for party in self._parties if number else ():
                party.begin(self._forge, self.chance)
            time.sleep(self.chance.uniform(0, STARTING_S if number else 0))
            for disk in self.chance.sample(disks, 2):
                disk.cut()
                time.sleep(self.chance.choice((0, 0, 0.05)))
            self.figures["power cuts of both"] += 1
            for party in self._parties:
                party.kill()
            for disk in disks:
                disk.unmount()
                disk.mount()
        return True

    def _pause_leader_promote(self) -> None:
        old = self.leader
        self._pause(old)
        self.promote()
        for _ in range(PULSES):
            time.sleep(self.chance.uniform(0, 0.05))
            old.signal(signal.SIGCONT)
            time.sleep(self.chance.uniform(0, 0.05))
            self._pause(old)
        old.signal(signal.SIGCONT)

    def _pause(self, party: Party) -> None:
        party.signal(signal.SIGSTOP)
        self.figures["pauses"] += 1

    def _fill_disk_of_follower(self) -> None:
        self._fill(self.follower)

    def _fill_disk_of_leader(self) -> None:
        self._fill(self.leader)

    def _fill(self, party: Party) -> None:
        if party.disk is None:
            return
        self.figures["disks filled"] += 1
        party.fill()
        time.sleep(self.chance.uniform(0.1, 0.6))
        party.free()

    def _hand_over(self) -> None:
        old = self.leader
        with suppress(ClientError):
            asyncio.run(_follow(old.address, self.follower.proxy.address, is_forced=False))
            self.promote()

    def _cut(self) -> None:
        self.leader.proxy.cut()

    def _stall_to_leader(self) -> None:
        self._stall(to_target=True)

    def _stall_to_follower(self) -> None:
        self._stall(to_target=False)

    def _stall(self, *, to_target: bool) -> None:
        self.leader.proxy.stall(to_target=to_target)
        time.sleep(self.chance.uniform(0.1, 1.5))
        self.leader.proxy.heal()

    def _lose_disk_of_follower(self) -> None:
        self._kill(self.follower)
        shutil.rmtree(self.follower.store)
        self._start(self.follower)
        if asyncio.run(_status(self.follower.address)).role == LEADER:  # As its settings say.
            self.until(lambda: self._role(self.follower) == FENCED, "it is fenced")

    # -- operators -----------------------------------------------------------------------------
    def promote(self) -> None:
        """Makes the follower the leader."""
        epoch, _ = asyncio.run(_promote(self.follower.address))
        self.leader, self.follower = self.follower, self.leader
        self._note_leader(epoch)
        self.figures["promotions"] += 1

    def _note_leader(self, epoch: int) -> None:
        self.history.events.append(Leads(time.monotonic(), self.leader.name, epoch))

    def settle(self) -> None:
        """Waits until the follower is in sync; a fenced leader is made a follower."""
        self.until(self._is_in_sync, "the follower is in sync")

    def _is_in_sync(self) -> bool:
        role = self._role(self.follower)
        if role == FENCED:
            with suppress(ClientError):
                asyncio.run(
                    _follow(self.follower.address, self.leader.proxy.address, is_forced=False)
                )
            return False
        if role == FOLLOWER and "with an empty store" in self._trouble(self.follower):
            self._empty(self.follower)
            return False
        led = asyncio.run(_status(self.leader.address))
        assert led.role == LEADER, led
        return role == FOLLOWER and any(
            row.connected and row.acknowledged_offset == led.appended_offset for row in led.replicas
        )

    def _empty(self, party: Party) -> None:
        """Empties a store that has records of its own, as it led with a new disk."""
        self.figures["stores emptied"] += 1
        party.kill()
        shutil.rmtree(party.store)
        self._start(party)

    def _trouble(self, party: Party) -> str:
        with suppress(ClientError):
            return asyncio.run(_status(party.address)).trouble
        return ""

    def _role(self, party: Party) -> str:
        with suppress(ClientError):
            return asyncio.run(_status(party.address)).role
        return ""

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        """Waits for a condition; a broker of a busy machine may answer its calls too late."""
        until = time.monotonic() + SLOW_S
        while True:
            with suppress(DeadlineExceeded):
                if is_so():
                    return
            assert time.monotonic() < until, f"not in {SLOW_S} s: {what}; {self.state()}"
            time.sleep(0.05)

    def state(self) -> str:
        """Returns what an error tells of both."""
        found = []
        for party in self._parties:
            with suppress(ClientError):
                found.append(f"{party.name}: {asyncio.run(_status(party.address))}")
        return "; ".join(found)

    # -- the end -------------------------------------------------------------------------------
    def compare(self) -> None:
        """Stops both in order, follower last, and compares logs, queues and histories.

        Errors   AssertionError
        """
        self.settle()
        for party in self._parties:
            self.until(lambda: self._has_shown(party), "all is shown")  # noqa: B023
            self.history.ends[party.name] = asyncio.run(_rows(party.address))
        for party in (self.leader, self.follower):
            assert party.daemon is not None
            assert party.daemon.stop() == 0
            party.daemon.end()
            party.daemon = None
        logs = [_log_of(party.store) for party in self._parties]
        assert logs[0] == logs[1], "the logs differ"
        found = faults_of(self.history)
        assert not found, "\n".join(found[:20])
        acks = sum(isinstance(one, Ack) for one in self.history.events)
        self.figures["acknowledged"] = acks

    def _has_shown(self, party: Party) -> bool:
        appended, dispatched = asyncio.run(_ends(party.address))
        return dispatched == appended


async def _status(address: str) -> ReplicationStatus:
    async with AsyncClient(address, retry_ms=2_000, timeout_ms=2_000) as client:
        return await client.admin.replication.status()


async def _promote(address: str) -> tuple[int, int]:
    async with AsyncClient(address, retry_ms=5_000) as client:
        return await client.admin.replication.promote(force=True)


async def _follow(address: str, leader: str, *, is_forced: bool) -> None:
    async with AsyncClient(address, retry_ms=5_000) as client:
        await client.admin.replication.follow(leader, force=is_forced, wait_ms=5_000)


async def _ends(address: str) -> tuple[int, int]:
    async with AsyncClient(address, retry_ms=5_000) as client:
        found = await client.admin.store_status()
        return found.appended_offset, found.dispatched_offset


async def _rows(address: str) -> dict[Queue, list[tuple[int, Code]]]:
    async with AsyncClient(address, retry_ms=5_000) as client:
        return {
            (topic, 0): [
                (message.queue_offset, code_of(message.body))
                for message in await messages_of(client, topic)
            ]
            for topic in TOPICS
        }


def _log_of(store: Path) -> bytes:
    files = files_below(store / COMMIT_LOG_DIRECTORY)
    return b"".join(files[name] for name in sorted(files)).rstrip(b"\0")
