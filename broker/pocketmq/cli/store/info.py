"""`pocketmq store info`: describes a store."""

import click

from pocketmq.cli.documents import Document
from pocketmq.cli.options import examples, form_option
from pocketmq.cli.output import Exit, Failure, Output, talk, typed
from pocketmq.cli.store.access import Given, given_options


@click.command(epilog=examples("pocketmq store info ./store"))
@given_options
@form_option
def info(given: Given, out: Output) -> None:
    """Describe a store: files and sizes, its last message, how it was stopped.

    If files of the log are missing or cut short, the rest is described, and the exit code is 10.
    A missing first or last file is noticed if PocketMQ wrote the store last. Queues whose files
    have a wrong length are listed in damaged_queues, and their messages are not counted.
    """
    from pocketmq.tools.inspect import describe

    found = describe(*given.opened(with_index=True))
    out.show(_summary(found) if out.form == "table" else found)
    missing, damaged = found["commit_log"]["missing"], found["consume_queues"]["damaged_queues"]
    for gap in missing:
        talk(f"Damage: {gap['path']} at {gap['begin']}: {gap['reason']}")
    for queue in damaged:
        talk(f"Damage: the files of queue {queue} are missing, or have a wrong length")
    if damaged and not missing:
        text = f"damaged queues: {len(damaged)}; no message is lost by it"
        raise Failure(text, Exit.DAMAGED, f"pocketmq store repair {typed(given.directory)}")
    if missing:
        text = f"the log lacks parts: {len(missing)}"
        raise Failure(text, Exit.DAMAGED, f"pocketmq store verify {typed(given.directory)}")


def _summary(found: Document) -> Document:
    """Returns the description of a store in a few lines."""
    log, queues, index = found["commit_log"], found["consume_queues"], found["index"]
    entries = sum(file["entries"] for file in index["files"])
    mark = found["flushed_mark"]
    return {
        "directory": found["directory"],
        "in_use": found["in_use"],
        "left_in_order": found["left_in_order"],
        "commit_log": (
            f"{log['files']} files of {log['file_size_bytes']} bytes, "
            f"{log['min_offset']} to {log['end_offset']}"
        ),
        "flushed_mark": "unknown" if mark is None else f"to {mark}",
        "consume_queues": f"{len(queues['queues'])} with {queues['messages']} messages",
        "damaged_queues": queues["damaged_queues"],
        "index": (
            f"{len(index['files'])} files with {entries} entries "
            f"({index['slot_count']} slots, {index['entry_count_max']} entries each)"
        ),
        "topics": found["topics"],
    }
