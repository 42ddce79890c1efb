"""Follows the chain of records by their sizes, without checking them.

It is the part of reading many records that has to take them one after the other, so it is compiled.
`columns/heads.py` reads all other fields by column.
"""

from pocketmq.native.machine import BytesWriter, i64, read_i32_be, write_i64_be


def record_chain(content: bytes, size_min: int) -> bytes:
    """Returns the positions of the records from position 0 on, 8 bytes each, big-endian.

    The chain ends at a size below `size_min`, or at a record that extends beyond the content.
    Cost     0.02 µs a record if compiled
    """
    found = BytesWriter()
    least: i64 = size_min
    position: i64 = 0
    end: i64 = len(content)
    while end - position >= least:
        size: i64 = i64(read_i32_be(content, position))
        if size < least or size > end - position:
            break
        write_i64_be(found, position)
        position += size
    return found.getvalue()
