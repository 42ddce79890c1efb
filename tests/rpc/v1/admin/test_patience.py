"""Cold bytes are fetched in a thread and asked for again, but not for ever."""

import threading

import pytest

from broker.model.cold_read import ColdRead
from broker.model.errors import DiskSlow
from broker.rpc.service import COLD_READS_MAX
from broker.rpc.v1.admin.patience import read_patiently


class ColdNumber:
    """A number behind a few cold reads."""

    def __init__(self, cold_count: int) -> None:
        self.left = cold_count
        self.threads: list[str] = []

    def fetch(self) -> None:
        """Bring it nearer."""
        self.left -= 1
        self.threads.append(threading.current_thread().name)

    def read(self) -> int:
        """Return it once it is there."""
        if self.left:
            raise ColdRead(self.fetch)
        return 42


async def test_what_is_there_needs_no_thread() -> None:
    number = ColdNumber(0)
    assert await read_patiently(number.read) == 42
    assert number.threads == []


async def test_what_is_cold_is_fetched_off_the_loop() -> None:
    number = ColdNumber(3)
    assert await read_patiently(number.read) == 42
    assert len(number.threads) == 3
    assert threading.current_thread().name not in number.threads


async def test_patience_ends() -> None:
    number = ColdNumber(COLD_READS_MAX + 1)
    with pytest.raises(DiskSlow):
        await read_patiently(number.read)


async def test_other_errors_pass() -> None:
    def fail() -> None:
        raise ValueError

    with pytest.raises(ValueError):
        await read_patiently(fail)
