"""The environment of a broker, and its preparation before clients are served.

By default: the machine's clocks and disk, the plain services, and no preparation. `pocketmq dev`
creates topics. A broker for tests (testing/) has a movable clock, and faults around its services.
"""

import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pocketmq.files.disk import Disk
from pocketmq.model.step import Clock, SystemClock
from pocketmq.rpc.service import Service
from pocketmq.services.admin.topics import create_topic
from pocketmq.store.message_store import MessageStore
from pocketmq.store.runner import Runner

if TYPE_CHECKING:
    from pocketmq.rpc.grpcio.server import GrpcioServer
    from pocketmq.rpc.own.server import OwnServer


class Opened(NamedTuple):
    """A broker that is about to serve: its store, the runner of its services' steps, its server."""

    store: MessageStore
    runner: Runner
    server: "GrpcioServer | OwnServer"


Prepare = Callable[[Opened], Awaitable[None]]


async def _nothing(opened: Opened) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The environment of a broker.

    around     returns the services to serve in place of these
    prepare    is awaited once the store is open, before clients are served; an error it raises ends
               the start
    listening  the socket to serve in place of rpc.listen
    """

    clock: Clock = field(default_factory=SystemClock)
    disk: Disk = field(default_factory=Disk)
    around: Callable[[Sequence[Service]], Sequence[Service]] = list
    prepare: Prepare = _nothing
    listening: socket.socket | None = None


def with_topics(topics: Iterable[tuple[str, str]]) -> Prepare:
    """Returns a preparation that creates topics, (name, type) each; type "": messages of any type.

    Errors   of the preparation: IllegalTopic, SystemTopic, TopicExists, DiskFull
    """
    wanted = list(topics)

    async def make(opened: Opened) -> None:
        for name, type_name in wanted:
            await create_topic(opened.store, name, type_name=type_name)

    return make
