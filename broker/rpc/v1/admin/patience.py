"""Reading old bytes in the midst of a method: fetched off the event loop, then asked for again.

`service.patient_handler` does the same for a handler as a whole; a method that reads many queues
asks for each by itself, and one that changes something first reads all it needs.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from broker.model.cold_read import ColdRead
from broker.model.errors import DiskSlow
from broker.rpc.service import COLD_READS_MAX

Found = TypeVar("Found")


async def read_patiently(read: Callable[[], Found]) -> Found:
    """Return what a read returns, however often the disk has to be asked for it.

    Errors   those of the read; DiskSlow: memory drops the bytes as fast as they come
    """
    for _ in range(COLD_READS_MAX):
        try:
            return read()
        except ColdRead as cold:
            fetch = cold.fetch
        await asyncio.to_thread(fetch)
    raise DiskSlow(tries=COLD_READS_MAX)
