"""The environment of a broker, and its preparation before clients are served.

The defaults are the system's clocks and disk, unmodified services, and no preparation. `pocketmq
dev` creates topics. A broker for tests (testing/) has a movable clock, and injects faults into
services.
"""

import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from pocketmq.app.container import Container
from pocketmq.app.supervisor import Supervisor
from pocketmq.files.disk import Disk
from pocketmq.model.step import Clock, SystemClock
from pocketmq.rpc.service import Service
from pocketmq.services.admin.topics import create_topic
from pocketmq.services.retention import Retention
from pocketmq.store.message_store import MessageStore
from pocketmq.store.runner import Runner

if TYPE_CHECKING:
    from pocketmq.rpc.grpcio.server import GrpcioServer
    from pocketmq.rpc.own.server import OwnServer


WORLD: Final = SystemClock()
"""Certificates and signatures use the real time."""


class Opened(NamedTuple):
    """A broker before it serves: its store, the runner of its steps, retention, and its server."""

    store: MessageStore
    runner: Runner
    retention: Retention
    server: "GrpcioServer | OwnServer"


Prepare = Callable[[Opened], Awaitable[None]]


async def _nothing(opened: Opened) -> None:
    pass


@dataclass
class Handover:
    """State that survives a restart of the services, by which a broker takes another role.

    listening    the listening socket, so that clients are not refused meanwhile
    pages        address of the HTTP port for metrics and console, "" if the gRPC port serves them
    cut_at       physical offset at which the log must be cut before it is opened; -1: nowhere
    """

    listening: socket.socket | None = None
    pages: str = ""
    cut_at: int = -1

    def keep(self, listening: socket.socket, pages: str) -> None:
        """Keeps a copy of the listening socket, and the address of the HTTP port."""
        assert listening.fileno() >= 0, "the socket is closed"
        self.listening, self.pages = listening.dup(), pages

    def taken(self) -> socket.socket | None:
        """Returns the kept socket, or None, and keeps it no longer; the caller has to close it."""
        listening, self.listening = self.listening, None
        return listening

    def close(self) -> None:
        """Closes the kept socket."""
        listening = self.taken()
        if listening is not None:
            listening.close()


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The environment of a broker.

    around      wraps the services to serve
    prepare     awaited once the store is open, before clients are served; its error ends the start
    listening   inherited socket, which replaces rpc.listen
    supervisor  receives the broker's state
    container   first secret and image name, from the environment of a container
    handover    what a restart of the services takes over
    """

    clock: Clock = field(default_factory=SystemClock)
    disk: Disk = field(default_factory=Disk)
    around: Callable[[Sequence[Service]], Sequence[Service]] = list
    prepare: Prepare = _nothing
    listening: socket.socket | None = None
    container: Container = field(default_factory=Container)
    handover: Handover = field(default_factory=Handover)
    supervisor: Supervisor = field(default_factory=Supervisor)


def with_topics(topics: Iterable[tuple[str, str]]) -> Prepare:
    """Returns a preparation that creates topics by (name, type); type "" allows any type.

    Errors   of the preparation: those of `create_topic`
    """
    wanted = list(topics)

    async def make(opened: Opened) -> None:
        for name, type_name in wanted:
            await create_topic(opened.store, name, type_name=type_name)

    return make
