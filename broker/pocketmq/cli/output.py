"""Output of commands: data on standard output; notes, progress and errors on standard error.

-o table   columns; the default on a terminal
-o wide    more columns, and long cells in full
-o json    one document, or one array of all rows; the default elsewhere
-o yaml    the document or array as YAML
-o jsonl   one document a line, printed as soon as it is available
-o csv     the columns of wide below a line of field names; nested values are JSON texts

JSON and CSV show the name of a field unchanged. A table drops _ms or _bytes from the name of a
field whose cells have the unit. An error has a next step:

Error: topic 'orders' does not exist
Next:  pocketmq topic create orders
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from enum import IntEnum
from io import StringIO
from time import monotonic
from typing import Any, ClassVar, Final, NamedTuple, TextIO

import click

# -- text without terminal control characters --------------------------------------------------
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb"
    "\ufffe\uffff\ud800-\udfff]"
)
"""Unsafe characters: control characters other than line feed and tab; also direction marks, line
and paragraph separators, the byte order mark, annotation marks, two noncharacters, surrogates."""
STANDS_IN: Final = "\N{REPLACEMENT CHARACTER}"


def safe(text: str) -> str:
    """Replaces each unsafe character of a text by U+FFFD.

    Cost     0.4 µs for 100 characters
    """
    return _UNSAFE.sub(STANDS_IN, text)


def escaped(text: str) -> str:
    r"""Escapes the unsafe characters of a JSON or YAML text, as \u009b."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


# ----------------------------------------------------------------------------------------------
# -- YAML --------------------------------------------------------------------------------------
_PLAIN: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_OTHERWISE: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Words that YAML 1.1 or 1.2 does not parse as a string."""


def yaml_document(document: Any) -> str:
    """Returns a document as YAML; its last line has a line feed."""
    return "".join(f"{line}\n" for line in _lines(document))


def yaml_item(document: Any) -> str:
    """Returns a document as one item of a YAML list; joined items form a list."""
    return yaml_document([document])


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _member(f"{_scalar(str(name))}:", item)
    elif isinstance(value, list | tuple) and value:
        for item in value:
            first, *others = _lines(item)
            yield f"- {first}"
            yield from (f"  {line}" for line in others)
    else:
        yield _scalar(value)


def _member(name: str, value: Any) -> Iterator[str]:
    if not isinstance(value, Mapping | list | tuple) or not value:
        yield f"{name} {_scalar(value)}"
        return
    yield name
    indent = "  " if isinstance(value, Mapping) else ""
    yield from (f"{indent}{line}" for line in _lines(value))


def _scalar(value: Any) -> str:
    is_plain = isinstance(value, str) and _PLAIN.fullmatch(value)
    if is_plain and value.lower() not in _OTHERWISE:
        return str(value)
    return json_text(value)


# -- tables and rows ---------------------------------------------------------------------------
FORMATS: Final = ("table", "wide", "json", "jsonl", "yaml", "csv")
TABLES: Final = frozenset({"table", "wide"})
COLUMN_WIDTH_MAX: Final = 60
GAP: Final = "  "
WORDS: Final = {True: "yes", False: "no", None: ""}

FLUSH_COUNT: Final = 512
"""Rows between two flushes of standard output."""
REDRAW_SECONDS: Final = 0.1
BYTE_UNITS: Final = ("B", "kB", "MB", "GB", "TB")

LOOK_AT_STORE: Final = "on the broker's machine: pocketmq store verify {directory} --read-only"
"""Next step after a broker reported damage."""

Document = Mapping[str, Any]
Cell = Callable[[Document], Any]


UNIT_SUFFIXES: Final = ("_ms", "_bytes")
"""Ends of a field's name that a title drops where the cells have the unit."""


class Column(NamedTuple):
    """A field in a table.

    show   returns the printed text for a row; None: the field's value
    also   further fields of CSV
    """

    name: str
    show: Cell | None = None
    also: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Title of the column in a table."""
        name = self.name
        if self.show is not None and name.endswith(UNIT_SUFFIXES):
            name = name.rpartition("_")[0]
        return name.upper()

    def cell(self, row: Document) -> Any:
        """Returns the printed text of a cell."""
        return row.get(self.name, "") if self.show is None else self.show(row)


Columns = Sequence[Column]


class Exit(IntEnum):
    """Exit codes of a command that fails."""

    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    UNREACHABLE = 5
    TIMEOUT = 6
    DAMAGED = 10
    INTERRUPTED = 130


class Output:
    """Printer of one command; `form` is the value of -o, else table on a terminal, else json."""

    __slots__ = ("form",)

    def __init__(self, given: str | None) -> None:
        self.form = given or ("table" if sys.stdout.isatty() else "json")

    @property
    def is_table(self) -> bool:
        """Whether the output is a table for people."""
        return self.form in TABLES

    def show(self, document: Document) -> None:
        """Prints one document."""
        if self.form == "csv":
            _write_csv(document)
            _write_csv(document.values())
        elif self.is_table:
            width = max(map(len, document), default=0)
            for name, value in document.items():
                write(f"{name:<{width}}{GAP}{_plain(value)}\n")
        elif self.form == "yaml":
            write(yaml_document(document))
        else:
            write(json_text(document, indent=2 if self.form == "json" else None) + "\n")
        sys.stdout.flush()

    def rows(self, columns: Columns, more: Columns | None = None) -> "PrintedRows":
        """Returns a printer of rows as they come, to be used in a `with`."""
        return PrintedRows(self.form, columns, more)

    def table(
        self, documents: Iterable[Document], columns: Columns, more: Columns | None = None,
        *, none: str = "",
    ) -> None:  # fmt: skip
        """Prints all rows, with aligned columns.

        none   note for people if there are no rows
        """
        is_empty = True
        with self.rows(columns, more) as rows:
            for document in documents:
                rows.add(document)
                is_empty = False
        if none and is_empty and self.is_table:
            talk(none)

    def stream(self, documents: Iterable[Document], columns: Columns) -> None:
        """Prints rows of a large result, FLUSH_COUNT at a time."""
        with self.rows(columns) as rows:
            for number, document in enumerate(documents, 1):
                rows.add(document)
                if number % FLUSH_COUNT == 0:
                    rows.flush()


def typed(word: object) -> str:
    """Returns a path or a name as a shell reads it, for a command that a text shows."""
    from shlex import quote

    return quote(str(word))


def counted(count: int, noun: str) -> str:
    """Returns a number with its noun: 1 queue, 4 queues."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def talk(text: str) -> None:
    """Prints a note to standard error."""
    click.echo(safe(text), err=True)


def talk_notes(notes: Iterable[str]) -> None:
    """Prints notes to standard error, a line each."""
    for note in notes:
        talk(f"Note: {note}")


class Failure(click.ClickException):
    """An error of a command; `next_step` advises the user, "" if the text already does."""

    label: ClassVar[str] = "Error:"
    colour: ClassVar[str] = "red"

    def __init__(self, text: str, exit_code: int, next_step: str = "") -> None:
        super().__init__(text)
        self.exit_code = exit_code  # type: ignore[misc]
        self.next_step = next_step

    def show(self, file: TextIO | None = None) -> None:  # type: ignore[override]
        """Writes the error to standard error."""
        label = self.label if "NO_COLOR" in os.environ else click.style(self.label, fg=self.colour)
        # Colours are removed where standard error is no terminal.
        click.echo(f"{label} {safe(self.message)}", file=file, err=True)
        if self.next_step:
            click.echo(f"Next:  {safe(self.next_step)}", file=file, err=True)


class Planned(Failure):
    """The end of a command that only showed its plan, without --yes; it is printed as a plan."""

    label = "Plan: "
    colour = "yellow"


def only_planned(text: str, exit_code: int = Exit.REFUSED, option: str = "--yes") -> Planned:
    """Returns the end of a command that only showed its plan.

    text     what would be done
    option   makes the command do it
    """
    next_step = f"nothing was changed yet; add {option} to do it"
    return Planned(text, exit_code, next_step)


class PrintedRows:
    """Prints rows as they arrive; used in a `with`.

    columns   columns in every form
    more      further columns in wide and CSV
    """

    __slots__ = ("_columns", "_count", "_format", "_pending", "_widths")

    def __init__(self, form: str, columns: Columns, more: Columns | None = None) -> None:
        self._format = form
        is_wide = self._format in ("wide", "csv")
        self._columns = [*columns, *(more or ())] if is_wide else columns
        self._pending: list[list[str]] = []
        self._widths = [len(column.title) for column in self._columns]
        self._count = 0

    def __enter__(self) -> "PrintedRows":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            return  # Standard output is closed.
        if self._format == "json" and (self._count or error is None):
            write("\n]\n" if self._count else "[]\n")
        if self._format == "csv" and not self._count and error is None:
            _write_csv(self._fields())
        if self._format == "yaml" and not self._count and error is None:
            write(yaml_document([]))
        self.flush()

    def add(self, row: Document) -> None:
        """Prints a row; a table prints it with the next flush."""
        self._count += 1
        if self._format == "jsonl":
            write(json_text(row) + "\n")
        elif self._format == "json":
            write(("[\n" if self._count == 1 else ",\n") + json_text(row))
        elif self._format == "csv":
            if self._count == 1:
                _write_csv(self._fields())
            _write_csv(row.get(name) for name in self._fields())
        elif self._format == "yaml":
            write(yaml_item(row))
        else:
            width_max = COLUMN_WIDTH_MAX if self._format == "table" else None
            cells = (column.cell(row) for column in self._columns)
            self._pending.append([_cell(cell, width_max) for cell in cells])

    def flush(self) -> None:
        """Prints every row added so far."""
        if self._pending:
            self._print_table()
        sys.stdout.flush()

    def _fields(self) -> list[str]:
        return [name for column in self._columns for name in (column.name, *column.also)]

    def _print_table(self) -> None:
        is_first = self._count == len(self._pending)
        assert self._count >= len(self._pending)
        titles = [[column.title for column in self._columns]] if is_first else []
        rows = [*titles, *self._pending]
        self._pending = []
        self._widths = [
            max(width, *map(len, cells))
            for width, cells in zip(self._widths, zip(*rows, strict=True), strict=True)
        ]
        for row in rows:
            cells = [f"{cell:<{width}}" for cell, width in zip(row, self._widths, strict=True)]
            write(GAP.join(cells).rstrip() + "\n")


@contextmanager
def progress(
    label: str, total_bytes: int, *, clock: Callable[[], float] = monotonic
) -> Iterator[Callable[[int], None]]:
    """Draws a progress bar on a terminal; yields a function that adds finished bytes.

    Reading  [######################--------------]   61%  00:00:02  1.6 GB  640 MB/s

    It is not drawn if the terminal cannot redraw a line (TERM=dumb) or asks for plain text
    (NO_COLOR). If the terminal closes, the work continues without the bar.
    Units    clock: seconds
    Cost     0.1 µs a call, and a line on the terminal at most every REDRAW_SECONDS
    """
    if total_bytes <= 0 or not _can_redraw(sys.stderr):
        yield lambda byte_count: None
        return
    begun = clock()
    done, held, drawn = 0, 0, begun

    def rate(_: int | None) -> str:
        seconds = max(clock() - begun, 1e-3)
        return f"{amount(done)}  {amount(int(done / seconds))}/s"

    bar = click.progressbar(
        length=total_bytes, label=label, file=sys.stderr, show_eta=True, item_show_func=rate
    )

    def advance(byte_count: int) -> None:
        nonlocal done, held, drawn
        done, held = done + byte_count, held + byte_count
        if clock() - drawn >= REDRAW_SECONDS:
            _draw(lambda: bar.update(held, done))
            held, drawn = 0, clock()

    try:
        _draw(bar.render_progress)
        yield advance
        _draw(lambda: bar.update(held, done))
    finally:
        _draw(bar.render_finish)  # Shows the cursor again, and ends the line.


def amount(byte_count: int) -> str:
    """Returns a number of bytes for people: 1.6 GB."""
    size = float(byte_count)
    for unit in BYTE_UNITS:
        if size < 1000 or unit == BYTE_UNITS[-1]:
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"


def duration(given_ms: int) -> str:
    """Returns a duration for people: 250 ms, 41 s, 12 m, 7 h, 3 d; "" for 0."""
    if not given_ms:
        return ""
    for unit, unit_ms in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if given_ms >= 2 * unit_ms:
            return f"{given_ms // unit_ms} {unit}"
    return f"{given_ms} ms"


def moment(time_ms: int) -> str:
    """Returns a time for people, in the machine's zone; "" for 0."""
    if not time_ms:
        return ""
    local = datetime.fromtimestamp(time_ms / 1000).astimezone()
    return local.isoformat(sep=" ", timespec="milliseconds")


def at(name: str) -> Column:
    """Returns a column that formats a time in ms; a row without this time has an empty cell."""
    return Column(name, lambda row: moment(row[name]) if name in row else "")


def columns(*given: str | Column) -> Columns:
    """Returns columns; a text is the name of a field that is not formatted."""
    return [Column(each) if isinstance(each, str) else each for each in given]


def write(text: str) -> None:
    """Prints data without terminal control characters."""
    sys.stdout.write(safe(text))


def json_text(document: Any, indent: int | None = None) -> str:
    """Returns a document as JSON, with terminal control characters escaped."""
    import json

    separators = (",", ":") if indent is None else None
    return escaped(json.dumps(document, ensure_ascii=False, indent=indent, separators=separators))


def _write_csv(cells: Iterable[Any]) -> None:
    import csv

    nested = (Mapping, list, tuple, bool)
    line = [json_text(cell) if isinstance(cell, nested) else cell for cell in cells]
    written = StringIO()
    csv.writer(written, lineterminator="\n").writerow(line)
    write(written.getvalue())


def _cell(value: Any, width_max: int | None) -> str:
    text = _plain(value).replace("\n", "⏎")
    end = None if width_max is None else width_max + 1
    shown = "".join(c if c.isprintable() else STANDS_IN for c in text[:end])
    if width_max is None or len(shown) <= width_max:
        return shown
    return shown[: width_max - 1] + "…"


def _plain(value: Any) -> str:
    """Returns a value as a table shows it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_plain(item)}" for name, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_plain, value))
    return WORDS[value] if value is None or isinstance(value, bool) else str(value)


def _can_redraw(stream: TextIO | None) -> bool:
    """Returns whether a terminal can redraw a line; None: the process has no such stream."""
    if stream is None or stream.closed or not stream.isatty():
        return False
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _draw(step: Callable[[], None]) -> None:
    with suppress(OSError):
        step()
