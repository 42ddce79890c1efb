"""Encodes batches of messages for a put: any properties, any system flags, property CRCs."""

from collections.abc import Sequence
from itertools import accumulate
from typing import final

from pocketmq.format.put_records import PutRecords
from pocketmq.format.record import encode_records, record_sizes
from pocketmq.format.record_scan import tags_codes_of
from pocketmq.model.batch import PutResult, PutStatus, Run, Written
from pocketmq.model.message import QueueKey, has_queue_offset
from pocketmq.model.store_shape import DelayLevels
from pocketmq.native.machine import i64


@final
class RunRecords(PutRecords):
    """Encodes the runs of one put, once.

    sizes   for each run, the sizes of its records
    """

    __slots__ = ("_levels", "_runs", "sizes")

    def __init__(self, runs: Sequence[Run], levels: DelayLevels, *, property_crc: bool) -> None:
        super().__init__()
        self._runs = runs
        self._levels = levels
        self.property_crc = property_crc
        self.sizes = [record_sizes(to, batch, property_crc=property_crc) for to, batch in runs]
        self.size_sum = sum(map(sum, self.sizes))

    def results(self) -> list[PutResult]:
        """Returns the positions of the runs, once all runs are stored."""
        return [
            PutResult(
                PutStatus.OK, run.physical_offsets, run.queue_offset, run.store_time_ms,
                run.physical_offsets[-1] + run.sizes[-1],
            )
            for run in self.written
        ]  # fmt: skip

    def encode(
        self, next_offsets: dict[QueueKey, int], place: i64, now_ms: i64, time_ms: i64
    ) -> bytes:
        """Returns all records, see `PutRecords.encode`."""
        assert not self.written, "encoded twice"
        taken, begin = self.taken, int(place)
        contents: list[bytes] = []
        for (destination, batch), sizes in zip(self._runs, self.sizes, strict=True):
            queue_offset = 0
            if has_queue_offset(destination.system_flag):
                key = destination.queue
                queue_offset = taken[key] if key in taken else next_offsets.get(key, 0)
                taken[key] = queue_offset + len(sizes)
            contents.append(
                encode_records(
                    destination, batch, sizes, queue_offset=queue_offset, physical_offset=begin,
                    store_timestamp_ms=time_ms, property_crc=self.property_crc,
                )
            )  # fmt: skip
            *places, begin = accumulate(sizes, initial=begin)
            self.written.append(
                Written(
                    destination,
                    queue_offset,
                    physical_offsets=places,
                    sizes=sizes,
                    tags_codes=tags_codes_of(destination, batch, time_ms, self._levels),
                    store_time_ms=time_ms,
                    unique_keys=batch.unique_keys,
                    keys=batch.keys,
                    tags=batch.tags,
                )
            )
        return contents[0] if len(contents) == 1 else b"".join(contents)
