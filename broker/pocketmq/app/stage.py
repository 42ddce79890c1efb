"""What a broker runs on, and what is done to it before clients come.

Ordinarily: the machine's clocks and its disk, the services as they are, and nothing. `pocketmq dev`
has topics made; a broker for tests (testing/) has a clock that can be moved, and faults around its
services.
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
    """A broker that is about to serve: its store, what calls its services' steps, its server."""

    store: MessageStore
    runner: Runner
    server: "GrpcioServer | OwnServer"


Prepare = Callable[[Opened], Awaitable[None]]


async def _nothing(opened: Opened) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What a broker runs on.

    around     returns what is served in place of these services
    prepare    is awaited once the store is open, before clients may come; what it raises ends the
               start
    listening  whoever comes to this socket is served, in place of rpc.listen
    """

    clock: Clock = field(default_factory=SystemClock)
    disk: Disk = field(default_factory=Disk)
    around: Callable[[Sequence[Service]], Sequence[Service]] = list
    prepare: Prepare = _nothing
    listening: socket.socket | None = None


def with_topics(topics: Iterable[tuple[str, str]]) -> Prepare:
    """Returns what makes topics, (name, type) each; type "" says nothing of what they take.

    Errors   of what it returns: IllegalTopic, SystemTopic, TopicExists, DiskFull
    """
    wanted = list(topics)

    async def make(opened: Opened) -> None:
        for name, type_name in wanted:
            await create_topic(opened.store, name, type_name=type_name)

    return make
