"""Integers of machine width, byte buffers and vectors, as modules that are compiled use them.

From mypy_extensions and librt, whose types mypyc turns into plain C; where librt is not installed
(the sources need no compiler and no wheel for the machine) the replacements of `plain` do the same.

    i64, i32, i16, u8     int in the sources; compiled they wrap silently, so check before
    BytesWriter           bytes that grow: append(byte), write(bytes), [i], truncate, getvalue()
    write_i32_be(w, n)    append a number, big-endian; read_i32_be(data, place) reads one
    vec[i64]              numbers in a row, a value: `v = append(v, x)`
    mypyc_attr(...)       how a class is compiled; acyclic=True: its objects never form cycles
"""

from typing import TYPE_CHECKING

__all__ = [
    "BytesWriter", "append", "extend", "i16", "i32", "i64", "mypyc_attr", "pop", "read_i16_be",
    "read_i32_be", "read_i64_be", "u8", "vec", "write_i16_be", "write_i32_be", "write_i64_be",
]  # fmt: skip

if TYPE_CHECKING:
    from librt.strings import (
        BytesWriter,
        read_i16_be,
        read_i32_be,
        read_i64_be,
        write_i16_be,
        write_i32_be,
        write_i64_be,
    )
    from librt.vecs import append, extend, pop, vec
    from mypy_extensions import i16, i32, i64, mypyc_attr, u8
else:
    try:
        from librt.strings import (
            BytesWriter,
            read_i16_be,
            read_i32_be,
            read_i64_be,
            write_i16_be,
            write_i32_be,
            write_i64_be,
        )
        from librt.vecs import append, extend, pop, vec
        from mypy_extensions import i64, mypyc_attr  # vec[i64] asks for this very i64

        i16 = i32 = u8 = int  # in the sources; mypy_extensions' own take five times as long
    except ImportError:
        from pocketmq.native.plain import (
            BytesWriter,
            append,
            extend,
            i16,
            i32,
            i64,
            mypyc_attr,
            pop,
            read_i16_be,
            read_i32_be,
            read_i64_be,
            u8,
            vec,
            write_i16_be,
            write_i32_be,
            write_i64_be,
        )
