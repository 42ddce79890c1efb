"""A transport without a socket: written bytes stay until a test takes them."""

import asyncio


class Wire:
    """The transport that a protocol gets when its connection is made.

    Where `protocol` is set, each write tells it to pause, as when the client does not read.
    """

    def __init__(self, protocol: asyncio.Protocol | None = None) -> None:
        self.protocol = protocol
        self.written: list[bytes] = []
        self.is_closed = self.is_aborted = False
        self.reads = True

    def get_extra_info(self, name: str) -> None:
        """Returns no property of a socket."""

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        """Takes limits that hold for a socket."""
        assert low < high

    def get_write_buffer_size(self) -> int:
        """Returns how many bytes wait."""
        return sum(map(len, self.written))

    def is_closing(self) -> bool:
        """Returns whether the connection ends."""
        return self.is_closed

    def write(self, data: bytes) -> None:
        """Keeps what is to be sent."""
        assert not self.is_closed, "nothing is written behind the end"
        self.written.append(data)
        if self.protocol is not None:
            self.protocol.pause_writing()

    def pause_reading(self) -> None:
        """Reads no more."""
        self.reads = False

    def resume_reading(self) -> None:
        """Reads again."""
        self.reads = True

    def close(self) -> None:
        """Ends the connection when all is sent."""
        self.is_closed = True

    def abort(self) -> None:
        """Ends the connection now."""
        self.is_closed = self.is_aborted = True
