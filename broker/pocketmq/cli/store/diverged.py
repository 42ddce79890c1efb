"""`pocketmq store diverged`: prints the messages that only this store has."""

from itertools import chain, islice

import click

from pocketmq.cli.documents import FOUND_COLUMNS, message_document
from pocketmq.cli.options import examples, form_option
from pocketmq.cli.output import Exit, Failure, Output
from pocketmq.cli.store.access import Given, given_options
from pocketmq.cli.vocabulary import limit_option


@click.command(
    epilog=examples(
        "pocketmq store diverged ./store --count",
        "pocketmq store diverged ./store --topic 'orders*' --limit 20",
        "pocketmq store diverged ./store --topic orders -o jsonl > lost.jsonl",
        "pocketmq produce orders --jsonl --file lost.jsonl        to send them again",
    )
)
@click.option("--topic", "topics", multiple=True, metavar="PATTERN",
              help="A topic, or a pattern with * and ?; may be repeated.")  # fmt: skip
@click.option(
    "--system", is_flag=True,
    help="Include the broker's own topics: delayed messages, and undecided transactions.",
)  # fmt: skip
@click.option("--count", "is_count", is_flag=True, help="Print the number of messages.")
@limit_option("Stop after this many messages.", "-n")
@given_options
@form_option
def diverged(
    given: Given,
    topics: tuple[str, ...],
    system: bool,
    is_count: bool,
    count_max: int | None,
    out: Output,
) -> None:
    """Print the messages that only this store has, since another broker was promoted.

    They are in the bytes that a follower set aside in pocketmq/diverged, and behind the fence of a
    former leader. After `pocketmq replica resync` these are the whole former log: the leader has
    most of these messages. The exit code is 3 if there are none.
    """
    from pocketmq.tools.diverged import diverged_messages
    from pocketmq.tools.selection import Selection

    _, directory, sizes = given.opened(with_index=False)
    selection = Selection(topics, with_system=system)
    try:
        found = diverged_messages(directory, sizes.commit_log_file_size_bytes, selection)
    except ValueError as error:
        raise Failure(str(error), Exit.DAMAGED) from error
    hits = map(message_document, islice(found, count_max))
    first = list(islice(hits, 1))
    if is_count:
        out.show({"messages": len(first) + sum(1 for _ in hits)})
    else:
        out.stream(chain(first, hits), FOUND_COLUMNS)
    if not first:
        raise Failure("no message is only here", Exit.NOT_FOUND)
