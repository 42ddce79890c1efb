"""Fixed-width integers, byte buffers and vectors for compiled modules.

They come from librt and mypy_extensions, whose types mypyc compiles to plain C, or from `plain` if
librt is not installed.

    i64, i32, i16, u8     int in the sources; compiled, they wrap silently: check ranges first
    BytesWriter           growing buffer: append(byte), write(bytes), [i], truncate, getvalue()
    write_i32_be(w, n)    appends a big-endian integer; read_i32_be(data, position) reads one
    vec[i64]              vector of integers with value semantics: `v = append(v, x)`
    mypyc_attr(...)       compiler options of a class; acyclic=True: its objects never form cycles
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
        from mypy_extensions import i64, mypyc_attr  # vec[i64] requires this type

        i16 = i32 = u8 = int  # mypy_extensions' types are five times slower in the sources
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
