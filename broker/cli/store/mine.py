"""`pocketmq store grep` and `stats`: what lies in the messages of a store."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from broker.cli.documents import Document, message_document
from broker.cli.failures import EXIT_FAILED, EXIT_NOT_FOUND, Failure
from broker.cli.message import COLUMNS
from broker.cli.options import directory_argument, output_option, read_only_option, set_option
from broker.cli.output import chosen_format, column, moment, print_document, talk
from broker.cli.parameters import MOMENT
from broker.cli.progress import progress
from broker.cli.settings import sizes_of
from broker.cli.store.options import accessible, print_rows, tell_damage

if TYPE_CHECKING:
    from broker.files.disk import Disk
    from broker.rebuild.log_files import LogFile
    from broker.tools.grep import Grep
    from broker.tools.selection import LogSearch, Selection
    from broker.tools.statistics import Statistics
    from broker.tools.store_access import Sizes

PLACES: Final = ("body", "key", "tag", "property", "any")
LAG: Final = "group"
LABELS: Final = {
    "topic": ("topic",),
    "queue": ("topic", "queue_id"),
    "tag": ("topic", "tag"),
    "key": ("topic", "key"),
    "host": ("born_host",),
    "hour": ("hour",),
    "day": ("day",),
    "size": ("from_bytes", "below_bytes"),
}
"""What messages are grouped by, and the fields that tell a group."""
AMOUNT_COLUMNS: Final = {
    "MESSAGES": column("messages"),
    "BYTES": column("bytes"),
    "BODIES": column("body_bytes"),
    "AVERAGE": column("body_bytes_average"),
    "LARGEST": column("body_bytes_max"),
    "COMPRESSED": column("compressed_ratio"),
    "KEYS": column("keys_per_message"),
    "FIRST": lambda row: moment(row["first_store_timestamp_ms"]),
    "LAST": lambda row: moment(row["last_store_timestamp_ms"]),
}
LARGEST_COLUMNS: Final = {
    "TOPIC": column("topic"),
    "QUEUE": column("queue_id"),
    "OFFSET": column("queue_offset"),
    "PHYSICAL OFFSET": column("physical_offset"),
    "BODY BYTES": column("body_bytes"),
}
LAG_COLUMNS: Final = {
    "GROUP": column("group"),
    "TOPIC": column("topic"),
    "QUEUE": column("queue_id"),
    "COMMITTED": column("committed_offset"),
    "END": column("end_offset"),
    "LAG": column("lag"),
}


# -- which messages --------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Chosen:
    """What the options of `selection_options` say."""

    topics: tuple[str, ...]
    queue_ids: tuple[int, ...]
    since: int | None
    until: int | None
    begin: int
    upto: int | None
    key: str | None
    tag: str | None
    properties: tuple[tuple[str, str], ...]
    no_crc: bool
    read_only: bool
    assignments: tuple[str, ...]


def _read_properties(
    ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    pairs = [text.partition("=") for text in texts]
    wrong = [
        text for text, (name, _, value) in zip(texts, pairs, strict=True) if not name or not value
    ]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is not NAME=VALUE")
    return tuple((name, value) for name, _, value in pairs)


_OPTIONS: Final = (
    click.option(
        "--topic", "topics", multiple=True, metavar="PATTERN",
        help="A topic, or a pattern with * and ?; may be repeated.",
    ),
    click.option(
        "--queue-id", "queue_ids", multiple=True, type=click.IntRange(min=0),
        help="A queue of these topics; may be repeated.",
    ),
    click.option("--since", type=MOMENT, help="Stored at this time or later."),
    click.option("--until", type=MOMENT, help="Stored before this time."),
    click.option(
        "--from", "begin", type=click.IntRange(min=0), default=0,
        help="At this physical offset or behind it.",
    ),
    click.option("--upto", type=click.IntRange(min=0), help="Below this physical offset."),
    click.option("--key", help="With this key or message id."),
    click.option("--tag", help="With this tag."),
    click.option(
        "--property", "properties", multiple=True, metavar="NAME=VALUE",
        callback=_read_properties, help="With this property; may be repeated.",
    ),
    click.option(
        "--no-crc", is_flag=True, help="Leave the CRCs of records alone: up to twice as fast."
    ),
    read_only_option,
    set_option,
)  # fmt: skip


def selection_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that choose messages; it gets them as `chosen`."""
    names = [field.name for field in fields(Chosen)]

    @wraps(command)
    def collected(**words: Any) -> None:
        chosen = Chosen(**{name: words.pop(name) for name in names})
        command(chosen=chosen, **words)

    for option in reversed(_OPTIONS):
        collected = option(collected)
    return collected


class Opened(NamedTuple):
    """A store's log, about to be searched."""

    disk: "Disk"
    sizes: "Sizes"
    files: "Sequence[LogFile]"
    search: "LogSearch"


@contextmanager
def opened(
    directory: Path, chosen: Chosen, label: str, *, with_system: bool = True
) -> Iterator[Opened]:
    """Open a store's log for what was chosen; in the end damage is told, with exit code 10.

    Of a store that is in use, records are looked at that are known to be flushed, or that are there
    now.
    """
    from broker.rebuild.log_files import find_log_files, records_end
    from broker.tools.selection import LogSearch
    from broker.tools.store_access import is_live
    from broker.tools.verify.tables import flushed_upto

    disk = accessible(directory, read_only=chosen.read_only)
    sizes = sizes_of(disk, directory, chosen.assignments, with_index=False)
    files = find_log_files(directory, sizes.commit_log_file_bytes)
    upto = chosen.upto
    if is_live(directory):
        flushed = flushed_upto(disk, directory)
        settled = records_end(files) if flushed is None else flushed
        upto = settled if upto is None else min(upto, settled)
        talk(f"The store is in use: records below {upto} are looked at")
    selection = selection_of(chosen, upto, with_system=with_system)
    with progress(label, sum(file.size for file in files)) as tell:
        search = LogSearch(files, selection, check_crc=not chosen.no_crc, tell=tell)
        yield Opened(disk, sizes, files, search)
    tell_damage(search, f"pocketmq store verify {directory}")


def selection_of(chosen: Chosen, upto: int | None, *, with_system: bool) -> "Selection":
    """Return what was chosen as the search wants it."""
    from broker.model.offsets import OFFSET_MAX
    from broker.tools.selection import TIME_MAX, TIME_MIN, Selection

    return Selection(
        topics=chosen.topics,
        queue_ids=frozenset(chosen.queue_ids),
        begin_ms=TIME_MIN if chosen.since is None else chosen.since,
        end_ms=TIME_MAX if chosen.until is None else chosen.until,
        begin=chosen.begin,
        upto=OFFSET_MAX if upto is None else upto,
        key=chosen.key,
        tag=chosen.tag,
        properties=chosen.properties,
        with_system=with_system,
    )


# -- grep ------------------------------------------------------------------------------------------
@click.command(
    epilog="""\b
Examples:
  pocketmq store grep 'order 4[0-9]+ refused' ./store --topic 'orders*'
  pocketmq store grep --in tag --ignore-case '^vip' ./store --since -2h -o jsonl
  pocketmq store grep timeout ./store --count
"""
)
@click.argument("pattern")
@directory_argument
@click.option("--ignore-case", "-i", is_flag=True, help="Upper and lower case are the same.")
@click.option(
    "--in", "place", type=click.Choice(PLACES), default="body", show_default=True,
    help="Where to look; a property is looked at as NAME=VALUE, a key may be the message id.",
)  # fmt: skip
@click.option("--count", "is_count", is_flag=True, help="Print how many messages there are.")
@click.option("-n", "--max", "count_max", type=click.IntRange(min=1), help="Stop after so many.")
@selection_options
@output_option
def grep(
    chosen: Chosen,
    pattern: str,
    directory: Path,
    ignore_case: bool,
    place: str,
    is_count: bool,
    count_max: int | None,
    output_format: str | None,
) -> None:
    """Print the messages of a store that a regular expression is found in.

    Bodies that are compressed are unfolded first; bodies are read as UTF-8. The exit code is 3 when
    there are none. Damaged records are passed over and told of; the exit code is then 10.
    """
    try:
        compiled = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        raise click.BadParameter(f"{pattern!r} is no regular expression: {error}") from error
    from broker.tools.grep import Grep

    with opened(directory, chosen, "Searching") as store:
        looking = Grep(compiled, place)
        if is_count:
            count = sum(1 for _ in islice(_hits(store.search, looking), count_max))
            print_document({"messages": count}, output_format)
        else:
            counter = _Counter(islice(_documents(store.search, looking), count_max))
            print_rows(counter, output_format, COLUMNS)
            count = counter.count
    if not count:
        raise Failure("no message was found", EXIT_NOT_FOUND)


class _Counter:
    """Hands rows on and counts them."""

    def __init__(self, rows: Iterator[Document]) -> None:
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[Document]:
        for row in self._rows:
            self.count += 1
            yield row


def _hits(search: "LogSearch", looking: "Grep") -> Iterator[int]:
    for picked in search:
        yield from looking.found_in(picked)


def _documents(search: "LogSearch", looking: "Grep") -> Iterator[Document]:
    for picked in search:
        for number in looking.found_in(picked):
            (message,) = picked.take(slice(number, number + 1)).messages()
            yield message_document(message)


# -- stats -----------------------------------------------------------------------------------------
@click.command(
    epilog="""\b
Examples:
  pocketmq store stats ./store
  pocketmq store stats ./store --by hour --topic orders
  pocketmq store stats ./store --by key --top 50 -o jsonl
  pocketmq store stats ./store --by group
"""
)
@directory_argument
@click.option("--by", type=click.Choice([*LABELS, LAG]), help="Group messages by this.")
@click.option(
    "--top", type=click.IntRange(min=1), default=20, show_default=True,
    help="Groups shown, largest first; hours, days and sizes are shown all.",
)  # fmt: skip
@selection_options
@output_option
def stats(
    chosen: Chosen, directory: Path, by: str | None, top: int, output_format: str | None
) -> None:
    """Count messages and bytes of a store, and how they are spread.

    Without --by: sums over everything, and the largest messages. Hours and days are UTC. By group:
    how far consumer groups are behind, by queue. Damaged records are passed over and told of; the
    exit code is then 10.
    """
    if by == LAG:
        _print_lags(directory, chosen, output_format)
        return
    from broker.tools.statistics import measure

    with opened(directory, chosen, "Counting") as store:
        found = measure(store.search, store.files, by=by, top=top)
        _print(found, by, output_format)


def _print(found: "Statistics", by: str | None, output_format: str | None) -> None:
    form = chosen_format(output_format)
    if form == "json":
        document: Document = {"summary": found.summary, "largest": found.largest}
        if by is not None:
            document |= {"by": by, "groups": found.group_count, "rows": found.rows}
            document |= {"is_rough": found.is_rough}
        print_document(document, form)
    elif by is None:
        print_document(_plain(found.summary) if form == "table" else found.summary, form)
        if form == "table" and found.largest:
            click.echo()
            print_rows(found.largest, form, LARGEST_COLUMNS)
    else:
        labels = {name.upper().replace("_", " "): column(name) for name in LABELS[by]}
        print_rows(found.rows, form, labels | AMOUNT_COLUMNS)
        _tell(found)


def _plain(summary: Document) -> Document:
    names = {"first_store_timestamp_ms": "first stored", "last_store_timestamp_ms": "last stored"}
    return {
        names.get(name, name.replace("_", " ")): moment(value or 0) if name in names else value
        for name, value in summary.items()
    }


def _tell(found: "Statistics") -> None:
    summary = found.summary
    talk(f"{summary['messages']} messages, {summary['bytes']} bytes; groups: {found.group_count}")
    if len(found.rows) < found.group_count:
        talk(f"Only the {len(found.rows)} largest groups are shown; --top shows more")
    if found.is_rough:
        talk("Note: there were more groups than fit in memory; numbers may be too small")


def _print_lags(directory: Path, chosen: Chosen, output_format: str | None) -> None:
    from broker.tools.lag import ends_in_log, group_lags, has_queues, queue_ends

    with opened(directory, chosen, "Counting") as store:
        if has_queues(store.disk, directory):
            ends = queue_ends(store.disk, directory, store.sizes)
        else:
            ends = ends_in_log(store.search)
        try:
            lags = group_lags(store.disk, directory, ends)
        except ValueError as error:
            raise Failure(f"consumerOffset.json cannot be read: {error}", EXIT_FAILED) from error
        wants = store.search.selection.wants_queue
        rows = [lag._asdict() for lag in lags if wants(lag.topic, lag.queue_id)]
        print_rows(rows, output_format, LAG_COLUMNS)
