"""Which messages of a store a command is about."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import click

from broker.cli.options import MOMENT, directory_argument, read_only_option, set_option, takes
from broker.cli.output import progress
from broker.cli.store.access import Given, known_end, show_damage

if TYPE_CHECKING:
    from broker.files.disk import Disk
    from broker.rebuild.log_files import KnownShape, LogFile
    from broker.tools.selection import LogSearch, Selection


@dataclass(frozen=True, slots=True)
class Chosen(Given):
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

    def selection(self, upto: int | None, *, with_system: bool) -> "Selection":
        """Return what was chosen as the search wants it."""
        from broker.model.message import OFFSET_MAX
        from broker.tools.selection import TIME_MAX, TIME_MIN, Selection

        return Selection(
            topics=self.topics,
            queue_ids=frozenset(self.queue_ids),
            begin_ms=TIME_MIN if self.since is None else self.since,
            end_ms=TIME_MAX if self.until is None else self.until,
            begin=self.begin,
            upto=OFFSET_MAX if upto is None else upto,
            key=self.key,
            tag=self.tag,
            properties=self.properties,
            with_system=with_system,
        )


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


selection_options = takes(
    "chosen",
    Chosen,
    directory_argument,
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
"""Gives a command DIR and the options that choose messages, as `chosen`."""


class Searched(NamedTuple):
    """A store's log, about to be searched."""

    disk: "Disk"
    sizes: "KnownShape"
    files: "Sequence[LogFile]"
    search: "LogSearch"


@contextmanager
def searched(chosen: Chosen, label: str, *, with_system: bool = True) -> Iterator[Searched]:
    """Open a store's log for what was chosen; in the end damage is told, with exit code 10.

    Of a store that is in use, records are looked at that are known to be flushed, or that are there
    now.
    """
    from broker.rebuild.log_files import find_log_files, records_end
    from broker.tools.selection import LogSearch

    disk, directory, sizes = chosen.opened(with_index=False)
    files = find_log_files(directory, sizes.commit_log_file_size_bytes)
    settled = known_end(disk, directory, "looked at", otherwise=lambda: records_end(files))
    ends = [end for end in (chosen.upto, settled) if end is not None]
    selection = chosen.selection(min(ends, default=None), with_system=with_system)
    with progress(label, sum(file.size for file in files)) as advance:
        search = LogSearch(files, selection, check_crc=not chosen.no_crc, advance=advance)
        yield Searched(disk, sizes, files, search)
    show_damage(search, f"pocketmq store verify {directory}")
