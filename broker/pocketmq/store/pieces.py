"""Long lists in pieces, between which the event loop serves others."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeVar

PIECE: Final = 500
"""Number of items for which little is done: one or two lookups each, 1 ms in all."""

Item = TypeVar("Item")


async def in_pieces(items: Sequence[Item], count: int = PIECE) -> AsyncIterator[Sequence[Item]]:
    """Yields the parts of a list that does not change meanwhile, with a pause between two parts."""
    for begin in range(0, len(items), count):
        if begin:
            await asyncio.sleep(0)
        yield items[begin : begin + count]
