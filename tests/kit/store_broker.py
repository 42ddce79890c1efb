"""The whole API over a real store on a simulated disk, called with bytes or served.

    async with store_broker() as broker:                  topic `orders` has 2 queues
        await broker.add("orders", b"a", TAGS="A")        stored and visible
        await broker.answer("SendMessage", pb.SendMessageRequest(…))
        await broker.outcome("Admin/CreateTopic", b"what a fuzzer makes")
        async with running(OwnServer(broker.services())) as address: …

It opens in a few ms. Time stands still and nothing waits for a disk, as in store_language.py; the
fixture `broker` is one of these.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from inspect import isawaitable
from pathlib import Path
from random import Random
from typing import Any, Final

import grpc
import pytest
from google.protobuf.message import Message

from pocketmq.config.live import LiveConfig
from pocketmq.config.rocketmq import rocketmq_rows
from pocketmq.config.sections import Config
from pocketmq.format.addresses import UniqueKeyMaker
from pocketmq.format.body_codec import plain_body
from pocketmq.format.properties import encode_properties
from pocketmq.format.record import encode_blank
from pocketmq.model.batch import Destination, PutResult
from pocketmq.model.errors import BrokerError
from pocketmq.model.message import KEYS, TAGS, UNIQUE_KEY, StoredMessage
from pocketmq.model.reading import ReadRange
from pocketmq.model.step import Now
from pocketmq.rpc.classic.admin.controls import Controls
from pocketmq.rpc.classic.admin.methods import ClassicAdmin
from pocketmq.rpc.classic.messaging import ClassicMethods
from pocketmq.rpc.classic.routes import ClassicRules
from pocketmq.rpc.grpcio.server import GrpcioServer
from pocketmq.rpc.own.server import OwnServer
from pocketmq.rpc.service import Method, Service
from pocketmq.rpc.services import Services
from pocketmq.rpc.v1.access import AccessFace
from pocketmq.rpc.v1.admin import AdminMethods
from pocketmq.rpc.v1.messaging import Messaging
from pocketmq.rpc.v1.pull_message import WAIT_MS_MAX
from pocketmq.rpc.v1.replication import ReplicationFace
from pocketmq.rpc.v2.messaging import MessagingV2, OfficialRules
from pocketmq.services.access.access import Access
from pocketmq.services.admin.members import Members
from pocketmq.services.admin.rates import Rates
from pocketmq.services.admin.status import Process
from pocketmq.services.consume.consume import Consume
from pocketmq.services.consume.journal import ConsumeSettings
from pocketmq.services.produce.rules import SendRules
from pocketmq.services.produce.send import Send
from pocketmq.services.pull import Pull
from pocketmq.services.query import Query
from pocketmq.services.replication.leader import Leader
from pocketmq.services.replication.roles import Roles
from pocketmq.services.sessions.sessions import Sessions
from pocketmq.services.transaction.checking import CheckRules
from pocketmq.services.transaction.transactions import Transactions
from pocketmq.store.job import Job
from pocketmq.store.read.cold_read import value_of
from pocketmq.store.tables.terms import TermTable
from pocketmq.store.tables.users import UserTable
from tests.kit.call import FakeCall
from tests.kit.rows import Row, batch
from tests.kit.store_language import BORN_HOST, STORE_HOST, TalkingStore, at_once, store_at, until
from tests.sim.clock import FakeClock
from tests.sim.disk import SimDisk

CALL = FakeCall(time_left_ms=0)
"""Its deadline has passed, so that polls return at once."""
HOUR_MS: Final = 3_600_000
SIZES: Final = {"commit_log_file_size_bytes": 1 << 18, "consume_queue_file_size_bytes": 2000}


class StoreBroker:
    """Store, services and methods, wired as the broker wires them."""

    def __init__(self, talking: TalkingStore, queue_count: int = 2) -> None:
        """Opens the services of a store.

        queue_count   of topics that a send creates
        """
        self.talking = talking
        self.store = store = talking.store
        self.clock = talking.clock
        self.pull, self.query = Pull(store), Query(store)
        self.send = Send(
            store,
            SendRules(STORE_HOST, "DefaultCluster", default_queue_count=queue_count),
            store.clock,
            key_maker=UniqueKeyMaker(address=b"\n\0\0\1", process_id=1, random_bytes=b"abcd"),
            random=Random(1),
        )
        self.consume = Consume(store, ConsumeSettings("DefaultCluster", "broker-a", STORE_HOST))
        self.members = Members(store.clock)
        self.transactions = Transactions(
            store, STORE_HOST, CheckRules(6_000, 30_000, checks_max=15, keep_ms=3_600_000)
        )
        self.sessions = Sessions(
            lambda client_id, group: self.consume.clients.touch(
                client_id, group, self.clock.monotonic_ms()
            ),
            self.consume.leave,
        )
        self.rates = Rates(
            self.send.counts.counters, self.pull.delivered, store.clock, "DefaultCluster"
        )
        self.backing = Services(
            store, self.send, self.pull, self.query, self.consume, self.members, self.sessions,
            self.transactions, self.rates,
        )  # fmt: skip
        self.messaging = Messaging(self.backing)
        self.auto_create_groups = False
        rules = OfficialRules(
            "broker-a", "10.0.0.9:8081", lambda: 4 << 20, lambda: self.auto_create_groups
        )
        self.official = MessagingV2(self.backing, rules)
        classic = ClassicRules(
            "broker-a", "DefaultCluster", "", "10.0.0.9:8081", permission=lambda: 6,
            auto_create_topics=lambda: self.auto_create_topics, queue_count=lambda: queue_count,
            auto_create_groups=lambda: self.auto_create_groups,
        )  # fmt: skip
        self.live = LiveConfig(Config())
        self.access = Access(UserTable(SimDisk(), Path("/store")), store.clock, HOUR_MS)
        controls = Controls(
            lambda: self.settings, lambda: self.is_expiring, self.access, self.live.override,
            read_rocketmq=lambda: rocketmq_rows(self.live.config.value),
        )  # fmt: skip
        self.classic = ClassicMethods(
            self.backing, classic, ClassicAdmin(self.backing, classic, controls)
        )
        self.is_expiring = True
        self.auto_create_topics = True
        self.settings = [("store.flush", "async", "--set")]
        self.drains: list[str] = []
        """One entry for each time the broker was asked to end."""
        process = Process(
            lambda: self.settings,
            lambda: self.drains.append("asked"),
            members_of=self.members.of_group,
            read_leased=self.consume.leased,
            member_counts=self.members.counts,
            rate_of=self.rates.stored_tps,
        )
        self.admin = AdminMethods(self.backing, process)
        self.access_face = AccessFace(self.access, is_checked=False)
        self.switches: list[str] = []
        """One entry for each change of the broker's role."""
        self.terms = TermTable(SimDisk(), Path("/store"))
        self.leader = Leader(store, 1 << 40)
        self.roles = Roles(
            store, self.terms, self.leader, lambda: self.switches.append(self.terms.role)
        )
        self.replication = ReplicationFace(self.roles)
        self.methods: dict[str, Method] = {
            **{f"Access/{method.name}": method for method in self.access_face.service().methods},
            **{f"Admin/{method.name}": method for method in self.admin.service().methods},
            **{method.name: method for method in self.messaging.service().methods},
            **{f"Replication/{one.name}": one for one in self.replication.service().methods},
        }

    def services(self) -> list[Service]:
        """Returns the services of the API."""
        return [
            self.messaging.service(), self.admin.service(), self.access_face.service(),
            self.replication.service(), self.official.service(),
        ]  # fmt: skip

    # -- the store behind it -------------------------------------------------------------------
    async def add(self, topic: str, *bodies: bytes, **given: Any) -> PutResult:
        """Stores messages as `put` does, and waits until they can be pulled."""
        result = await self.put(topic, *bodies, **given)
        await self.talking.settled()
        return result

    async def put(
        self,
        topic: str,
        *bodies: bytes,
        queue_id: int = 0,
        system_flag: int = 0,
        store_host: bytes = STORE_HOST,
        **properties: str,
    ) -> PutResult:
        """Stores messages with these properties in one queue, and waits for their status."""
        block = encode_properties(properties)
        unique_key, keys, tags = (properties.get(name, "") for name in (UNIQUE_KEY, KEYS, TAGS))
        born_ms = self.clock.wall - 5
        rows = [Row(body, block, 7, born_ms, BORN_HOST, unique_key, keys, tags) for body in bodies]
        destination = Destination(topic, queue_id, store_host, system_flag)
        (result,) = await self.store.writing.put([(destination, batch(*rows))])
        return result

    async def expire(self) -> None:
        """Removes all messages, as retention does; the next message begins another file."""
        size_bytes = self.store.settings.commit_log_file_size_bytes
        while self.store.appended < size_bytes:
            await self.add("filler", bytes(size_bytes // 3))
        self.clock.advance(self.store.settings.view_flush_thorough_interval_ms)
        expiry = self.store.views.expiry
        await until(lambda: expiry.oldest() is not None)
        oldest = expiry.oldest()
        assert oldest is not None
        await expiry.drop(oldest)
        await expiry.trim_views()

    async def pass_time(self, by_ms: int) -> None:
        """Advances the clock, and ends expired leases."""
        self.clock.advance(by_ms)
        while True:
            now = Now(self.clock.monotonic_ms(), self.clock.wall_ms())
            following = self.consume.step(now)
            if not isinstance(following.mark, Job):
                break
            await following.mark.reached()
        await self.store.flush()
        await self.talking.settled()

    async def messages(self) -> list[StoredMessage]:
        """Returns every message of the log, in order; calls may add more meanwhile."""
        end = self.store.appended
        await self.store.flush()
        await self.talking.settled()
        found: list[StoredMessage] = []
        place = 0
        while place < end:
            message = await value_of(self.store.reading.message_at(place))
            if message is None:
                place += self._blank_size(place)
                continue
            message.body = plain_body(message.body, message.system_flag)
            found.append(message)
            place += message.store_size
        return found

    def _blank_size(self, place: int) -> int:
        """Returns the size of the BLANK at a physical offset: the rest of its file."""
        size = self.store.settings.commit_log_file_size_bytes
        left = -place % size
        assert left, "a file begins with no record"
        file = self.store.log.files.file_at(place)
        assert file is not None, "no file holds the place"
        end = bytes(file.open().view[place - file.base :])  # A simulated disk's file may lag.
        assert end.startswith(encode_blank(left)), "neither a record nor a BLANK"
        return left

    def records(self, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
        """Returns the records of a queue."""
        wanted = ReadRange(topic, queue_id, 0, 1024, 1 << 30)
        return at_once(self.store.reading.pull(wanted)).records

    # -- calls without a transport -------------------------------------------------------------
    async def outcome(self, name: str, raw: bytes) -> str:
        """Serves a call as a transport does; returns "ok", or the name of a BrokerError.

        Errors   any other error that would reach the transport
        """
        if name == "CheckTransactions":
            asyncio.get_running_loop().call_soon(self._wait_is_over)
        try:
            await self.served(name, raw)
        except BrokerError as error:
            return error.reason
        return "ok"

    def _wait_is_over(self) -> None:
        """Advances the clock until no producer's poll for transaction checks is waiting."""
        self.clock.advance(WAIT_MS_MAX)
        self.transactions.step(Now(self.clock.monotonic_ms(), self.clock.wall_ms()))

    async def answer(self, name: str, request: Message) -> Any:
        """Serves a call and returns its response message.

        Errors   BrokerError kinds
        """
        method = self.methods[name]
        return method.response.FromString(await self.served(name, request.SerializeToString()))

    async def served(self, name: str, raw: bytes) -> bytes:
        """Serves a call as a transport does, and returns its response."""
        method = self.methods[name]
        if method.shortcut is not None and len(raw) <= method.request_size_max:
            reply = method.shortcut(raw, CALL.peer_host, CALL.metadata)
            if reply is not None:
                return await reply if isawaitable(reply) else reply
        return await self.served_the_usual_way(name, raw)

    async def served_the_usual_way(self, name: str, raw: bytes) -> bytes:
        """Serves a call by its handler, also if it has a shortcut."""
        method = self.methods[name]
        answer = method.handler(method.reader()(raw), CALL)
        written: bytes = method.writer()(await answer if isawaitable(answer) else answer)
        return written


@asynccontextmanager
async def store_broker(
    directory: Path | None = None,
    *,
    clock: FakeClock | None = None,
    queue_count: int = 2,
    **settings: Any,
) -> AsyncIterator[StoreBroker]:
    """Opens a broker without a transport and closes it in the end.

    directory  of real files that roll after a few messages; None: one on a simulated disk, with the
               topic `orders` of 2 queues
    settings   fields of StoreSettings
    """
    if directory is not None:
        async with (
            store_at(directory, clock=clock, **settings) as talking,
            _run(talking, queue_count) as made,
        ):
            yield made
        return
    sizes = {**SIZES, **settings}
    async with store_at(Path("/store"), clock=clock, disk=SimDisk(), **sizes) as talking:
        talking.store.tables.topics.adopt("orders", 2)
        async with _run(talking, queue_count) as made:
            yield made


@asynccontextmanager
async def _run(talking: TalkingStore, queue_count: int) -> AsyncIterator[StoreBroker]:
    """Recovers the leases of a store, and ends all waits at the close."""
    made = StoreBroker(talking, queue_count)
    await made.consume.recover()
    await made.transactions.recover()
    try:
        yield made
    finally:
        made.consume.drain()
        await made.consume.close()
        await made.transactions.close()


@pytest.fixture
async def broker() -> AsyncIterator[StoreBroker]:
    """A broker without a transport; a conftest.py imports this fixture for its tests."""
    async with store_broker() as opened:
        yield opened


# -- on a port -------------------------------------------------------------------------------------


ServerClass = type[GrpcioServer] | type[OwnServer]


@asynccontextmanager
async def running(server: GrpcioServer | OwnServer) -> AsyncIterator[str]:
    """Starts a server on a free port and yields its address; stops it in the end."""
    address = f"127.0.0.1:{server.add_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield address
    finally:
        server.drain()
        await server.stop(0)


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[grpc.aio.Channel]:
    """Yields a channel to an address."""
    async with grpc.aio.insecure_channel(
        address, options=(("grpc.max_receive_message_length", 17 << 20),)
    ) as channel:
        yield channel
