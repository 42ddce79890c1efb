"""A call without a transport."""

from collections.abc import Callable

from pocketmq.format.addresses import host_from_text
from pocketmq.model.errors import TooManyRequests
from pocketmq.model.message import INT32_MAX
from pocketmq.rpc.call import May, anything


class FakeCall:
    """A call with the properties that a test chooses."""

    def __init__(
        self,
        *,
        time_left_ms: int | None = None,
        peer: str = "ipv4:10.0.0.7:4711",
        metadata: dict[str, str] | None = None,
        room: int = INT32_MAX,
        kept: int = INT32_MAX,
    ) -> None:
        self.user = ""
        self.may: May = anything
        self._time_left_ms = time_left_ms
        self.peer = peer
        self._metadata = metadata or {}
        self._room, self._kept = room, kept
        self.rooms: list[int] = []
        """Sizes that were granted to the handler."""
        self.undone: list[Callable[[], None]] = []
        """Functions to call if the answer is lost."""

    def metadata(self, name: str, /) -> str | None:
        """Returns a metadata value."""
        return self._metadata.get(name)

    def identify(self, user: str, /, *, is_admin: bool) -> None:
        """Remembers the caller."""
        self.user = user

    def time_left_ms(self) -> int | None:
        """Returns the time to the deadline, in ms."""
        return self._time_left_ms

    def room(self, wanted: int, /) -> int:
        """Returns the number of bytes that an answer may have."""
        self.rooms.append(min(wanted, self._room))
        return self.rooms[-1]

    def check_room(self, size: int, /) -> None:
        """Refuses an answer that is larger than the available memory."""
        if size > self._kept:
            raise TooManyRequests(field="unread", limit=self._kept)

    def if_lost(self, undo: Callable[[], None], /) -> None:
        """Remembers a function to call if the answer is lost."""
        self.undone.append(undo)

    @property
    def peer_host(self) -> bytes:
        """The peer's address, packed."""
        return host_from_text(self.peer.partition(":")[2])
