"""A call as its handler sees it, independent of the transport.

A handler gets a request message and a `Call`. If the call is cancelled, its task gets a
`CancelledError`. Every call has a request id: the client's `x-request-id`, or a generated one.
Errors and the call's log lines contain it (`current_request_id`).
"""

from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache
from itertools import count
from secrets import token_hex
from typing import Final, Protocol
from urllib.parse import unquote

from pocketmq.format.addresses import host_from_text
from pocketmq.model.access import Need

NO_HOST: Final = host_from_text("127.0.0.1:0")
"""Host recorded for a peer without an address, such as a Unix socket."""

REQUEST_ID_KEY: Final = "x-request-id"
REQUEST_ID_LENGTH_MAX: Final = 128
"""Upper limit of characters; a longer id, or one that is not printable ASCII, is replaced."""

_request: ContextVar["_Request | None"] = ContextVar("request", default=None)
_process_prefix: Final = token_hex(4)
_numbers: Final = count(1)


May = Callable[[Need], bool]
"""Returns whether the caller has a needed permission."""


def anything(need: Need, /) -> bool:
    """Permits everything: used without authentication."""
    return True


class Call(Protocol):
    """One call in progress.

    user   access key of the signer, once verified; "" without authentication
    may    returns whether the call's user has a permission now; True without authentication.
           Handlers call it for topics and groups that the request does not name
    """

    user: str
    may: May

    def metadata(self, name: str, /) -> str | None:
        """Returns the first metadata value of a name, None if the client sent no such metadata."""

    def identify(self, user: str, /, *, is_admin: bool) -> None:
        """Sets the verified user of the call.

        Errors   ShareTaken, TooManyRequests: the user's limit of calls in progress is reached
        """

    def time_left_ms(self) -> int | None:
        """Returns the time until the client's deadline, None if the client set no deadline."""

    def room(self, wanted: int, /) -> int:
        """Reserves bytes for an answer; returns how many were granted: possibly few, never 0.

        The reservation lasts until the next reservation of this call, or until the call ends.
        """

    def check_room(self, size: int, /) -> None:
        """Checks that an answer of `size` bytes may be buffered until its client reads it.

        Errors   TooManyRequests
        """

    def if_lost(self, undo: Callable[[], None], /) -> None:
        """Registers a function that is called once if the answer is not sent.

        It is not called for a sent answer that is lost on the way: clients do not confirm answers.
        """

    @property
    def peer(self) -> str:
        """The client's address as gRPC writes it: "ipv4:127.0.0.1:4711"."""

    @property
    def peer_host(self) -> bytes:
        """The client's address, packed as in records."""


def turn_user(call: Call) -> str:
    """Returns the name under which a call's heavy work is scheduled.

    The name is the user, or the client's address without authentication.
    """
    return call.user or call.peer.rpartition(":")[0]


def reading_user(call: Call, *, is_heavy: bool) -> str:
    """Returns the name under which a read is scheduled: `turn_user` if heavy, else the user."""
    return turn_user(call) if is_heavy else call.user


@lru_cache(maxsize=4096)
def host_from_peer(peer: str) -> bytes:
    """Returns the packed address in a peer's text, `NO_HOST` for a text without address."""
    scheme, _, address = peer.partition(":")
    if scheme not in ("ipv4", "ipv6"):
        return NO_HOST
    try:
        return host_from_text(unquote(address))
    except ValueError:
        return NO_HOST


class _Request:
    """A call's metadata, and its request id, read on demand as this takes 4 µs on grpcio."""

    __slots__ = ("_id", "_metadata")

    def __init__(self, metadata: Callable[[str], str | None]) -> None:
        self._metadata = metadata
        self._id = ""

    @property
    def id(self) -> str:
        if not self._id:
            given = self._metadata(REQUEST_ID_KEY)
            is_given = given is not None and _is_id(given)
            self._id = given if is_given and given else f"{_process_prefix}-{next(_numbers):x}"
        assert _is_id(self._id), "request id unfit for a log line or a header"
        return self._id


def begin_request(metadata: Callable[[str], str | None]) -> None:
    """Attributes log lines of this context to a call with this metadata.

    Cost     0.3 µs
    """
    _request.set(_Request(metadata))


def end_request() -> None:
    """Stops attributing log lines of this context to a call.

    Cost     0.1 µs
    """
    _request.set(None)


def current_request_id() -> str:
    """Returns the request id of this context's call, "" outside of calls."""
    request = _request.get()
    return "" if request is None else request.id


def _is_id(text: str) -> bool:
    is_short = 0 < len(text) <= REQUEST_ID_LENGTH_MAX
    return is_short and text.isascii() and text.isprintable()
