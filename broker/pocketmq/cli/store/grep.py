"""`pocketmq store grep`: prints the messages of a store that match a pattern."""

import re
from itertools import chain, islice
from pathlib import Path
from typing import Final

import click

from pocketmq.cli.documents import FOUND_COLUMNS, message_document
from pocketmq.cli.options import examples, form_option
from pocketmq.cli.output import Exit, Failure, Output, typed
from pocketmq.cli.store.selection import Chosen, searched, selection_options
from pocketmq.cli.vocabulary import limit_option
from pocketmq.format.names import COMMIT_LOG_DIRECTORY

PLACES: Final = ("body", "key", "tag", "property", "any")


@click.command(
    epilog=examples(
        "pocketmq store grep 'order 4[0-9]+ refused' ./store --topic 'orders*'",
        "pocketmq store grep --in tag --ignore-case '^vip' ./store --since -2h -o jsonl",
        "pocketmq store grep timeout ./store --count",
    )
)
@click.argument("pattern")
@click.option("--ignore-case", "-i", is_flag=True, help="Ignore case.")
@click.option(
    "--in", "place", type=click.Choice(PLACES), default="body", show_default=True,
    help="Field to search; a property is searched as NAME=VALUE, a key may be the message id.",
)  # fmt: skip
@click.option("--count", "is_count", is_flag=True, help="Print the number of matching messages.")
@limit_option("Stop after this many matches.", "-n")
@selection_options
@form_option
def grep(
    chosen: Chosen,
    pattern: str,
    ignore_case: bool,
    place: str,
    is_count: bool,
    count_max: int | None,
    out: Output,
) -> None:
    """Print the messages of a store that match a regular expression.

    Bodies are decompressed, and searched as UTF-8. The exit code is 3 if no message
    matches. Damaged records are skipped and reported; the exit code is then 10.
    """
    if Path(pattern, COMMIT_LOG_DIRECTORY).is_dir() and not chosen.directory.exists():
        right = f"pocketmq store grep {typed(chosen.directory)} {typed(pattern)}"
        raise click.UsageError(f"the pattern is the first argument: {right}")
    try:
        compiled = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        raise click.BadParameter(f"{pattern!r} is not a regular expression: {error}") from error
    from pocketmq.tools.grep import matching

    counts: list[int] = []
    with searched(chosen, "Searching") as store:
        found = matching(store.search, compiled, place, counts.append)
        hits = map(message_document, islice(found, count_max))
        first = list(islice(hits, 1))
        if is_count:
            out.show({"messages": len(first) + sum(1 for _ in hits)})
        else:
            out.stream(chain(first, hits), FOUND_COLUMNS)
    if not first:
        raise _no_match(chosen.given_filters(), sum(counts), place)


def _no_match(filters: list[str], searched_count: int, place: str) -> Failure:
    """Returns the error of a search without a match; it names the filters if they left nothing."""
    if searched_count == 0 and filters:
        text = f"no message passed {', '.join(filters)}, so PATTERN was compared with none"
        return Failure(text, Exit.NOT_FOUND, f"leave out or widen {' or '.join(filters)}")
    other = "" if place == "any" else f"only {place} was searched; all fields: --in any"
    amount = "1 message" if searched_count == 1 else f"{searched_count} messages"
    return Failure(f"no message matches; {amount} searched", Exit.NOT_FOUND, other)
