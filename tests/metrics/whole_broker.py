"""A broker without ports: store, services, server and their numbers, wired as the daemon's are."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from pocketmq.app.parts import long_poll_waiters
from pocketmq.format.addresses import UniqueKeyMaker
from pocketmq.metrics.exposition import Exposition, build_info, compiled_modules, proxy_up
from pocketmq.metrics.numbers import PUBLIC, LoopLag, Numbers
from pocketmq.model.stats import Histograms
from pocketmq.rpc.own.server import OwnServer
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.services import Services
from pocketmq.rpc.v1.messaging import Messaging
from pocketmq.rpc.v1.send_message import drafts_of
from pocketmq.services.admin.members import Members
from pocketmq.services.admin.rates import Rates
from pocketmq.services.consume.consume import Consume
from pocketmq.services.consume.journal import ConsumeSettings
from pocketmq.services.delay.levels import Schedule
from pocketmq.services.produce.rules import SendRules
from pocketmq.services.produce.send import Send
from pocketmq.services.pull import Pull
from pocketmq.services.query import Query
from pocketmq.services.replication.leader import Leader
from pocketmq.services.retention import DiskSpace, Retention, RetentionSettings
from pocketmq.services.sessions.sessions import Sessions
from pocketmq.services.transaction.checking import CheckRules
from pocketmq.services.transaction.transactions import Transactions
from tests.kit.call import FakeCall
from tests.kit.store_language import STORE_HOST, TalkingStore, store_at


class WholeBroker:
    """Everything that counts, and the page it makes."""

    def __init__(self, talking: TalkingStore, *, detail: str, max_series: int) -> None:
        self.clock = talking.clock
        self.talking = talking
        self.store = store = talking.store
        maker = UniqueKeyMaker(address=b"\n\0\0\1", process_id=1, random_bytes=b"abcd")
        rules = SendRules(STORE_HOST, "c1", default_queue_count=2)
        send = Send(store, rules, talking.clock, key_maker=maker, random=Random(1))
        pull, query = Pull(store), Query(store)
        self.consume = Consume(store, ConsumeSettings("c1", "b1", STORE_HOST))
        members = Members(store.clock)
        self.transactions = Transactions(store, STORE_HOST, CheckRules())
        sessions = Sessions(lambda client_id, group: None, self.consume.leave)
        rates = Rates(send.counts.counters, pull.delivered, store.clock, "c1")
        backing = Services(
            store, send, pull, query, self.consume, members, sessions, self.transactions, rates
        )
        self.messaging = Messaging(backing)
        server = OwnServer([self.messaging.service()])
        self._calls = next(
            stat for stat in server.stats if stat.name == "rocketmq_rpc_latency_milliseconds"
        )
        retention = Retention(
            store.views.expiry,
            RetentionSettings(),
            is_on=True,
            disk_space=lambda: DiskSpace(*store.disk_space(), 1, 0),
            refuse=store.writing.refuse,
            hour_of=lambda now_ms: 0,
        )
        self.numbers = Numbers(
            store,
            lambda: [
                *send.stats,
                *pull.stats,
                long_poll_waiters(pull, self.consume),
                *self.consume.stats,
                *self.transactions.stats,
                *Schedule(store, STORE_HOST).stats,
                *members.stats,
                *server.stats,
                *retention.stats,
                *Leader(store, lag_bytes_max=1).stats,
            ],
            read_positions=store.tables.offsets.positions,
            read_leased=self.consume.leased,
            read_receiving=members.receiving,
            permission=lambda: 6,
            detail=detail,
        )
        build = build_info("1.2.3", 1)
        fixed = (build, compiled_modules(), proxy_up())
        self.exposition = Exposition(
            lambda: [*self.numbers.stats(), LoopLag().seconds, *fixed],
            cluster="c1",
            broker="b1",
            max_series=max_series,
            find_gone=self.numbers.gone,
        )

    async def traffic(self) -> None:
        """Sends, pull, commit and query, so that every counter has a series."""
        call = FakeCall()
        assert isinstance(self._calls, Histograms)
        for code in ("send_message_v2", "pull_message"):  # The handlers are called below.
            self._calls.at(("grpc", code, "success", "false", "success")).observe(1)
        messages = [pb.Message(topic="orders", body=b"x", queue_id=0, keys=["k"])] * 3
        request = pb.SendMessageRequest(messages=messages)
        await self.messaging.send_message(drafts_of(request), call)
        await self.talking.settled()
        pulled = pb.PullMessageRequest(topic="orders", group="G", max_messages=1)
        table = {row.name: row.handler for row in self.messaging.service().methods}
        table["PullMessage"](pulled, call)
        commit = pb.CommitOffsetRequest(group="G", topic="orders", offset=1)
        await self.messaging.commit_offset(commit, call)
        await self.messaging.query_messages.by_key(
            pb.QueryByKeyRequest(topic="orders", key="k", max=1), call
        )

    async def page(self, accept: str = "") -> str:
        """Returns what a scrape a second later shows."""
        self.talking.clock.advance(1000)
        await self.numbers.refresh()
        return self.exposition.page(accept)[0].decode()


@asynccontextmanager
async def whole_broker(
    directory: Path, *, detail: str = PUBLIC, max_series: int = 50_000
) -> AsyncIterator[WholeBroker]:
    """Opens a store and build what runs on it."""
    async with store_at(directory) as talking:
        yield WholeBroker(talking, detail=detail, max_series=max_series)
