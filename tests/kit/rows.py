"""Messages to put, one a row, and their encoded records.

batch(Row(b"a"), Row(b"b", tag="TagA"))                      two messages by column
encoded(Destination("T", 0, HOST), Row(b"a"), physical_offset=100)
"""

from typing import NamedTuple

from pocketmq.format.record import encode_records, record_sizes
from pocketmq.model.batch import Batch, Destination


class Row(NamedTuple):
    """One message of a batch."""

    body: bytes = b""
    block: bytes = b""
    flag: int = 0
    born_ms: int = 0
    born_host: bytes = bytes(8)
    unique_key: str = ""
    keys: str = ""
    tag: str = ""
    reconsume_times: int = 0


def batch(*rows: Row) -> Batch:
    """Joins rows to a batch."""
    bodies, blocks, flags, born_ms, born_hosts, unique_keys, keys, tags, times = map(
        list, zip(*rows, strict=True)
    )
    return Batch(
        bodies=bodies,
        property_blocks=blocks,
        unique_keys=unique_keys,
        keys=keys,
        tags=tags,
        born_ms=born_ms,
        born_hosts=born_hosts,
        flags=flags,
        reconsume_times=times,
    )


def encoded(
    destination: Destination,
    *rows: Row,
    queue_offset: int = 0,
    physical_offset: int = 0,
    store_timestamp_ms: int = 0,
    crc: bool = False,
) -> bytes:
    """Encodes rows as consecutive records."""
    made = batch(*rows)
    return encode_records(
        destination,
        made,
        record_sizes(destination, made, property_crc=crc),
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        store_timestamp_ms=store_timestamp_ms,
        property_crc=crc,
    )
