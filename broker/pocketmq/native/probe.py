"""The first module loaded from the library; if it loads, the others do.

It uses the same parts of librt as the others. A librt that does not fit is so found out here,
where the sources can still be chosen, and not in the middle of a start.
"""

from pocketmq.native.machine import BytesWriter, append, i64, read_i64_be, vec, write_i64_be


def echo(number: i64) -> i64:
    """Returns the number, after a way through bytes and a vector."""
    writer = BytesWriter()
    write_i64_be(writer, number)
    numbers = vec[i64]()
    numbers = append(numbers, read_i64_be(writer.getvalue(), 0))
    return numbers[0]
