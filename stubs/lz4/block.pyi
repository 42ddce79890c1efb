from typing import Literal

from _typeshed import ReadableBuffer

class LZ4BlockError(Exception): ...

def compress(
    source: ReadableBuffer,
    mode: Literal["default", "fast", "high_compression"] = "default",
    acceleration: int = 1,
    compression: int = 0,
    return_bytearray: bool = False,
    store_size: bool = True,
    dict: ReadableBuffer | None = None,
) -> bytes: ...
def decompress(
    source: ReadableBuffer,
    uncompressed_size: int = -1,
    return_bytearray: bool = False,
    dict: ReadableBuffer | None = None,
) -> bytes: ...
