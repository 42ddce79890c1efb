"""A log written by the writer alone, without a store.

log = WritingLog(directory, remembered.append)
log.put("orders", "a", "b", key="k")        one batch of two records
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from pocketmq.log.commit_log import CommitLog
from pocketmq.model.batch import Destination, PutResult, Run, Written
from pocketmq.model.store_shape import DelayLevels
from pocketmq.store.dispatch.dispatch_buffer import DispatchBuffer
from pocketmq.store.dispatch.dispatcher import Dispatcher
from pocketmq.store.marks import Marks
from pocketmq.store.write.allocation import Reserve
from pocketmq.store.write.put_lock import PutLock
from pocketmq.store.write.write_admission import WriteAdmission
from pocketmq.store.write.writer import Writer
from tests.kit.rows import Row, batch
from tests.kit.store_language import STORE_HOST, put_row
from tests.sim.clock import FakeClock
from tests.sim.quick_disk import QuickDisk

FILE_SIZE = 4096


class WritingLog:
    """A log of 4 KiB files; `remember` gets what the dispatcher would get."""

    def __init__(
        self,
        directory: Path,
        remember: Callable[[Sequence[Written]], None],
        *,
        property_crc: bool = False,
    ) -> None:
        self.own = directory / "pocketmq"
        self.own.mkdir(parents=True)
        self.disk, self.clock = QuickDisk(), FakeClock()
        self.log = CommitLog(
            self.disk, directory / "commitlog", FILE_SIZE, property_crc=property_crc
        )
        self.marks = Marks(0, 0, 0, is_sync=False)
        self._remember = remember
        whole = cast(Dispatcher, SimpleNamespace(failure=None))
        reserve = cast(Reserve, SimpleNamespace(released=None))
        self.writer = Writer(
            self.log,
            DispatchBuffer(),
            self.marks,
            DelayLevels(),
            PutLock(busy_timeout_ms=0),
            WriteAdmission(self.marks, whole, reserve, None),
            lambda: None,
        )

    def put(
        self,
        topic: str,
        *bodies: str | bytes,
        queue_id: int = 0,
        system_flag: int = 0,
        **words: str,
    ) -> PutResult:
        """Puts one message, or several as a batch; words are those of `put_row`."""
        destination = Destination(topic, queue_id, STORE_HOST, system_flag)
        return self.put_rows(destination, [put_row(body, **words) for body in bodies])

    def put_rows(self, destination: Destination, rows: list[Row]) -> PutResult:
        """Puts rows of one queue."""
        (result,) = self.put_runs((destination, batch(*rows)))
        return result

    def put_runs(self, *runs: Run) -> list[PutResult]:
        """Puts runs in one call; makes the next file when there is no room."""
        records = self.writer.records_of(runs)
        base = self.log.spare_base
        if not self.log.has_room(records.size_sum) and base is not None:
            self.log.offer_spare(self.log.make_spare(self.own, base))
        self.writer.append(records, self.clock.wall_ms())
        self._remember(records.written)
        return records.results()

    def close(self) -> None:
        """Unmaps all files."""
        self.log.close()
