"""Visitors of the console: users with a session, and callers without one.

A session has a client that signs its calls, so that the broker decides what the user may do. Its
secret is only in memory. A caller without a session gets an unsigned client, which all such callers
share; a broker that checks users refuses its calls.
"""

import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_bytes, token_urlsafe
from typing import Any, Final, Generic, TypeVar

IDLE_S: Final = 30 * 60
"""Time after a session's last request at which the session ends."""
SESSIONS_MAX: Final = 500
"""Upper limit of sessions; a further one replaces the session idle for longest."""
ID_SIZE: Final = 32

Source = TypeVar("Source")


@dataclass
class Visitor(Generic[Source]):
    """A caller: the source of its data, and its memory between two requests.

    number      session id, which its cookie contains; "" before the first answer
    token       proves that a page of this console made a form
    access_key  the user; "" for a caller without a session
    memory      values that pages keep, such as earlier rates
    """

    source: Source
    number: str = ""
    token: str = ""
    access_key: str = ""
    seen_s: float = 0.0
    memory: dict[str, Any] = field(default_factory=dict)


class Visitors(Generic[Source]):
    """All sessions.

    make     (access key, secret) -> source of data; ("", "") for callers without a session
    """

    def __init__(
        self, make: Callable[[str, str], Source], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._make = make
        self._clock = clock
        self._key = token_bytes(ID_SIZE)
        self._sessions: dict[str, Visitor[Source]] = {}
        self._shared: Visitor[Source] | None = None
        self.ended: list[Source] = []
        """Sources of ended sessions, which the caller closes and removes."""

    def visitor(self, number: str) -> Visitor[Source]:
        """Returns the visitor of a session id; for an unknown id, one without a session."""
        now_s = self._clock()
        found = self._sessions.pop(number, None)
        if found is not None and now_s - found.seen_s < IDLE_S:
            found.seen_s = now_s
            self._sessions[number] = found  # now the last one
            return found
        if found is not None:
            self.ended.append(found.source)
        if self._shared is None:
            self._shared = Visitor(self._make("", ""))
        number = number if len(number) >= ID_SIZE else token_urlsafe(ID_SIZE)
        return Visitor(self._shared.source, number, self._token(number), memory=self._shared.memory)

    def enter(self, access_key: str, source: Source) -> Visitor[Source]:
        """Begins a session under a new id."""
        now_s = self._clock()
        for old, one in [*self._sessions.items()]:  # the one idle for longest first
            if now_s - one.seen_s < IDLE_S and len(self._sessions) < SESSIONS_MAX:
                break
            self.leave(old)
        number = token_urlsafe(ID_SIZE)
        visitor = Visitor(source, number, self._token(number), access_key, now_s)
        self._sessions[number] = visitor
        assert len(self._sessions) <= SESSIONS_MAX, "too many sessions"
        return visitor

    def leave(self, number: str) -> None:
        """Ends a session."""
        found = self._sessions.pop(number, None)
        if found is not None:
            self.ended.append(found.source)

    @property
    def sources(self) -> list[Source]:
        """All sources in use."""
        shared = [] if self._shared is None else [self._shared.source]
        return [*shared, *(one.source for one in self._sessions.values())]

    def source(self, access_key: str, secret: str) -> Source:
        """Returns a new source for a user who wants to log in."""
        return self._make(access_key, secret)

    def _token(self, number: str) -> str:
        return hmac.new(self._key, number.encode(), sha256).hexdigest()
