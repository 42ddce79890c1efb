"""Public texts of errors, the same for all protocol versions."""

from typing import Final

from pocketmq.model import errors
from pocketmq.model.errors import BrokerError

TEXT_SIZE_MAX: Final = 1_000
"""Bytes of a text: a header contains it, percent-encoded."""


def public_text(error: BrokerError) -> str:
    """Returns the text of an error, without the parts for the operator only."""
    if isinstance(error, errors.DiskFull):
        return "the broker's disk is full; sends resume by themselves once there is room"
    if isinstance(error, errors.StoreDamaged):
        return "the broker's store is damaged: what is sound is served, no message is taken"
    if isinstance(error, errors.StorageError):
        return f"the store cannot serve this ({error.reason}); the broker's log tells more"
    return cut(str(error), TEXT_SIZE_MAX)


def cut(text: str, size_max: int) -> str:
    """Returns a text of at most so many bytes, and a mark where it was longer."""
    encoded = text.encode("utf-8", "replace")
    return text if len(encoded) <= size_max else encoded[:size_max].decode("utf-8", "ignore") + "…"
