"""Reads that are not done in one go: whoever asked lets the event loop turn, and asks again."""

from collections.abc import Callable


class ColdRead(Exception):
    """A read that would have to wait for the disk; nothing was done.

    fetch   brings the bytes into memory; blocks, so it is called in a thread
    """

    def __init__(self, fetch: Callable[[], None]) -> None:
        super().__init__("a read would wait for the disk")
        self.fetch = fetch


class LongChain(Exception):
    """A search that has not come to its end; nothing was found so far.

    cursor   where the next search goes on
    """

    def __init__(self, cursor: str) -> None:
        super().__init__("a search has more to look at")
        self.cursor = cursor
