from _typeshed import ReadableBuffer

def compress(
    data: ReadableBuffer,
    compression_level: int = 0,
    block_size: int = 0,
    content_checksum: bool = False,
    block_linked: bool = True,
    store_size: bool = True,
    return_bytearray: bool = False,
) -> bytes: ...
def decompress(
    data: ReadableBuffer, return_bytearray: bool = False, return_bytes_read: bool = False
) -> bytes: ...

class LZ4FrameDecompressor:
    eof: bool
    needs_input: bool
    unused_data: bytes | None
    def __init__(self, return_bytearray: bool = False) -> None: ...
    def decompress(self, data: ReadableBuffer, max_length: int = -1) -> bytes: ...
