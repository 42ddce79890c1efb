"""A broker under hostile classic clients, and the judge of its replies.

async with hostile(Random(7), signs=False) as lives:
    count = await lives.one()          a connection from its first byte to its last
"""

import asyncio
import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any, Final

from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.classic.service_table import TABLE
from pocketmq.rpc.classic.signing import signed_by_fields, signing_fields
from pocketmq.rpc.guard import Guard
from pocketmq.rpc.own.remoting_call import RemotingCall
from pocketmq.rpc.own.remoting_connection import RemotingConnection
from pocketmq.rpc.own.server_state import ServerState
from pocketmq.rpc.service import ANY_CODE
from pocketmq.rpc.serving import Serving
from pocketmq.wire.remoting import Command, CommandReader, Oversized, RemotingError
from tests.kit.hostile_frames import CLOSED, OPEN, FrameMaker, Hostile
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker, store_broker
from tests.kit.store_language import until
from tests.kit.users import SECRET, access_of, grant_of

CODES: Final = [row.number for row in TABLE.rows if row.number != ANY_CODE]
LIMITS: Final = {row.number: row.own["request_size_max"] for row in TABLE.rows}
KNOWN: Final = frozenset({*range(27), 206, 207, 208, 209, 210, 211, 309, 604})
"""Codes that RocketMQ's clients know."""
SECRETS: Final = {"admin": SECRET, "app": SECRET}
"""Users who sign requests; `app` may only use some topics and groups."""
REFUSED: Final = frozenset({1, 2, 3, 13, 14, 16, 17, 23, 26})
"""Codes of requests that may have changed nothing."""
WAITING: Final = frozenset({CallClass.POLL, CallClass.QUESTION})
SECONDS_MAX: Final = 30
SOUND: Final = {
    "a": "p", "b": "sound", "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1", "h": "0",
    "i": "", "j": "0", "k": "false", "l": "16", "m": "false", "n": "broker-a",
}  # fmt: skip


class Failures(logging.Handler):
    """Collects log events of defects."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps an event, with its error."""
        cause = record.exc_info[1] if record.exc_info else None
        self.found.append(f"{record.getMessage()} {cause!r} {logging.Formatter().format(record)}")


class HostileLives:
    """Connections of hostile clients to one broker."""

    def __init__(self, broker: StoreBroker, random: Random, *, signs: bool) -> None:
        self._broker = broker
        self._random = random
        self._secrets = SECRETS if signs else {}
        self._make = FrameMaker(random, CODES, self._secrets)
        self._late: list[Hostile] = []
        """Frames that end their connection, for the ends of the next ones."""
        service = broker.classic.service()
        if signs:
            grants = grant_of("app", "pub,sub", "topic:orders"), grant_of("app", "sub", "group:g")
            guard = Guard(access_of(*grants), None, signed_by_fields)
            service = guard.guarded(service, TABLE.rules("DefaultCluster"))
        loop = asyncio.get_running_loop()
        self._edge = ServerState(loop, Serving([service]))
        self._sound = RemotingPair(edge=self._edge)
        self.failures = Failures()
        self.kinds: Counter[str] = Counter()
        """Number of cases by kind."""
        self.codes: Counter[int] = Counter()
        """Number of replies by code."""
        self.closed_count = 0
        self.forged_count = 0
        """Number of replies to requests with a wrong signature."""

    async def one(self) -> int:
        """Runs a connection; returns its number of cases.

        Errors   AssertionError: with the frames in hexadecimal
        """
        random = self._random
        frames: list[Hostile] = []
        for _ in range(random.choice((1, 1, 1, 2, 5, 12, 30))):
            one = self._make.some()
            if one.ends is CLOSED:  # No later frame would be read.
                self._late.append(one)
            else:
                frames.append(one)
        if self._late:
            frames.append(self._late.pop())
        try:
            frames = frames[: await self._live(frames)]
        except Exception as error:
            shown = "\n".join(f"{one.kind} {one.raw[:2_000].hex()}" for one in frames)
            raise AssertionError(f"{error!r}\n{shown}") from error
        self.kinds.update(one.kind for one in frames)
        return len(frames)

    async def _live(self, frames: list[Hostile]) -> int:
        """Runs a connection; returns how many of its frames the broker must read."""
        expected, read_count, is_closed = self._expected(frames)
        before = self._content()
        client = RemotingPair(edge=self._edge)
        replies: Counter[int] = Counter()
        codes: list[int] = []
        client.feed(*self._pieces(frames))
        await self._until(partial(_is_done, client.server))
        assert not self.failures.found, self.failures.found[0]
        self._took(client, replies, codes)
        waiting = Counter(
            call.command.opaque
            for call in client.server.calls
            if isinstance(call, RemotingCall) and not call.command.is_one_way
        )
        assert client.server.is_open is not is_closed, "closed or not"
        if is_closed:
            if not replies <= expected:
                expected += Counter(_asked_before_error(frames[:read_count]))
            assert replies <= expected, "a reply without a request"
            self.closed_count += 1
        else:
            assert replies + waiting == expected, (
                f"{expected - replies - waiting} {replies - expected}"
            )
        assert {*codes} <= KNOWN, f"unknown codes { ({*codes} - KNOWN) }"
        self.codes.update(codes)
        is_mutated = any(one.kind in ("mutated_frame", "noise") for one in frames)
        if not is_mutated:
            self._check_signatures(client)
        client.lose() if self._random.random() < 0.5 else client.server.cut_off()
        await self._until(lambda: not client.server.calls)
        self._gone(client)
        is_refused = REFUSED.issuperset(codes) and replies == expected
        if is_refused and not is_mutated and all(one.kind != "one_way" for one in frames):
            assert self._content() == before, "a refused request has changed something"
        return read_count

    def _expected(self, frames: list[Hostile]) -> tuple[Counter[int], int, bool]:
        """Returns how often each number must be answered, and where the connection ends.

        The second value is the number of frames that are read, the third whether it is closed.
        """
        reader = _reader()
        found: Counter[int] = Counter()
        for number, one in enumerate(frames):
            ends = None if reader.is_unfinished else one.ends
            try:
                found.update(_asked(reader.receive(one.raw)))
            except RemotingError:
                assert ends is not OPEN, "a well-formed frame is refused"
                return found, number + 1, True
            assert ends is not CLOSED, "a malformed frame is accepted"
        return found, len(frames), False

    def _pieces(self, frames: list[Hostile]) -> Iterator[bytes]:
        random = self._random
        raw = b"".join(one.raw for one in frames)
        match random.randrange(4):
            case 0:
                yield raw
            case 1 if len(raw) < 2_000:
                yield from (raw[at : at + 1] for at in range(len(raw)))
            case 2:
                size = max(1, len(raw) // random.randrange(1, 40))
                yield from (raw[at : at + size] for at in range(0, len(raw), size))
            case _:
                yield from (one.raw for one in frames)

    def _took(self, client: RemotingPair, replies: Counter[int], codes: list[int]) -> None:
        client.take()
        for one in client.all_replies:
            replies[one.opaque] += 1
            codes.append(one.code)
            self._check(one)

    def _check(self, reply: Command) -> None:
        assert "Traceback" not in reply.remark, "a traceback"
        assert "internal error" not in reply.remark, "an internal error"
        assert reply.code not in REFUSED or reply.remark, "a refusal without a reason"

    def _check_signatures(self, client: RemotingPair) -> None:
        """Checks that no request is served whose signature is wrong."""
        for one in client.all_replies:
            if one.opaque in self._make.forged:
                assert one.code in REFUSED, f"served with a wrong signature: {one}"
                self.forged_count += 1
        self._make.forged.clear()

    def _gone(self, client: RemotingPair) -> None:
        memory, admission = self._edge.memory, self._edge.serving.admission
        assert client.server not in self._edge.connections, "a closed connection is kept"
        assert (memory.held, memory.unread, memory.reserved) == (0, 0, 0), "bytes are still counted"
        assert admission.inflight_count() == 0, "calls are still counted"
        assert not self.failures.found, self.failures.found[0]

    def _content(self) -> tuple[Any, ...]:
        tables = self._broker.store.tables
        return (self._broker.store.appended, tables.topics.names(), tables.groups.names())

    async def _until(self, condition: Any) -> None:
        try:
            async with asyncio.timeout(SECONDS_MAX):
                await until(condition)
        except TimeoutError:
            raise AssertionError("a request does not end") from None

    async def sound(self) -> None:
        """Sends a message on a sound connection."""
        fields = dict(SOUND)
        if self._secrets:
            fields |= signing_fields("admin", SECRET, Command(310, SOUND, b"sound"))
        reply = await self._sound.ask(310, fields, b"sound")
        assert reply.code == 0, f"a sound send is refused: {reply.remark}"


def _reader() -> CommandReader:
    return CommandReader(lambda code: LIMITS.get(code, LIMITS[ANY_CODE]))


def _asked_before_error(frames: list[Hostile]) -> list[int]:
    """Returns the numbers of commands in the longest part of the last frame that is no error.

    They may be answered before the connection is closed.
    """
    *earlier, raw = (one.raw for one in frames)

    def asked(size: int) -> list[int] | None:
        reader = _reader()
        for each in earlier:
            reader.receive(each)
        try:
            return _asked(reader.receive(raw[:size]))
        except RemotingError:
            return None

    size = bisect_left(range(len(raw)), True, key=lambda size: asked(size) is None)
    return asked(max(0, size - 1)) or []


def _asked(commands: Iterable[Command | Oversized]) -> list[int]:
    """Returns the numbers of commands that are to be answered."""
    given = (one.command if isinstance(one, Oversized) else one for one in commands)
    return [one.opaque for one in given if not one.is_reply and not one.is_one_way]


def _is_done(server: RemotingConnection) -> bool:
    """Returns whether no request is in progress but those that wait for messages or a client."""
    return not (server._queue or server._rest or server.frames) and all(map(_waits, server.calls))


def _waits(call: object) -> bool:
    return isinstance(call, RemotingCall) and call.served.method.call_class in WAITING


@asynccontextmanager
async def hostile(random: Random, *, signs: bool) -> AsyncIterator[HostileLives]:
    """Opens a broker for hostile clients.

    signs   whether the broker has users, who sign their requests
    """
    async with store_broker() as broker:
        broker.auto_create_topics = broker.auto_create_groups = random.random() < 0.5
        broker.store.tables.topics.adopt("sound", 1)
        await broker.add("orders", b"a", b"b", TAGS="a", KEYS="k")
        lives = HostileLives(broker, random, signs=signs)
        logger = logging.getLogger("pocketmq")
        logger.addHandler(lives.failures)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, told: lives.failures.found.append(repr(told)))
        try:
            yield lives
        finally:
            loop.set_exception_handler(None)
            logger.removeHandler(lives.failures)
