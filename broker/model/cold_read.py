"""Bytes that are not in memory: whoever asked fetches them off the event loop and asks again."""

from collections.abc import Callable


class ColdRead(Exception):
    """A read that would have to wait for the disk; nothing was done.

    fetch   brings the bytes into memory; blocks, so it is called in a thread
    """

    def __init__(self, fetch: Callable[[], None]) -> None:
        super().__init__("a read would wait for the disk")
        self.fetch = fetch
