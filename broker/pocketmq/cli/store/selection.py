"""Options that select messages of a store."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from pocketmq.cli.options import (
    MOMENT,
    ReadBy,
    directory_argument,
    read_only_option,
    set_option,
    takes,
)
from pocketmq.cli.output import progress, typed
from pocketmq.cli.store.access import Given, known_end, show_damage
from pocketmq.cli.vocabulary import option

if TYPE_CHECKING:
    from pocketmq.files.disk import Disk
    from pocketmq.rebuild.log_files import KnownShape, LogFile
    from pocketmq.tools.selection import LogSearch


FILTERS: Final = {
    "topics": "--topic", "queue_ids": "--queue", "begin_ms": "--since", "end_ms": "--until",
    "begin": "--from", "upto": "--upto", "key": "--key", "tag": "--tag",
    "properties": "--property",
}  # fmt: skip
"""Options that select messages, by the field of a Selection."""


@dataclass(frozen=True, slots=True)
class Chosen(Given):
    """Values of `selection_options`; `wanted` are fields of a Selection."""

    no_crc: bool
    wanted: dict[str, Any]

    def given_filters(self) -> list[str]:
        """Returns the options that select messages and were given."""
        given = {name: self.wanted.get(name) for name in FILTERS}
        given["begin"] = given["begin"] or None
        return [
            FILTERS[name] for name, value in given.items() if value not in (None, (), frozenset())
        ]


def _chosen(
    *, directory: Path, read_only: bool, assignments: tuple[str, ...], no_crc: bool, **wanted: Any
) -> Chosen:
    given = {name: value for name, value in wanted.items() if value is not None}
    return Chosen(directory, read_only, assignments, no_crc, given)


def _property_from_text(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not name or not value:
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return name, value


selection_options = takes(
    "chosen",
    _chosen,
    directory_argument,
    click.option(
        "--topic", "topics", multiple=True, metavar="PATTERN",
        help="A topic, or a pattern with * and ?; may be repeated.",
    ),
    option(
        "--queue", "queue_ids", multiple=True, metavar="N", type=click.IntRange(min=0),
        aliases=("--queue-id",),
        callback=lambda ctx, param, ids: frozenset(ids),
        help="A queue of these topics; may be repeated.",
    ),
    click.option("--since", "begin_ms", type=MOMENT, help="Stored at this time or later."),
    click.option("--until", "end_ms", type=MOMENT, help="Stored before this time."),
    click.option(
        "--from", "begin", type=click.IntRange(min=0), default=0,
        help="At this physical offset or after it.",
    ),
    click.option("--upto", type=click.IntRange(min=0), help="Below this physical offset."),
    click.option(
        "--key",
        help="With this key or message id. Of an offset message id the last 16 digits, read as "
        "hexadecimal, are the offset for --from.",
    ),
    click.option("--tag", help="With this tag."),
    click.option(
        "--property", "properties", multiple=True, metavar="NAME=VALUE",
        type=ReadBy("NAME=VALUE", _property_from_text),
        help="With this property; may be repeated.",
    ),
    click.option(
        "--no-crc", is_flag=True, help="Do not check the CRCs of records: up to twice as fast."
    ),
    read_only_option,
    set_option,
)  # fmt: skip
"""Adds DIR and the options that select messages, passed as `chosen`."""


class Searched(NamedTuple):
    """A store's log, and the search through it."""

    disk: "Disk"
    sizes: "KnownShape"
    files: "Sequence[LogFile]"
    search: "LogSearch"


@contextmanager
def searched(chosen: Chosen, label: str, *, with_system: bool = True) -> Iterator[Searched]:
    """Opens a store's log to search it; at the end reports damage, with exit code 10.

    In a store that is in use, only flushed records are searched, or all records that exist now if
    the flushed offset is unknown.
    """
    from pocketmq.rebuild.log_files import find_readable_files, records_end
    from pocketmq.tools.selection import LogSearch, Selection

    disk, directory, sizes = chosen.opened(with_index=False)
    files, gaps = find_readable_files(directory, sizes.commit_log_file_size_bytes)
    wanted = chosen.wanted | {"with_system": with_system}
    settled = known_end(disk, directory, "searched", otherwise=lambda: records_end(files))
    if settled is not None:
        wanted["upto"] = min(settled, wanted.get("upto", settled))
    selection = Selection(**wanted)
    with progress(label, sum(file.size for file in files)) as advance:
        search = LogSearch(
            files, selection, check_crc=not chosen.no_crc, advance=advance, gaps=gaps
        )
        yield Searched(disk, sizes, files, search)
    show_damage(search, f"pocketmq store verify {typed(directory)}")
