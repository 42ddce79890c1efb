"""What the codecs read from: bytes, bytearray, or a view of a mapped file."""

Buffer = bytes | bytearray | memoryview

ZERO_PAGE = bytes(4096)


def is_zero(buffer: Buffer, begin: int, end: int) -> bool:
    """Return whether every byte of [begin, end) is zero; reads page by page."""
    for position in range(begin, end, len(ZERO_PAGE)):
        upper = min(position + len(ZERO_PAGE), end)
        if buffer[position:upper] != ZERO_PAGE[: upper - position]:
            return False
    return True
