"""What a handler may ask about the call it serves, whatever transport carries it.

A handler gets a request message and a `Call`; being cancelled reaches it as `CancelledError`.
"""

from functools import lru_cache
from typing import Final, Protocol
from urllib.parse import unquote

from broker.format.hosts import host_from_text

NO_HOST: Final = host_from_text("127.0.0.1:0")
"""Stands for a peer without an address, as on a Unix socket."""


class Call(Protocol):
    """One call under way."""

    def metadata(self, name: str, /) -> str | None:
        """Return a metadata value, None when the client sent none; of several the first."""

    def time_left_ms(self) -> int | None:
        """Return what is left of the client's deadline, None when it has none."""

    @property
    def peer(self) -> str:
        """The client's address as gRPC writes it: "ipv4:127.0.0.1:4711"."""

    @property
    def peer_host(self) -> bytes:
        """The client's address, packed as records keep it."""


@lru_cache(maxsize=4096)
def host_from_peer(peer: str) -> bytes:
    """Return the packed address of a peer text, `NO_HOST` when it holds none."""
    scheme, _, address = peer.partition(":")
    if scheme not in ("ipv4", "ipv6"):
        return NO_HOST
    try:
        return host_from_text(unquote(address))
    except ValueError:
        return NO_HOST
