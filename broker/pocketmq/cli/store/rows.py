"""Rows of `store dump` other than messages: units, index entries, pending messages."""

from typing import Final

from pocketmq.cli.output import Exit, Failure, Output, at, columns, talk, typed
from pocketmq.cli.store.access import OpenedStore

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

DUE_COLUMNS: Final = columns(
    at("first_due_timestamp_ms"), at("last_due_timestamp_ms"), "kind", "topic", "messages"
)
PRODUCER_COLUMNS: Final = columns(
    "producer_group", "topic", "messages", at("first_store_timestamp_ms"),
    at("last_store_timestamp_ms"),
)  # fmt: skip


def print_units(store: OpenedStore, queue: tuple[str, int], out: Output) -> None:
    """Prints the units of a queue."""
    from pocketmq.tools.dump import queue_units

    out.stream((unit._asdict() for unit in queue_units(*store, *queue)), UNIT_COLUMNS)


def print_index(store: OpenedStore, out: Output) -> None:
    """Prints the entries of all index files."""
    from pocketmq.tools.dump import index_rows

    out.stream((row._asdict() for row in index_rows(*store)), INDEX_COLUMNS)


def print_halves(store: OpenedStore, out: Output) -> None:
    """Prints undecided half messages."""
    from pocketmq.tools.pending.halves import open_halves

    out.stream((half._asdict() for half in open_halves(*store)), HALF_COLUMNS)


def print_pending(store: OpenedStore, out: Output) -> None:
    """Prints delayed messages."""
    from pocketmq.tools.pending.listing import pending_messages

    out.stream((found._asdict() for found in pending_messages(*store)), PENDING_COLUMNS)
    _refuse_flaws(store)


def _refuse_flaws(store: OpenedStore) -> None:
    """Prints damage of the timer's files; raises Failure, as the damage hides delayed messages."""
    from pocketmq.tools.pending.timer_files import read_timer_files
    from pocketmq.tools.store_access import is_live

    if is_live(store.directory):
        return  # A broker is writing the files.
    flaws = read_timer_files(store.disk, store.directory).flaws
    for flaw in flaws:
        talk(f"Damage: {flaw.path} at byte {flaw.position}: expected {flaw.expected}")
    if flaws:
        text = "the timer's files are damaged: delayed messages may be missing above"
        step = f"pocketmq store verify {typed(store.directory)}, which counts them"
        raise Failure(text, Exit.DAMAGED, step)


def print_due(store: OpenedStore, out: Output) -> None:
    """Prints the number of delayed messages by the hour in which they are due."""
    from pocketmq.tools.pending.counts import due_counts
    from pocketmq.tools.pending.listing import pending_messages

    out.stream(due_counts(pending_messages(*store)), DUE_COLUMNS)
    _refuse_flaws(store)


def print_producers(store: OpenedStore, out: Output) -> None:
    """Prints the number of undecided transactions by producer group."""
    from pocketmq.tools.pending.counts import half_counts
    from pocketmq.tools.pending.halves import open_halves

    out.stream(half_counts(open_halves(*store)), PRODUCER_COLUMNS)
