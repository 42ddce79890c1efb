"""Who a client is: an access key and its secret, by which it signs each call."""

import time
from typing import NamedTuple

from pocketmq.format.signature import AUTHORIZATION_KEY, DATE_KEY, authorization_of, date_from_ms

Pairs = tuple[tuple[str, str], ...]
"""Metadata of a call."""


class Credentials(NamedTuple):
    """An access key and its secret, as `pocketmq user add` makes them; "" for nobody's."""

    access_key: str = ""
    secret_key: str = ""

    def __repr__(self) -> str:
        """Returns what may be shown: not the secret."""
        return f"Credentials({self.access_key!r})"

    def signed(self, now_ms: int) -> Pairs:
        """Returns what a call carries that is made now; nothing where it is nobody's."""
        if not self.access_key:
            return ()
        date = date_from_ms(now_ms)
        authorization = authorization_of(self.access_key, self.secret_key, date)
        return ((DATE_KEY, date), (AUTHORIZATION_KEY, authorization))


NOBODY = Credentials()


def now_ms() -> int:
    """Returns the time now."""
    return time.time_ns() // 1_000_000
