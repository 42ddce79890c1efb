"""Credentials of a client: an access key, and a secret that signs the calls."""

import time
from typing import NamedTuple

from pocketmq.format.signature import AUTHORIZATION_KEY, DATE_KEY, authorization_of, date_from_ms

Pairs = tuple[tuple[str, str], ...]
"""Metadata of a call."""


class Credentials(NamedTuple):
    """An access key and its secret (see `pocketmq user add`); "" for unsigned calls."""

    access_key: str = ""
    secret_key: str = ""

    def __repr__(self) -> str:
        """Returns a text for logs, without the secret."""
        return f"Credentials({self.access_key!r})"

    def signed(self, now_ms: int) -> Pairs:
        """Returns the signature metadata of a call made now; empty without an access key."""
        if not self.access_key:
            return ()
        date = date_from_ms(now_ms)
        authorization = authorization_of(self.access_key, self.secret_key, date)
        return ((DATE_KEY, date), (AUTHORIZATION_KEY, authorization))


NOBODY = Credentials()


def now_ms() -> int:
    """Returns the wall time in ms since 1970."""
    return time.time_ns() // 1_000_000
