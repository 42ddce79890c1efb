"""The follower's side of replication with a master of RocketMQ.

    settings, ends, last record ──► HA connection ──► log copy ──► fdatasync ──► report
                                └──► every 10 s: tables, once the log that they refer to is copied

RocketMQ's protocol has no handshake. So before it copies, the follower compares file sizes, ends of
the log and its last records with the master's. Each record's CRC is checked, as for any leader.
Source: DefaultHAClient, SlaveSynchronize.
"""

import asyncio
import logging
import zlib
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from pocketmq.model.errors import WrongRole
from pocketmq.model.replication import FOLLOWER
from pocketmq.rpc.classic.signing import signing_fields
from pocketmq.rpc.replication.following import DIAL_S, FollowerLink
from pocketmq.rpc.replication.master_calls import OK, Command, MasterCalls
from pocketmq.services.replication import master_tables as asked
from pocketmq.services.replication.follower import FollowerStream, LeaderBroken
from pocketmq.services.replication.protocol import REPORT
from pocketmq.services.replication.table_record import RecordRefused, TableRecord
from pocketmq.store.job import Job
from pocketmq.store.read.log_proofs import Proof, many_proofs
from pocketmq.store.tables.copied_files import TIMER_CHECK

TABLES_S: Final = 10.0
"""Time between two copies of the tables; a slave of RocketMQ waits for a minute."""
EVERYTHING: Final = 2**63 - 1
FINISH_S: Final = 10.0
"""Time limit of the last copy before a promotion."""

logger = logging.getLogger(__name__)


class _Session(NamedTuple):
    """One connection to a master; `written` has the tables that were copied over it, by name."""

    calls: MasterCalls
    written: dict[str, bytes]


class MasterLink(FollowerLink):
    """The follower's side of replication with a master of RocketMQ.

    It has two connections: to the port of clients for tables, and to the HA port for the log.
    """

    __slots__ = ("_session",)

    def start(self) -> None:
        """Begins to follow; `end` must follow."""
        assert self._dial.open_port is not None, "the dial reaches only one port"
        self._session: _Session | None = None
        super().start()

    def floor(self) -> int:
        """Returns an offset above all others: retention here does not wait for the master."""
        return EVERYTHING

    async def finish(self) -> None:
        """Copies the tables once more, and the log below them, if the master is connected.

        Errors   WrongRole: the copy failed, or took more than FINISH_S
        """
        if self._session is None:
            return
        try:
            await asyncio.wait_for(Job(self._copy_tables(self._session)), FINISH_S)
        except TimeoutError as late:
            why = f"its master sent more messages for {FINISH_S:.0f} s; stop its producers"
            raise WrongRole(role=FOLLOWER, why=f"{why}, or the master") from late
        except (LeaderBroken, RecordRefused, OSError) as error:
            why = f"its master's tables could not be copied once more ({error}); stop the master"
            raise WrongRole(role=FOLLOWER, why=f"{why} to promote with those of before") from error

    async def _follow(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Copies until the connection ends; returns whether the log must be cut instead.

        Errors   TimeoutError, OSError, LeaderBroken, BrokerError
        """
        store, copy = self._store, self._store.copy
        assert copy is not None
        calls = MasterCalls(reader, writer, partial(_signed, *self._dial.signer()))
        assert self._dial.open_port is not None
        async with asyncio.timeout(DIAL_S):
            shape = asked.shape_of(await calls.ask(asked.CONFIG))
            begin, common = await self._begin(calls, shape)
            if common < begin:
                self._cut_aside(common)
                return True
            opened = await self._dial.open_port(shape.ha_port)
        ha_reader, ha_writer = opened
        try:
            # A master sends its last file to a slave that reports 0. Byte 0 of a log is always 0.
            first = max(begin, 1)
            copy.begin(begin)
            if begin < first:
                await copy.append(begin, bytes(first - begin))
            self._tables.begin()
            # A master reports no confirmed end: consumers see every copied record.
            store.marks.replicate(EVERYTHING, 0)
            self._session = session = _Session(calls, {})
            self.is_connected, self.trouble = True, ""
            logger.info(
                "follower.connected",
                extra={"leader": self._dial.leader, "begin": begin, "end": self._end_seen},
            )
            stream = FollowerStream(first, store.log.file_size_bytes, is_bare=True)
            report = self._report(ha_writer, lambda end: REPORT.pack(max(end, first)))
            await self._copy(stream, ha_reader, b"", report, self._keep_tables(session))
        finally:
            self._session = None
            ha_writer.transport.abort()
        return False

    async def _begin(self, calls: MasterCalls, shape: asked.MasterShape) -> tuple[int, int]:
        """Returns (physical offset from which to copy, end of the part that both logs share).

        Errors   LeaderBroken: another size of files, or a log with other bytes
        """
        store = self._store
        own_size = store.log.file_size_bytes
        if shape.file_size_bytes != own_size:
            raise LeaderBroken(
                f"the files of its log have {shape.file_size_bytes} bytes, here {own_size}; set "
                f"store.commit_log_file_size_bytes = {shape.file_size_bytes} and begin with an "
                "empty store"
            )
        end, proofs = await self._proven()
        ends = asked.ends_of(await calls.ask(asked.RUNTIME))
        self._end_seen = ends.end
        identity = self._identity
        await asyncio.to_thread(identity.begin_to_follow)
        if not proofs:
            await asyncio.to_thread(identity.follow, "")
            return (ends.begin, ends.begin) if not store.appended else (end, end)
        if proofs[0].begin < ends.begin:
            raise LeaderBroken(
                f"its log begins at {ends.begin}, as older files have expired, and this one ends "
                f"at {end}; empty the store's directory to copy it again"
            )
        for one in self._all_proofs(proofs[0]):
            if await self._has(calls, one):
                is_last = one == proofs[0]
                goes_on = is_last and await self._has_blank(calls, one.end, end, ends.end)
                return end, end if goes_on else one.end
        raise LeaderBroken(
            "no record of this log is in the master's, which is another store; empty this "
            "store's directory to copy it again"
        )

    def _all_proofs(self, last: Proof) -> Iterator[Proof]:
        yield last
        yield from many_proofs(self._store.log, last)[1:]

    async def _has(self, calls: MasterCalls, proof: Proof) -> bool:
        """Returns whether the master has a record."""
        found = await calls.answer(asked.MESSAGE, {"offset": str(proof.begin), "topic": ""})
        return found.code == OK and zlib.crc32(found.body) == proof.crc

    async def _has_blank(self, calls: MasterCalls, begin: int, end: int, master_end: int) -> bool:
        """Returns whether the master has what follows this log's last record: nothing, or a BLANK.

        A recovery may end this log behind the BLANK of a file. A master that lost the BLANK puts
        other records there.

        begin, end   end of the last record, and of this log
        """
        if end == begin or end > master_end:
            return end <= master_end
        found = await calls.answer(asked.MESSAGE, {"offset": str(begin), "topic": ""})
        return found.code == OK and asked.is_blank(found.body, end - begin)

    # -- tables --------------------------------------------------------------------------------
    async def _keep_tables(self, session: _Session) -> None:
        while True:
            await self._copy_tables(session)
            await asyncio.sleep(TABLES_S)

    async def _copy_tables(self, session: _Session) -> None:
        """Writes the master's tables, once the records that they refer to are on this disk.

        Errors   LeaderBroken, OSError, BrokerError
        """
        calls = session.calls
        bodies: dict[int, bytes] = {}
        for code in asked.TABLES:
            find = calls.find if code in asked.OPTIONAL else calls.ask
            body = await find(code)
            if body is not None:
                bodies[code] = body
        end = asked.ends_of(await calls.ask(asked.RUNTIME)).end
        self._end_seen = max(self._end_seen, end)
        assert self._end_seen >= 0
        await self._all_durable(end)
        for record in list(asked.table_records(bodies, end)):
            await self._write(record, session.written, end)

    async def _all_durable(self, end: int) -> None:
        """Waits until every record below the end of the master's log is on this disk.

        If that log ends with the BLANK of a file, no record of this log ends there.
        Errors   LeaderBroken: another connection has begun; StoreFailed
        """
        store, copy = self._store, self._store.copy
        assert copy is not None
        if not await copy.whole.reached(end):
            raise LeaderBroken("the connection ended")
        end = min(end, store.marks.committed.value)
        while store.flushed < end:
            await store.writing.durability.reached(end)

    async def _write(self, record: TableRecord, written: dict[str, bytes], end: int) -> None:
        if written.get(record.name) == record.content:
            return
        tables = self._tables
        if record.name == TIMER_CHECK and record.name not in written:
            await tables.take(asked.new_timer(), end)
        await tables.take(record, end)
        written[record.name] = record.content


def _signed(user: str, secret: str, request: Command) -> Mapping[str, str]:
    return signing_fields(user, secret, request) if user else {}
