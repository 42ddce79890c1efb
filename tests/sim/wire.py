"""A transport without a socket: written bytes stay until a test takes them."""

import asyncio


class Wire:
    """The transport of a protocol's connection.

    If `protocol` is set, each write pauses it, as if the client did not read.
    """

    def __init__(self, protocol: asyncio.Protocol | None = None) -> None:
        self.protocol = protocol
        self.written: list[bytes] = []
        self.is_closed = self.is_aborted = False
        self.reads = True

    def get_extra_info(self, name: str) -> None:
        """Returns no property of a socket."""

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        """Ignores the limits."""
        assert low < high

    def get_write_buffer_size(self) -> int:
        """Returns the number of unsent bytes."""
        return sum(map(len, self.written))

    def is_closing(self) -> bool:
        """Returns whether the connection is closing."""
        return self.is_closed

    def write(self, data: bytes) -> None:
        """Keeps the bytes to send."""
        assert not self.is_closed, "nothing is written behind the end"
        self.written.append(data)
        if self.protocol is not None:
            self.protocol.pause_writing()

    def writelines(self, pieces: list[bytes]) -> None:
        """Keeps the bytes to send, as one write."""
        self.write(b"".join(pieces))

    def pause_reading(self) -> None:
        """Reads no more."""
        self.reads = False

    def resume_reading(self) -> None:
        """Reads again."""
        self.reads = True

    def close(self) -> None:
        """Closes the connection after all bytes are sent."""
        self.is_closed = True

    def abort(self) -> None:
        """Ends the connection now."""
        self.is_closed = self.is_aborted = True
