"""D5: the Nth call to the disk fails, once or from then on, for every N there is.

A store works, is closed and opened again while one call fails (the loop SQLite is tested with:
N = 1, 2, 3, … until a run meets no failure). Whatever fails: errors are typed, nothing hangs,
everything is closed, nothing that was asked for after a failed sync is acknowledged, and what was
acknowledged is there when the disk works again; after a failed sync also when the power went.
"""

import asyncio
import errno
import gc
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pocketmq.app.serve import EXIT_STORE_FAILED
from pocketmq.client import AsyncClient, ClientError, Message
from pocketmq.files.disk import Disk
from pocketmq.model.errors import BrokerError, StoreFailed
from pocketmq.store.message_store import MessageStore, open_store
from tests.e2e.daemon import Daemon, bodies_of
from tests.faults.lives import can_trace
from tests.kit.store_language import TalkingStore, queue_bodies, small_settings, until
from tests.sim.clock import FakeClock
from tests.sim.failing_os import FailingOs, Fault
from tests.sim.quick_disk import open_files

HALF_FILE = "h" * 2_000
CALLS_MIN = {errno.EIO: 400, errno.ENOSPC: 200, errno.EROFS: 200}
"""Calls of the work that can fail so: EIO may strike any of about 500, the others only those 250
that write. Fewer would mean that the work leaves something out."""
STEP, EIO_ONCE_STEP = 8, 5
"""Each eighth call is tried; each fifth one fails once with EIO. scripts/torture/run failing tries
each call."""
HANG_S = 20


class Work:
    """Operations on a store while its disk fails, and their acknowledged results."""

    def __init__(self, directory: Path, system: FailingOs, **settings: Any) -> None:
        self.directory, self.system, self.settings = directory, system, settings
        self.disk = Disk()
        self.acknowledged: dict[tuple[str, int], str] = {}
        self.late: list[str] = []
        """Acknowledged though asked for after a failed sync was met, by whatever thread."""
        self.offset = 0
        self.errors: list[BaseException] = []
        self.escaped: list[dict[str, Any]] = []
        self.has_failed = False

    async def run(self) -> None:
        """Work, close, open again, work, close; errors are kept."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.escaped.append(context))
        for life in (1, 2):
            await self._live(life)
        gc.collect(0)

    async def _live(self, life: int) -> None:
        self.disk = Disk()
        settings = small_settings(self.directory, **self.settings)
        try:
            store = await open_store(settings, FakeClock(), self.disk)
        except BrokerError as error:
            self._note(error)
            return
        try:
            await self._use(store, life)
        finally:
            try:
                await store.close()
            except BrokerError as error:
                self._note(error)
            self.has_failed |= store.failure.done()

    async def _use(self, store: MessageStore, life: int) -> None:
        talking = TalkingStore(store, store.clock, self.disk)  # type: ignore[arg-type]
        await self._try(store.tables.topics.create("T", queue_count=1))
        for number in range(3):
            await self._put(talking, "T", f"{life}.{number}")
        await asyncio.gather(*(self._put(talking, "U", f"{life}.u{n}") for n in range(2)))
        await self._commit(store, life)
        for number in range(3):
            await self._put(talking, "T", f"{HALF_FILE}{life}.{number}")
        await until(lambda: _is_settled(store))
        await self._put(talking, "T", f"{life}.last")

    async def _commit(self, store: MessageStore, offset: int) -> None:
        if await self._try(store.tables.offsets.commit("G", "T", 0, offset)):
            self.offset = offset

    async def _put(self, store: TalkingStore, topic: str, body: str) -> None:
        is_late = self.disk.trouble.failure is not None
        try:
            result = await store.send(topic, body, key=body[-5:])
        except BrokerError as error:
            self._note(error)
            return
        self.acknowledged[topic, result.queue_offset] = body
        if is_late:
            self.late.append(body)

    async def _try(self, work: Any) -> bool:
        try:
            await work
        except BrokerError as error:
            self._note(error)
            return False
        return True

    def _note(self, error: BrokerError) -> None:
        self.errors.append(error)
        self.has_failed |= isinstance(error, StoreFailed)


def _is_settled(store: MessageStore) -> bool:
    is_stuck = store.failure.done() or store.views.dispatcher.is_blocked
    return is_stuck or store.dispatched >= store.flushed


async def check(directory: Path, work: Work) -> None:
    """Opens what is left on a disk that works: everything acknowledged is there, in its place."""
    store = await open_store(small_settings(directory, **work.settings), FakeClock(), Disk())
    try:
        assert store.state in ("running", "disk_full")
        await until(lambda: store.dispatched >= store.flushed)
        bodies = {topic: queue_bodies(store, topic) for topic in ("T", "U")}
        for (topic, offset), body in work.acknowledged.items():
            assert bodies[topic][offset] == body
        assert all(len(set(found)) == len(found) for found in bodies.values())
        assert (store.tables.offsets.find("G", "T", 0) or 0) >= work.offset
        talking = TalkingStore(store, store.clock, Disk())  # type: ignore[arg-type]
        assert (await talking.send("T", "afterwards")).queue_offset == len(bodies["T"])
    finally:
        await store.close()


def run_with(place: Path, fault: Fault, **settings: Any) -> tuple[FailingOs, Work]:
    """Runs a store on a disk with this fault, then checks the bytes that are left."""
    directory = place / "store"
    system = FailingOs(directory)
    work = Work(directory, system, **settings)
    with pytest.MonkeyPatch.context() as patch:
        system.under_disk(patch)
        system.fail(fault)
        asyncio.run(asyncio.wait_for(work.run(), HANG_S))
        assert work.escaped == []
        assert open_files(directory) == []
        assert work.late == []
        if system.lost_count:
            assert work.has_failed
    left = system.power_cut(place / "left") if system.lost_count else directory
    asyncio.run(asyncio.wait_for(check(left, work), HANG_S))
    assert [path for path in left.rglob("*") if path.suffix == ".draft"] == []
    assert not (left / "abort").exists()
    for path in place.iterdir():
        shutil.rmtree(path)
    return system, work


@pytest.mark.timeout(300)
@pytest.mark.parametrize("sticky", [False, True], ids=["once", "sticky"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS], ids=errno.errorcode.get)
def test_the_nth_call_fails(memory: Path, code: int, sticky: bool) -> None:
    step = EIO_ONCE_STEP if code == errno.EIO and not sticky else STEP
    number, failed = 0, Counter[str]()
    while True:
        number += step
        fault = Fault(number, code, sticky)
        try:
            system, _ = run_with(memory, fault)
        except BaseException:
            print(f"repro: {fault}")
            raise
        if not system.failed:
            break
        failed[system.failed[0]] += 1
    print(f"every call of {number - 1}, or each {step}th, failed: {dict(failed)}")
    assert number > CALLS_MIN[code]


# -- the broker as a process -----------------------------------------------------------------------
async def send_until_it_ends(broker: Daemon) -> tuple[list[bytes], list[bytes]]:
    """Sends messages in turn; returns bodies acknowledged before, and after, the first error."""
    before: list[bytes] = []
    after: list[bytes] = []
    is_failed = False
    async with AsyncClient(broker.endpoint, retry_ms=0) as client:
        for body in (b"%d" % number for number in range(20)):
            try:
                await client.send_many([Message("T", body)])
            except ClientError:
                is_failed = True
            else:
                (after if is_failed else before).append(body)
    return before, after


def test_a_broker_whose_disk_loses_a_page_ends_at_once(tmp_path: Path) -> None:
    if not can_trace():
        pytest.skip("strace is missing, or may not trace")
    store = tmp_path / "store"
    with Daemon(store) as broker:
        assert broker.ask("topic", "create", "T", "--queues", "1").code == 0
        assert broker.stop() == 0
    log = store / "commitlog" / f"{0:020d}"
    inject = ("-P", str(log), "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=3")
    with Daemon(store, tracer=("strace", "-f", "-qq", "-o", "/dev/null", *inject)) as broker:
        before, after = asyncio.run(send_until_it_ends(broker))
        assert broker.wait() == EXIT_STORE_FAILED
    assert len(before) == 2
    assert after == []
    assert (store / "abort").exists()
    assert "store.failed" in broker.log.read_text()
    with Daemon(store) as broker:
        assert bodies_of(broker.endpoint, "T")[:2] == before
        assert broker.stop() == 0
