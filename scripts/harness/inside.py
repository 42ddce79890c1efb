"""A broker in the process of a bench or battery: store, services and runner, without transport."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from pocketmq.app.access import door_of
from pocketmq.app.container import Container
from pocketmq.app.parts import Parts, Replicated, parts_of
from pocketmq.app.ports import Ports
from pocketmq.config.live import LiveConfig
from pocketmq.config.load import load
from pocketmq.files.disk import Disk
from pocketmq.model.step import Clock, SystemClock
from pocketmq.rpc.replication.slave_port import SlavePort
from pocketmq.store.message_store import MessageStore, open_store
from pocketmq.store.runner import Runner
from pocketmq.store.tables.terms import TermTable

ADDRESS: Final = "127.0.0.1:8081"


class SetClock(SystemClock):
    """The machine's clock with a wall time that is `ahead_ms` ahead and can be set."""

    def __init__(self, ahead_ms: int = 0) -> None:
        self.ahead_ms = ahead_ms

    def wall_ms(self) -> int:
        """Returns the wall time."""
        return super().wall_ms() + self.ahead_ms


class PassedClock(SetClock):
    """A clock whose wall and monotonic time can be advanced at once."""

    def monotonic_ms(self) -> int:
        """Returns the advanced monotonic time."""
        return super().monotonic_ms() + self.ahead_ms


@asynccontextmanager
async def opened_broker(
    assignments: Sequence[str], clock: Clock, address: str = ADDRESS
) -> AsyncIterator[tuple[MessageStore, Parts, Runner]]:
    """Opens a broker; the block recovers and runs its parts.

    assignments   settings as KEY=VALUE
    address       the broker's advertised address
    """
    live = LiveConfig(load(assignments=list(assignments)))
    store = await open_store(live.config.store_settings(), clock, Disk())
    ports = Ports(address, (), None, SlavePort(()))
    door = door_of(live, Disk(), clock, ports, Container())
    terms = TermTable(Disk(), store.settings.directory)
    parts = parts_of(store, live, ports, lambda why: None, door, Replicated(terms))
    runner = Runner(clock)
    try:
        yield store, parts, runner
    finally:
        parts.drain()
        runner.close()
        await parts.close()
        await store.close()
