"""What an operator, or a client that may try again, reads when a disk or a moment is at fault."""

import pytest

from broker.model import errors
from broker.model.errors import BrokerError, Code, StorageError, StoreFailed, Unavailable

TROUBLES: list[tuple[BrokerError, type[BrokerError], str]] = [
    (
        errors.NotAccepting(accept_from_ms=1_700_000_000_000),
        Unavailable,
        "sends are accepted from 1700000000000 (epoch ms) on",
    ),
    (
        errors.BrokerReadOnly(why="brokerPermission is 4"),
        Unavailable,
        "the broker takes no messages: brokerPermission is 4",
    ),
    (
        errors.StoreBusy(held_ms=1_200, limit_ms=1_000),
        Unavailable,
        "a write has held the store for 1200 ms (limit 1000); try again",
    ),
    (
        errors.TooManyRequests(field="send", limit=256),
        Unavailable,
        "256 requests of class send are in progress; try again",
    ),
    (
        errors.Draining(),
        Unavailable,
        "the broker is stopping; try again elsewhere or later",
    ),
    (
        errors.DiskFull(path="/store"),
        Unavailable,
        "the disk under /store is full; free space, sends resume by themselves",
    ),
    (
        errors.Corruption(path="/s/f", file_position=3, physical_offset=1027, why="bad magic"),
        StorageError,
        "/s/f is damaged at byte 3 (physical offset 1027): bad magic",
    ),
    (
        errors.StoreLocked(path="/store"),
        StorageError,
        "/store is in use by another process; stop it or use another directory",
    ),
    (
        errors.NotAStore(path="/home", why="it holds other files"),
        StorageError,
        "/home is not a store: it holds other files; name an empty or a store directory",
    ),
    (
        errors.StoreTooNew(path="/store", found=2, known=1),
        StorageError,
        "/store has format version 2, this broker knows up to 1; use a later one",
    ),
    (
        errors.StoreGap(path="/s/2048", expected=1024, found=2048),
        StorageError,
        (
            "/s/2048 starts at 2048, expected 1024: a file is missing before it; "
            "bring it back from a copy"
        ),
    ),
    (
        errors.WrongFileSize(path="/s/0", expected_bytes=1024, found_bytes=1000, key_names="size"),
        StorageError,
        "/s/0 has 1000 bytes, expected 1024; set size as the writer had it, or restore the file",
    ),
    (
        errors.UnknownGeometry(path="/s/index", why="two sizes fit", key_names="maxIndexNum"),
        StorageError,
        "/s/index: two sizes fit; set maxIndexNum",
    ),
    (
        errors.IllegalConfig(field="flush", why="sync or async"),
        StorageError,
        "setting flush: sync or async",
    ),
    (
        errors.ViewFailed(path="/s/q", tries=30, why="EIO"),
        StorageError,
        "/s/q could not be written after 30 tries: EIO",
    ),
    (
        errors.StoreFailed(why="EIO"),
        StorageError,
        "the store has stopped: EIO",
    ),
    (
        errors.FsyncFailed(why="EIO"),
        StoreFailed,
        "the disk refused to keep written bytes (EIO); the broker ends",
    ),
    (
        errors.AllocationFailed(why="EPERM"),
        StoreFailed,
        "a file could not be made (EPERM); the broker ends",
    ),
    (
        errors.WriteFailed(why="EROFS"),
        StoreFailed,
        "the disk could not be written to (EROFS)",
    ),
    (
        errors.ReadFailed(path="/s/0", why="EIO"),
        StorageError,
        "/s/0 cannot be read (EIO); look at the disk",
    ),
]


@pytest.mark.parametrize(
    ("error", "family", "text"), TROUBLES, ids=lambda value: type(value).__name__
)
def test_an_error_tells_what_happened_and_what_helps(
    error: BrokerError, family: type[BrokerError], text: str
) -> None:
    assert str(error) == text
    assert type(error).__bases__[0] is family


def test_a_moment_passes_and_a_damage_does_not() -> None:
    retryable = {type(error).__name__ for error, _, _ in TROUBLES if error.retryable}
    assert retryable == {"NotAccepting", "StoreBusy", "TooManyRequests", "Draining", "DiskFull"}


def test_a_broker_that_takes_nothing_is_not_worth_a_retry() -> None:
    assert not errors.BrokerReadOnly(why="it is so").retryable
    assert errors.BrokerReadOnly.code is Code.FORBIDDEN


def test_a_crowd_is_told_to_slow_down() -> None:
    assert errors.StoreBusy.code is Code.TOO_MANY_REQUESTS
    assert errors.TooManyRequests.code is Code.TOO_MANY_REQUESTS


@pytest.mark.parametrize("kind", [errors.FsyncFailed, errors.AllocationFailed])
def test_what_ends_the_process_is_never_retried(kind: type[StoreFailed]) -> None:
    assert issubclass(kind, StorageError)
    assert not kind.retryable


def test_what_ends_the_store_is_told_as_it_is() -> None:
    lost = errors.FsyncFailed(why="EIO")
    assert StoreFailed.by(lost) is lost
    other = StoreFailed.by(KeyError("orders"))
    assert (type(other), other.why) == (StoreFailed, "'orders'")
