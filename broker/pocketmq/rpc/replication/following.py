"""A follower's connection to its leader: dials, copies log and tables, reports, dials again.

hello ──► answer ──► log ──► LogCopy ──► fdatasync ──► report
                └──► begin below the end of this log: it has diverged, and a restart cuts it
"""

import asyncio
import errno
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, NamedTuple

from pocketmq.model.errors import BrokerError, DiskFull
from pocketmq.model.stats import Gauge, Stat
from pocketmq.model.step import Next, Now
from pocketmq.services.replication.follower import (
    FollowerStream,
    LeaderBroken,
    LeaderMarks,
    LogBytes,
    encode_report,
)
from pocketmq.services.replication.handshake import (
    DIVERGED,
    SAME_FOLLOWER,
    FollowerRefused,
    HandshakeReader,
    Hello,
    LeaderAnswer,
    decode_answer,
    encode_hello,
)
from pocketmq.services.replication.protocol import HEARTBEAT_MS, SILENCE_MAX_MS
from pocketmq.services.replication.table_copy import TableCopy
from pocketmq.services.replication.table_record import RecordRefused, TableRecord
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.log_proofs import Proof, last_proof, many_proofs, proofs_between
from pocketmq.store.tables.identity import StoreIdentity
from pocketmq.store.tables.terms import Term, TermTable

READ_SIZE: Final = 512 * 1024
"""Upper limit of the bytes of one read; asyncio buffers up to twice as many."""
FAR_BYTES: Final = 16 * 1024 * 1024
"""Lag from which on the log is copied before it is dispatched."""
DIAL_S: Final = 5.0
"""Time limit of a connection and of the leader's answer."""
PAUSE_S: Final = 0.5
PAUSE_MAX_S: Final = 5.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

logger = logging.getLogger(__name__)

_NUMBER = re.compile(r"\[Errno (-?\d+)\] ?")
_WORDS: Final = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "the connection was reset",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "the network is unreachable",
    errno.ETIMEDOUT: "the connection timed out",
}
_TLS_WORDS: Final = {
    "Hostname mismatch": "its TLS certificate is for another name",
    "IP address mismatch": "its TLS certificate is for another name",
    "certificate has expired": "its TLS certificate has expired",
    "CERTIFICATE_VERIFY_FAILED": (
        "its TLS certificate is not trusted: set GRPC_DEFAULT_SSL_ROOTS_FILE_PATH to a file with "
        "it (its rpc.tls_cert, or STORE/pocketmq/tls/certificate.pem) and restart this broker"
    ),
    "WRONG_VERSION_NUMBER": "no TLS is served there: name it without tls://",
}
"""Part of the text of an ssl.SSLError -> reason; the first that fits."""


class Dial(NamedTuple):
    """How a follower reaches its leader.

    leader      "host:port"
    open        opens a connection
    token       returns the token of a hello made now (handshake.py)
    open_port   opens a connection to another port of a master of RocketMQ
    signer      returns (access key, secret) that sign requests to a master of RocketMQ; ("", ""):
                they are not signed
    """

    leader: str
    open: Callable[[], Awaitable[Streams]]
    token: Callable[[], str] = str
    open_port: Callable[[int], Awaitable[Streams]] | None = None
    signer: Callable[[], tuple[str, str]] = lambda: ("", "")


class FollowerLink:
    """The follower's side of replication on an open store.

    cut   called with the physical offset at which the log must be cut, as it has diverged
    """

    __slots__ = (
        "_confirmed", "_cut", "_dial", "_end_seen", "_heard_ms", "_identity", "_kept_from",
        "_named", "_noted", "_store", "_tables", "_task", "_terms", "is_connected", "stats",
        "trouble",
    )  # fmt: skip

    def __init__(
        self,
        store: MessageStore,
        dial: Dial,
        identity: StoreIdentity,
        terms: TermTable,
        tables: TableCopy,
        cut: Callable[[int], None],
    ) -> None:
        assert store.copy is not None, "the store copies no log"
        self._store = store
        self._dial = dial
        self._identity = identity
        self._terms = terms
        self._tables = tables
        self._cut = cut
        self._task: asyncio.Task[None] | None = None
        store.views.is_copy, store.views.is_deferred = True, self._is_far_behind
        self._end_seen = self._kept_from = 0
        self._heard_ms = store.clock.monotonic_ms()
        self._named: tuple[Proof, ...] = ()
        """Records for the next hello, as the leader does not have the last one."""
        self._confirmed = 0
        """Confirmed end for the next hello, once it is known where the logs differ."""
        self._noted = asyncio.Event()
        """Set by each table record on the disk, and by each piece of the log."""
        self.is_connected = False
        self.trouble = ""
        """Why it is not connected."""
        self.stats: list[Stat] = [
            Gauge(
                "pocketmq_follower_connected", "1 if the broker is connected to its leader.",
                lambda: float(self.is_connected),
            ),
            Gauge(
                "pocketmq_follower_lag_bytes", "Bytes of the leader's log that are not here.",
                lambda: float(self.lag_bytes),
            ),
            Gauge(
                "pocketmq_follower_silence_seconds", "Time since the leader was heard.",
                lambda: (store.clock.monotonic_ms() - self._heard_ms) / 1_000,
            ),
        ]  # fmt: skip

    @property
    def lag_bytes(self) -> int:
        """Bytes of the leader's log, as far as it is known, that are not here."""
        copy = self._store.copy
        assert copy is not None
        return max(self._end_seen - copy.whole_end, 0)

    def _is_far_behind(self) -> bool:
        return self.is_connected and self.lag_bytes >= FAR_BYTES

    def state(self) -> tuple[str, bool, int, str]:
        """Returns (leader's address, whether it is connected, lag in bytes, why it is not)."""
        return self._dial.leader, self.is_connected, self.lag_bytes, self.trouble

    def floor(self) -> int:
        """Returns the physical offset from which on the leader has the log; 0 if it is unknown.

        The leader keeps the records that delays, leases and transactions need, as only the leader
        has their state.
        """
        return self._kept_from

    def step(self, now: Now) -> Next:
        """Reads replaced tables again; a step."""
        return self._tables.step(now)

    def start(self) -> None:
        """Begins to follow; `end` must follow."""
        assert self._task is None, "it has begun already"
        self._task = asyncio.Task(self._run())
        self._task.add_done_callback(_tell)

    async def end(self) -> None:
        """Ends the connection; nothing is reported afterwards."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])  # Unlike `await task`, raises only for a cancelled caller.

    def cut(self) -> None:
        """Restarts the services with an empty log; the old log is set aside."""
        self._cut(self._store.min_offset)

    async def finish(self) -> None:
        """Does nothing before a promotion: the leader's records have arrived already."""

    async def _run(self) -> None:
        pause_s, own = PAUSE_S, asyncio.current_task()
        assert own is not None
        while True:
            was_connected, trouble = False, "the leader closed the connection"
            try:
                async with asyncio.timeout(DIAL_S):
                    reader, writer = await self._dial.open()
                try:
                    if await self._follow(reader, writer):
                        return
                finally:
                    was_connected, self.is_connected = self.is_connected, False
                    writer.transport.abort()
            except* TimeoutError:
                trouble = "the leader was silent"
            except* (OSError, LeaderBroken, RecordRefused, FollowerRefused, BrokerError) as group:
                trouble = reason_of(group.exceptions[0])
            if trouble != self.trouble or was_connected:
                logger.warning(
                    "follower.disconnected",
                    extra={"leader": self._dial.leader, "reason": trouble},
                )
            self.trouble = trouble
            if self._task is not own:  # A group of tasks that fails swallows a cancellation.
                return
            while own.cancelling():  # A task group that was ending may leave its cancellation.
                own.uncancel()
            pause_s = PAUSE_S if was_connected else min(2 * pause_s, PAUSE_MAX_S)
            await asyncio.sleep(pause_s)

    async def _follow(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Copies until the connection ends; returns whether the log must be cut instead.

        Errors   TimeoutError, OSError, LeaderBroken, FollowerRefused, BrokerError
        """
        async with asyncio.timeout(DIAL_S):
            answer, rest = await self._greet(reader, writer)
        store, copy = self._store, self._store.copy
        assert copy is not None
        is_begun, end = bool(store.appended), store.log.appended
        if is_begun and answer.begin < end:
            is_none_common = answer.begin == answer.min_offset
            self._look_closer(answer.begin, is_none_common=is_none_common)
            self._cut_aside(store.log.min_offset if is_none_common else answer.begin)
            return True
        self._named, self._confirmed = (), 0
        is_next = answer.begin == end if is_begun else not answer.begin % store.log.file_size_bytes
        if not is_next:
            raise LeaderBroken(f"the leader begins at {answer.begin}, this log ends at {end}")
        await asyncio.to_thread(self._identity.follow, answer.store)
        terms = [Term(*row) for row in answer.terms]
        await asyncio.to_thread(self._terms.adopt, terms)
        copy.begin(answer.begin)
        self._tables.begin()
        self._kept_from, self._end_seen = answer.min_offset, answer.end
        self.is_connected, self.trouble = True, ""
        logger.info(
            "follower.connected",
            extra={"leader": self._dial.leader, "begin": answer.begin, "end": answer.end},
        )
        stream = FollowerStream(answer.begin, store.log.file_size_bytes)
        report = self._report(writer, lambda end: encode_report(end, self._tables.seq))
        await self._copy(stream, reader, rest, report)
        return False

    def _cut_aside(self, begin: int) -> None:
        """Restarts the services with a log that ends at an offset; the rest is set aside.

        Errors   LeaderBroken: the disk has no room for the rest yet
        """
        no_room = self._store.no_room_aside(begin)
        if no_room:
            why = f"this log differs from the leader's from offset {begin} on: {no_room}"
            raise LeaderBroken(f"{why}; free space, the copy then continues by itself")
        self._cut(begin)

    def _look_closer(self, common: int, *, is_none_common: bool) -> None:
        """Makes the next hello ask again, unless the last one settled where the logs differ.

        A cut must not remove records that both logs have: a promotion may come before they are
        copied again.
        Errors   LeaderBroken: the next hello asks
        """
        store, named = self._store, self._named
        if not is_none_common:
            other = min([one.begin for one in named if one.begin >= common], default=common)
            self._named = proofs_between(store.log, common, other) or named
        is_exact = self._named is named
        is_known = is_exact and store.marks.is_confirmed
        confirmed = min(store.marks.confirmed, store.appended) if is_known else 0
        if not is_exact or self._confirmed < confirmed > common:
            self._confirmed = confirmed
            raise LeaderBroken(f"both logs agree up to {common}: the next records are compared")

    async def _copy(
        self,
        stream: FollowerStream,
        reader: asyncio.StreamReader,
        rest: bytes,
        *beside: Coroutine[Any, Any, None],
    ) -> None:
        """Processes what arrives until the connection ends; the work `beside` runs meanwhile.

        Errors   TimeoutError, OSError, LeaderBroken, BrokerError, each in a group
        """
        async with asyncio.TaskGroup() as parts:
            tasks = [parts.create_task(work) for work in beside]
            await self._take(stream, rest)
            while True:
                async with asyncio.timeout(SILENCE_MAX_MS / 1_000):
                    content = await reader.read(READ_SIZE)
                if not content:
                    break
                await self._take(stream, content)
                if len(content) == READ_SIZE:  # The next read might not wait.
                    await asyncio.sleep(0)
            for task in tasks:
                task.cancel()

    async def _greet(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[LeaderAnswer, bytes]:
        store, identity = self._store, self._identity
        await asyncio.to_thread(identity.begin_to_follow)
        end, last = await self._proven()
        proofs = self._named or last
        hello = Hello(
            identity.follower, self._terms.epoch, identity.store if proofs else "",
            store.log.file_size_bytes, end if proofs else 0, proofs, self._dial.token(),
            tuple((term.epoch, term.begin) for term in self._terms.history[-1:]),
            timer=await self._tables.timer_proof() if proofs else None,
            confirmed=self._confirmed, last=last[0].begin if last else 0,
        )  # fmt: skip
        writer.write(encode_hello(hello))
        try:
            return await answer_from(reader)
        except FollowerRefused as refused:
            is_diverged = refused.reason == DIVERGED
            self._named = many_proofs(store.log, proofs[0]) if is_diverged else ()
            self._confirmed = 0
            if refused.reason == SAME_FOLLOWER:
                await asyncio.to_thread(identity.renew)
            raise

    async def _proven(self) -> tuple[int, tuple[Proof, ...]]:
        """Returns the log's end and its last record; () for a log without records.

        Errors   LeaderBroken: this store is damaged
        """
        store, copy = self._store, self._store.copy
        assert copy is not None
        if store.damage is not None:
            why = "this store is damaged; pocketmq replica resync copies the leader's"
            raise LeaderBroken(f"{why} ({store.damage})")
        await store.writing.drain()
        return store.log.appended, last_proof(store.log, copy.last_record, store.appended)

    async def _take(self, stream: FollowerStream, content: bytes) -> None:
        store = self._store
        self._heard_ms = store.clock.monotonic_ms()
        copy = store.copy
        assert copy is not None
        for event in stream.receive(content):
            if isinstance(event, LogBytes):
                await copy.append(*event)
                self._end_seen = max(self._end_seen, copy.end)
                assert self._end_seen >= store.appended
                if stream.has_whole_piece:  # One sync for it: the leader waits for its end.
                    store.writing.durability.request()
                    self._noted.set()
            elif isinstance(event, LeaderMarks):
                self._kept_from = event.begin
                self._end_seen = max(self._end_seen, event.confirmed)
                store.marks.replicate(event.confirmed, event.store_time_ms)
            elif isinstance(event, TableRecord):
                await store.writing.drain()
                await self._tables.take(event, copy.whole_end)
                self._noted.set()

    async def _report(self, writer: asyncio.StreamWriter, encode: Callable[[int], bytes]) -> None:
        """Reports what is on the disk, after each sync, and at least every HEARTBEAT_MS.

        While the log arrives, each sync leaves newer bytes behind: no report waits for these.

        encode   encodes the end of the log on the disk
        Errors   StoreFailed: the log could not be synced
        """
        marks, durability = self._store.marks, self._store.writing.durability
        copy = self._store.copy
        assert copy is not None
        while True:
            if marks.flushed.value < marks.committed.value:
                await durability.reached(marks.committed.value)
            flushed, table_seq = marks.flushed.value, self._tables.seq
            is_all = marks.committed.value == flushed
            writer.write(encode(copy.whole_end if is_all else flushed))
            await writer.drain()
            self._noted.clear()
            if marks.committed.value == flushed and self._tables.seq == table_seq:
                with suppress(TimeoutError):
                    async with asyncio.timeout(HEARTBEAT_MS / 1_000):
                        await self._noted.wait()


def reason_of(error: BaseException) -> str:
    """Returns why a connection failed, in words for operators: "connection refused"."""
    if isinstance(error, DiskFull):
        return f"the disk under {error.path} is full; free space, the copy then continues by itself"
    text = str(error)
    found = _NUMBER.search(text)
    if found is None:
        return next((words for part, words in _TLS_WORDS.items() if part in text), text)
    return _WORDS.get(int(found[1]), text.replace(found[0], "", 1))


def _tell(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and task.exception() is not None:
        logger.error("follower.ended", exc_info=task.exception())


async def answer_from(reader: asyncio.StreamReader) -> tuple[LeaderAnswer, bytes]:
    """Returns the leader's answer to a hello, and the bytes after it.

    Errors   FollowerRefused, OSError
    """
    handshake = HandshakeReader()
    while (members := handshake.receive(await _some(reader))) is None:
        pass
    return decode_answer(members), handshake.rest


async def _some(reader: asyncio.StreamReader) -> bytes:
    content = await reader.read(READ_SIZE)
    if not content:
        raise ConnectionResetError("the leader closed the connection before its answer")
    return content
