"""Public texts of errors, the same for all protocol versions."""

from typing import Final

from pocketmq.model import errors
from pocketmq.model.errors import BrokerError

TEXT_SIZE_MAX: Final = 1_000
"""Upper limit of bytes of an error text: it is sent percent-encoded in a header."""


def public_text(error: BrokerError) -> str:
    """Returns the text of an error, without details that only operators may see."""
    if isinstance(error, (errors.DiskAboveLimit, errors.DiskNearlyFull)):
        return str(error).replace(f"the disk under {error.path}", "the broker's disk", 1)
    if isinstance(error, errors.DiskFull):
        return "the broker's disk is full; sends and receives resume by themselves with free space"
    if isinstance(error, errors.StoreDamaged):
        return "the broker's store is damaged: intact messages are served, sends are refused"
    if isinstance(error, errors.StorageError):
        return f"the store cannot serve this ({error.reason}); the broker's log has details"
    return cut(str(error), TEXT_SIZE_MAX)


def cut(text: str, size_max: int) -> str:
    """Returns a text cut to `size_max` bytes, with "…" appended if it was longer."""
    encoded = text.encode("utf-8", "replace")
    return text if len(encoded) <= size_max else encoded[:size_max].decode("utf-8", "ignore") + "…"
