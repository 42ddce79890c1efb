"""A follower's connection, against a leader of which a test plays the bytes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import Any, cast

import pytest

from pocketmq.rpc.replication import following
from pocketmq.rpc.replication.fencing import Claim, Fencer
from pocketmq.rpc.replication.following import FAR_BYTES, Dial, FollowerLink
from pocketmq.services.replication.follower import LeaderMarks, encode_marks
from pocketmq.services.replication.handshake import (
    DIVERGED,
    SAME_FOLLOWER,
    FollowerRefused,
    HandshakeReader,
    Hello,
    LeaderAnswer,
    decode_hello,
    encode_answer,
    encode_refusal,
)
from pocketmq.services.replication.table_copy import TableCopy
from pocketmq.store.tables.identity import StoreIdentity
from pocketmq.store.tables.terms import Fence, Term, TermTable
from tests.kit.store_language import turns, until
from tests.kit.two_stores import LEADER, TwoStores, two_stores
from tests.sim.quick_disk import QuickDisk

HEAD, REPORT = Struct(">qi"), Struct(">qq")


class Pipe:
    """The leader's end of a connection, without a socket."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader()
        self.said = bytearray()
        self.is_cut = False
        self.drained: Callable[[], None] = lambda: None
        self.transport = self

    def write(self, content: bytes) -> None:
        self.said += content

    async def drain(self) -> None:
        self.drained()

    def abort(self) -> None:
        self.is_cut = True

    def hello(self) -> Hello | None:
        """Returns the hello, once it is there."""
        members = HandshakeReader().receive(bytes(self.said))
        return None if members is None else decode_hello(members)

    def reports(self) -> list[tuple[int, int]]:
        """Returns the reports after the hello."""
        reader = HandshakeReader()
        reader.receive(bytes(self.said))
        return [*REPORT.iter_unpack(reader.rest)]

    def piece(self, begin: int, content: bytes) -> None:
        self.reader.feed_data(HEAD.pack(begin, len(content)) + content)


class Followed:
    """A follower, its pipes, and the leader's store."""

    def __init__(self, pair: TwoStores, link: FollowerLink, pipes: list[Pipe]) -> None:
        self.pair, self.link, self.pipes = pair, link, pipes
        self.cuts: list[int] = []

    async def pipe(self) -> Pipe:
        """Returns the next connection, which has said hello."""
        count = len(self.pipes)
        await until(lambda: len(self.pipes) > count or bool(self.pipes))
        pipe = self.pipes[-1]
        await until(lambda: pipe.hello() is not None)
        return pipe

    def answer(self, begin: int, store: str = "s1", more: int = 0) -> bytes:
        end = self.pair.leader.store.appended + more
        return encode_answer(LeaderAnswer(0, store, begin, 0, end, "b", "c", LEADER))


@asynccontextmanager
async def followed(directory: Path) -> AsyncIterator[Followed]:
    """Begins to follow, with a follower that waits for no time between two connections."""
    pipes: list[Pipe] = []

    async def dial() -> Any:
        pipes.append(Pipe())
        return pipes[-1].reader, pipes[-1]

    async with two_stores(directory) as pair:
        store = pair.follower.store
        disk, path = pair.follower.disk, store.settings.directory
        identity, terms = StoreIdentity(disk, path), TermTable(disk, path)
        cuts: list[int] = []
        tables = TableCopy(store.tables.files, store.reload, store.drop_removed)
        dialling = Dial(LEADER, cast(Any, dial), lambda: "")
        link = FollowerLink(store, dialling, identity, terms, tables, cuts.append)
        made = Followed(pair, link, pipes)
        made.cuts = cuts
        link.start()
        try:
            yield made
        finally:
            await link.end()


async def test_a_report_follows_the_sync_and_never_comes_before(tmp_path: Path) -> None:
    async with followed(tmp_path) as run:
        await run.pair.leader.send("orders", "a")
        end, store = run.pair.leader.store.appended, run.pair.follower.store
        pipe = await run.pipe()
        pipe.reader.feed_data(run.answer(0))
        await until(lambda: pipe.reports() == [(0, 0)])
        with run.pair.follower.quick_disk.held():
            pipe.piece(0, run.pair.led)
            await until(lambda: store.appended == end)
            await turns(200)
            assert pipe.reports() == [(0, 0)]
        await until(lambda: pipe.reports()[-1] == (end, 0))
        assert store.flushed == end


async def test_a_piece_that_arrives_in_parts_is_synced_once(tmp_path: Path) -> None:
    async with followed(tmp_path) as run:
        ends = []
        for body in "ab":
            await run.pair.leader.send("orders", body)
            ends.append(run.pair.leader.store.appended)
        store, (first_end, end) = run.pair.follower.store, ends
        pipe = await run.pipe()
        pipe.reader.feed_data(run.answer(0))
        await until(lambda: pipe.reports() == [(0, 0)])
        pipe.reader.feed_data(HEAD.pack(0, end) + run.pair.led[:first_end])
        await until(lambda: store.appended == first_end)
        await turns(200)
        assert store.flushed == 0
        pipe.reader.feed_data(run.pair.led[first_end:end])
        await until(lambda: pipe.reports()[-1] == (end, 0))
        assert pipe.reports() == [(0, 0), (end, 0)]


async def test_each_sync_is_reported_while_more_of_the_log_arrives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with followed(tmp_path) as run:
        ends = [0]
        for body in "abcde":
            await run.pair.leader.send("orders", body)
            ends.append(run.pair.leader.store.appended)
        store, loop, sync = run.pair.follower.store, asyncio.get_running_loop(), QuickDisk.sync
        pipe = await run.pipe()
        pipe.reader.feed_data(run.answer(0))
        left = [*pairwise(ends)]

        async def arrive() -> None:
            if left:
                begin, end = left.pop(0)
                pipe.piece(begin, run.pair.led[begin:end])
                await until(lambda: store.appended >= end)

        def arrive_and_sync(disk: QuickDisk, descriptor: int) -> None:
            if disk is run.pair.follower.disk:
                asyncio.run_coroutine_threadsafe(arrive(), loop).result()
            sync(disk, descriptor)

        await until(lambda: pipe.reports() == [(0, 0)])
        monkeypatch.setattr(QuickDisk, "sync", arrive_and_sync)
        await arrive()
        await until(lambda: pipe.reports()[-1] == (ends[-1], 0))
        reported = [end for end, _ in pipe.reports()]
        assert reported == sorted({*reported} & {*ends})
        assert len(reported) > 2, "no report before the last sync"
        monkeypatch.undo()  # The stop syncs on the event loop.


async def test_marks_are_followed_and_the_state_tells_the_lag(tmp_path: Path) -> None:
    async with followed(tmp_path) as run:
        await run.pair.leader.send("orders", "a")
        first = run.pair.leader.store.appended
        await run.pair.leader.send("orders", "b")
        end, store = run.pair.leader.store.appended, run.pair.follower.store
        pipe = await run.pipe()
        pipe.reader.feed_data(run.answer(0))
        await until(lambda: run.link.is_connected)
        assert run.link.state() == (LEADER, True, end, "")
        pipe.piece(0, run.pair.led)
        pipe.reader.feed_data(encode_marks(LeaderMarks(first, 1)))
        await until(lambda: store.dispatched == first)
        await until(lambda: run.link.lag_bytes == 0)
        await turns(100)
        assert store.dispatched == first


async def test_the_log_is_copied_before_it_is_dispatched_while_far_behind(tmp_path: Path) -> None:
    async with followed(tmp_path) as run:
        await run.pair.leader.send("orders", "a")
        views, pipe = run.pair.follower.store.views, await run.pipe()
        assert not views.is_deferred()
        pipe.reader.feed_data(run.answer(0, more=FAR_BYTES - 1))
        await until(lambda: run.link.is_connected)
        assert views.is_deferred()
        pipe.piece(0, run.pair.led)
        await until(lambda: not views.is_deferred())
        assert run.link.lag_bytes == FAR_BYTES - 1
        pipe.reader.feed_eof()
        await until(lambda: len(run.pipes) == 2)
        (await run.pipe()).reader.feed_data(run.answer(len(run.pair.led), more=FAR_BYTES))
        await until(views.is_deferred)
        run.pipes[-1].reader.feed_eof()
        await until(lambda: len(run.pipes) == 3)
        assert not views.is_deferred()


async def test_the_log_is_kept_from_where_the_leader_keeps_it(tmp_path: Path) -> None:
    async with followed(tmp_path) as run:
        await run.pair.leader.send("orders", "a")
        pipe = await run.pipe()
        assert run.link.floor() == 0
        pipe.reader.feed_data(run.answer(0))
        end = run.pair.leader.store.appended
        pipe.reader.feed_data(encode_marks(LeaderMarks(end, 1, 7)))
        await until(lambda: run.link.floor() == 7)
        pipe.reader.feed_eof()
        await until(lambda: len(run.pipes) == 2)
        assert run.link.floor() == 7


async def test_a_hello_names_the_last_record_and_more_once_it_has_diverged(tmp_path: Path) -> None:
    async with followed(tmp_path) as run:
        for number in range(30):
            await run.pair.leader.send("orders", "x" * 200 + f"{number}")
        pipe = await run.pipe()
        hello = pipe.hello()
        assert hello is not None
        assert (hello.end, hello.proofs, hello.store) == (0, (), "")
        pipe.reader.feed_data(run.answer(0))
        led, size = run.pair.led, 4_096
        for base in range(0, len(led), size):
            pipe.piece(base, led[base : base + size])
        await until(lambda: run.pair.follower.store.appended == len(led))
        pipe.reader.feed_eof()
        await until(lambda: len(run.pipes) == 2)
        again = await run.pipe()
        hello = again.hello()
        assert hello is not None
        assert (hello.end, hello.store, len(hello.proofs)) == (len(led), "s1", 1)
        again.reader.feed_data(encode_refusal(FollowerRefused(DIVERGED, "other bytes")))
        await until(lambda: len(run.pipes) == 3)
        third = await run.pipe()
        hello = third.hello()
        assert hello is not None
        assert len(hello.proofs) > 1
        assert run.link.trouble == "other bytes"
        begin = hello.proofs[1].end
        third.reader.feed_data(run.answer(begin))
        await until(lambda: bool(run.cuts))
        assert run.cuts == [begin]


async def test_a_log_that_diverged_waits_for_room_to_be_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with followed(tmp_path) as run:
        await run.pair.leader.send("orders", "x" * 200)
        await run.pair.copy()
        store, pipe = run.pair.follower.store, await run.pipe()
        needed = store.appended + store.settings.reserve_size_bytes
        monkeypatch.setattr(type(store), "disk_space", lambda self: ("/s", 9, needed - 1))
        pipe.reader.feed_data(run.answer(0))
        await until(lambda: "must be set aside first, and the disk under /s" in run.link.trouble)
        assert "differs from the leader's from offset 0 on" in run.link.trouble
        await until(lambda: len(run.pipes) == 2)
        assert run.cuts == []
        monkeypatch.setattr(type(store), "disk_space", lambda self: ("/s", 9, needed))
        (await run.pipe()).reader.feed_data(run.answer(0))
        await until(lambda: run.cuts == [0])


async def test_a_copy_of_the_leaders_directory_makes_another_id(tmp_path: Path) -> None:
    async with followed(tmp_path) as run:
        pipe = await run.pipe()
        first = pipe.hello()
        pipe.reader.feed_data(encode_refusal(FollowerRefused(SAME_FOLLOWER, "a copy")))
        await until(lambda: len(run.pipes) == 2)
        second = (await run.pipe()).hello()
        assert first is not None
        assert second is not None
        assert first.follower != second.follower


async def test_a_stream_that_leaves_bytes_out_is_not_taken(tmp_path: Path) -> None:
    async with followed(tmp_path) as run:
        for number in range(30):
            await run.pair.leader.send("orders", "x" * 200 + f"{number}")
        pipe = await run.pipe()
        pipe.reader.feed_data(run.answer(100))
        await until(lambda: "begins at 100, this log ends at 0" in run.link.trouble)
        await run.pair.copy(upto=300)
        end = run.pair.follower.store.appended
        await until(lambda: len(run.pipes) == 2)
        (await run.pipe()).reader.feed_data(run.answer(4_096))
        await until(lambda: f"begins at 4096, this log ends at {end}" in run.link.trouble)
        assert not run.cuts


async def test_damaged_bytes_end_the_connection_and_are_not_stored(tmp_path: Path) -> None:
    async with followed(tmp_path) as run:
        await run.pair.leader.send("orders", "a")
        pipe = await run.pipe()
        pipe.reader.feed_data(run.answer(0))
        pipe.piece(0, b"\1" * 200)
        await until(lambda: pipe.is_cut)
        await until(lambda: "leader's log is damaged" in run.link.trouble)
        assert run.pair.follower.store.appended == 0


async def test_a_link_ends_while_its_connection_breaks(tmp_path: Path) -> None:
    async with followed(tmp_path) as run:
        await run.pair.leader.send("orders", "a")
        pipe, goes = await run.pipe(), asyncio.get_running_loop().create_future()
        pipe.reader.feed_data(run.answer(0))
        await until(lambda: pipe.reports() == [(0, 0)])

        def reset() -> None:
            pipe.reader.feed_eof()
            goes.set_result(None)
            raise ConnectionResetError("Connection lost")

        async def end() -> None:
            await goes
            await run.link.end()

        ending = asyncio.create_task(end())
        await turns(3)
        pipe.drained = reset
        pipe.piece(0, run.pair.led)
        done, _ = await asyncio.wait([ending], timeout=2)
        assert done


async def test_a_report_that_fails_as_the_leader_closes_does_not_end_the_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PAUSE_S", 0)
    async with followed(tmp_path) as run:
        await run.pair.leader.send("orders", "a")
        pipe = await run.pipe()
        pipe.reader.feed_data(run.answer(0))
        await until(lambda: pipe.reports() == [(0, 0)])

        def reset() -> None:
            pipe.reader.feed_eof()
            raise ConnectionResetError("Connection lost")

        pipe.drained = reset
        pipe.piece(0, run.pair.led)
        await until(lambda: len(run.pipes) == 2)


def fencer(answer: bytes = b"", fences: list[Fence] | None = None) -> Fencer:
    """Returns a leader of epoch 2 that tells another one, which gives one answer, or none."""

    async def dial() -> Any:
        pipe = Pipe()
        pipe.reader.feed_data(answer)
        return pipe.reader, pipe

    async def give_up(fence: Fence) -> None:
        assert fences is not None
        fences.append(fence)

    identity, terms = StoreIdentity(QuickDisk(), Path()), TermTable(QuickDisk(), Path())
    terms.history = [Term(2, 70)]
    return Fencer(
        Dial(LEADER, cast(Any, dial)), Claim(identity, terms, 4_096, "10.0.0.9:8081", give_up)
    )


@pytest.mark.parametrize(
    ("epoch", "terms", "fences"),
    [
        (2, ((1, 0), (2, 90)), [Fence(2, 90, LEADER)]),
        (3, ((3, 40),), [Fence(3, 40, LEADER)]),
        (1, ((1, 0),), []),
        (0, (), []),
    ],
)
async def test_a_leader_that_tells_one_of_a_later_term_is_fenced(
    epoch: int, terms: tuple[tuple[int, int], ...], fences: list[Fence]
) -> None:
    found: list[Fence] = []
    told = fencer(encode_answer(LeaderAnswer(epoch, "s", 0, 0, 99, "b", "c", LEADER, terms)), found)
    told.start()
    await turns(20)
    await told.end()
    assert found == fences


@pytest.mark.parametrize("kind", ["link", "fencer"])
async def test_a_cancelled_end_of_a_connection_stays_cancelled(tmp_path: Path, kind: str) -> None:
    async with followed(tmp_path) as run:
        await run.pipe()
        work = run.link if kind == "link" else fencer()
        if work is not run.link:
            work.start()
            await turns(2)
        ending = asyncio.create_task(work.end())
        await turns(1)
        assert ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
