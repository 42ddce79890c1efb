"""What `store dump` prints besides messages: units, entries of the index, what waits."""

from typing import Final

from broker.cli.output import Output, at, columns
from broker.cli.store.access import Opened

UNIT_COLUMNS: Final = columns(
    "queue_offset", "physical_offset", "size",
    "tags_code",
)  # fmt: skip
INDEX_COLUMNS: Final = columns(
    "file", "number", "slot", "key_hash", "physical_offset",
    "previous",
)  # fmt: skip
HALF_COLUMNS: Final = columns(
    at("store_timestamp_ms"), "queue_id", "queue_offset", "producer_group", "topic", "message_id",
    "check_times",
)  # fmt: skip

PENDING_COLUMNS: Final = columns(
    at("due_timestamp_ms"), "kind", "topic", "queue_id", "message_id", "queue_offset",
    "physical_offset",
)  # fmt: skip


def print_units(store: Opened, queue: tuple[str, int], out: Output) -> None:
    """Print the units of a queue."""
    from broker.tools.dump import queue_units

    out.stream((unit._asdict() for unit in queue_units(*store, *queue)), UNIT_COLUMNS)


def print_index(store: Opened, out: Output) -> None:
    """Print the entries of all index files."""
    from broker.tools.dump import index_rows

    out.stream((row._asdict() for row in index_rows(*store)), INDEX_COLUMNS)


def print_halves(store: Opened, out: Output) -> None:
    """Print the half messages that wait for a decision."""
    from broker.tools.waiting.halves import open_halves

    out.stream((half._asdict() for half in open_halves(*store)), HALF_COLUMNS)


def print_pending(store: Opened, out: Output) -> None:
    """Print what waits for its time."""
    from broker.tools.waiting.pending import pending_messages

    out.stream((found._asdict() for found in pending_messages(*store)), PENDING_COLUMNS)
