"""Records that the disk damaged while their store was open."""

from pocketmq.store.message_store import MessageStore


def spoil(store: MessageStore, physical_offset: int) -> None:
    """Damages the record at a physical offset so that every reader rejects it."""
    (file,) = store.log.files_between(physical_offset, physical_offset + 1)
    file.open().write(physical_offset - file.base, b"\xff" * 8)
