"""The put-lock: one writer at a time; who finds it held for too long is refused."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from pocketmq.model.errors import StoreBusy
from pocketmq.store.write.put_lock import PutLock


def test_writers_come_one_after_the_other() -> None:
    lock = PutLock(busy_timeout_ms=60_000)
    order: list[str] = []
    asked = Event()

    def write() -> None:
        asked.set()
        with lock:
            order.append("second")

    with ThreadPoolExecutor(1) as pool:
        with lock:
            job = pool.submit(write)
            asked.wait()
            order.append("first")
        job.result()
    assert order == ["first", "second"]


def test_a_lock_held_too_long_refuses_the_next_writer() -> None:
    lock = PutLock(busy_timeout_ms=0)
    with lock, pytest.raises(StoreBusy) as caught:
        lock.__enter__()
    assert caught.value.limit_ms == 0
    assert caught.value.retryable
    with lock:
        pass


def test_a_writer_that_fails_gives_the_lock_back() -> None:
    lock = PutLock(busy_timeout_ms=0)
    with pytest.raises(ZeroDivisionError), lock:
        1 / 0  # noqa: B018
    with lock:
        pass


def test_waits_and_holds_are_counted() -> None:
    lock = PutLock(busy_timeout_ms=0)
    for _ in range(3):
        with lock:
            pass
    assert sum(lock.wait_seconds.counts) == 3
    assert sum(lock.hold_seconds.counts) == 3
    with lock, pytest.raises(StoreBusy):
        lock.__enter__()
    assert sum(lock.wait_seconds.counts) == 4


def test_a_long_hold_is_told() -> None:
    told: list[int] = []
    with PutLock(busy_timeout_ms=1_000, tell_long=told.append):
        pass
    assert not told
    with PutLock(busy_timeout_ms=1_000, tell_long=told.append, long_seconds=-1.0):
        pass
    assert len(told) == 1
