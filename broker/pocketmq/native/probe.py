"""Test module of the library: if it loads and works, all other modules do.

It uses the parts of librt that other modules use, so that an incompatible librt is detected while
the sources can still be loaded.
"""

from pocketmq.native.machine import BytesWriter, append, i64, read_i64_be, vec, write_i64_be


def echo(number: i64) -> i64:
    """Returns the number."""
    writer = BytesWriter()
    write_i64_be(writer, number)
    numbers = vec[i64]()
    numbers = append(numbers, read_i64_be(writer.getvalue(), 0))
    return numbers[0]
