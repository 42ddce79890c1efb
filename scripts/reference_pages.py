"""Generates the reference pages in docs/reference from the code that they describe.

python scripts/reference_pages.py             prints the names of pages that differ from the code
python scripts/reference_pages.py --write     writes them

Commands come from click, settings from `KNOBS`, errors from the classes, metrics and log events
from the calls that create them. The text of a log event is written by hand in its page. It is kept;
an event without a text is an error.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES_FOLDER: Final = ROOT / "docs" / "reference"
SOURCE: Final = ROOT / "broker"
MADE: Final = "<!-- made by scripts/reference_pages.py -->"
WIDTH: Final = 100
METRIC: Final = re.compile(r"(?:rocketmq|pocketmq)_[a-z_0-9]+")
LEVELS: Final = {"debug", "info", "warning", "error", "critical", "exception"}
EXITS: Final = {
    "FAILED": "the command failed",
    "USAGE": "wrong use of a command, or an illegal setting",
    "NOT_FOUND": "the named topic, group, message or user does not exist",
    "REFUSED": "the broker or the store refused the request, or only a plan was shown",
    "UNREACHABLE": "no connection to the broker",
    "TIMEOUT": "no answer in time",
    "DAMAGED": "the store is damaged; `archive ship` has shipped it as it is",
    "INTERRUPTED": "interrupted (SIGINT)",
}


class Event(NamedTuple):
    """A log call: its event, its level, and its fields in the order of the code."""

    name: str
    level: str
    fields: tuple[str, ...]


def heading(title: str, about: str) -> list[str]:
    """Returns the first lines of a page."""
    return [f"# {title}", "", MADE, "", about, ""]


# --- commands ------------------------------------------------------------------------------------


def commands_page(_: str) -> str:
    """Returns the help of every command."""
    from pocketmq.cli.output import Exit
    from pocketmq.cli.program import program

    about = "Every command with its help. `pocketmq COMMAND --help` prints the same text."
    lines = [*heading("Commands", about), "## Exit codes", "", "| code | meaning |", "|---|---|"]
    lines += ["| 0 | success |", *(f"| {code.value} | {EXITS[code.name]} |" for code in Exit)]
    lines.append("| 74 | `serve`: the disk refused to make bytes durable, and the process ended |")
    for context in commands(program, "pocketmq"):
        help_text = click.unstyle(context.command.get_help(context)).rstrip()
        mark = "##" if context.parent is None or context.parent.parent is None else "###"
        lines += ["", f"{mark} {context.command_path}", "", "```text", help_text, "```"]
    return "\n".join([*lines, ""])


def commands(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[click.Context]:
    """Yields the contexts of a command and of all commands below it."""
    settings = {**command.context_settings, "terminal_width": WIDTH}
    context = click.Context(command, parent=parent, info_name=name, **settings)
    yield context
    if isinstance(command, click.Group):
        for inner_name in command.list_commands(context):
            inner = command.get_command(context, inner_name)
            assert inner is not None, f"{inner_name} is listed"
            if not inner.hidden:
                yield from commands(inner, inner_name, context)


# --- settings ------------------------------------------------------------------------------------


def settings_page(_: str) -> str:
    """Returns every setting by its section."""
    from pocketmq.config.sections import KNOBS, SECTIONS

    about = (
        "Every setting with its default. A file (`serve -c FILE`), `conf.d/*.toml` beside it, the\n"
        "environment (`POCKETMQ__STORE__FLUSH=async`) and `--set store.flush=async` set it; the\n"
        "later one wins. `--set` takes RocketMQ's names. *Live* settings change on SIGHUP.\n"
        "[conf/broker.toml](../../conf/broker.toml) has all of them, each commented out."
    )
    lines = heading("Settings", about)
    for section, section_type in SECTIONS.items():
        lines += [f"## {section}", "", _first_paragraph(section_type), ""]
        for knob in KNOBS.values():
            if knob.section == section:
                lines += _setting_lines(knob)
    return "\n".join(lines)


def _setting_lines(knob: Any) -> list[str]:
    default = knob.text_of(knob.default)
    facts = [f"default `{default}`" if default else "default: empty"]
    if knob.choices:
        facts.append("one of " + ", ".join(f"`{choice}`" for choice in knob.choices))
    if knob.rocketmq:
        facts.append(f"RocketMQ: `{knob.rocketmq}`")
    if knob.live:
        facts.append("live")
    return [f"### {knob.key}", "", " · ".join(facts), "", _plain(knob.why), ""]


# --- errors --------------------------------------------------------------------------------------


def errors_page(_: str) -> str:
    """Returns every error by its place in the class tree."""
    from pocketmq.model.errors import BrokerError, RequestError

    about = (
        "Every error of a broker. The name is what `pocketmq.client.errors`, logs and\n"
        "`ErrorInfo.reason` have; the code is RocketMQ's. The last line of each is its text, with\n"
        "fields in braces. *May succeed later*: the same call can be tried again as it is."
    )
    lines = heading("Errors", about)
    for name, root in (("The request", RequestError), ("The broker and its store", BrokerError)):
        lines += [f"## {name}", ""]
        for error in sorted(_below(root), key=lambda error: error.__name__):
            if root is RequestError or not issubclass(error, RequestError):
                lines += _error_lines(error)
    return "\n".join(lines)


def _below(error: type[Any]) -> Iterator[type[Any]]:
    for inner in error.__subclasses__():
        if inner.__module__.startswith("pocketmq.model."):
            yield inner
            yield from _below(inner)


def _error_lines(error: type[Any]) -> list[str]:
    facts = [f"{error.code.name} ({error.code.value})"]
    if error.retryable:
        facts.append("may succeed later")
    facts.append(f"a kind of {error.__mro__[1].__name__}")
    about, text = _first_paragraph(error), f"> {_plain(error.message)}"
    return [f"### {error.__name__}", "", " · ".join(facts), "", about, "", text, ""]


# --- metrics -------------------------------------------------------------------------------------


def metrics_page(_: str) -> str:
    """Returns every metric with its labels and its help text."""
    from tests.metrics import contract

    about = (
        "Every metric of `/metrics`. Names that begin with `rocketmq_` are RocketMQ's, and also\n"
        f"carry the labels {_names(contract.BASE)}.\n"
        f"Those of the storage also carry {_names(contract.STORAGE)}.\n"
        "[conf/monitoring](../../conf/monitoring) has alerts and a dashboard."
    )
    lines = heading("Metrics", about)
    texts = help_texts()
    rows = (
        *(*contract.NATIVE, *contract.TIMER, *contract.SESSIONS, *contract.OWN),
        *(*contract.SETTINGS, *contract.ACCESS, *contract.EXPORTS),
        *(*contract.ROLES, *contract.FOLLOWER),
    )
    groups = (
        ("RocketMQ's", [row for row in rows if row.name.startswith("rocketmq_")]),
        ("PocketMQ's own", [row for row in rows if not row.name.startswith("rocketmq_")]),
        ("With metrics.detail = full", contract.FULL),
    )
    for title, listed in groups:
        lines += [f"## {title}", "", "| metric | kind | labels | value |", "|---|---|---|---|"]
        for row in sorted(listed):
            labels = _names(row.labels) or "–"
            lines.append(f"| `{row.name}` | {row.kind} | {labels} | {_plain(texts[row.name])} |")
        lines.append("")
    return "\n".join(lines)


@cache
def help_texts() -> Mapping[str, str]:
    """Returns the help text of each metric, from the calls that create them."""
    found: dict[str, str] = {}
    for _, tree in trees("mq_"):
        names = assigned(tree)
        unnamed = ""
        for node in ast.walk(tree):
            match node:
                case ast.Call(args=[name, text, *_]) | ast.Tuple(elts=[name, text, *_]):
                    words = constants(text, names)
                    for metric in constants(name, names):
                        if METRIC.fullmatch(metric) and words:
                            found[metric] = words[0]
                    if isinstance(name, ast.Name) and name.id == "name" and words:
                        unnamed = words[0]
        for node in ast.walk(tree):
            match node:
                case ast.Dict(values=values) if unnamed:
                    for metric in (text for value in values for text in constants(value, names)):
                        if METRIC.fullmatch(metric):
                            found.setdefault(metric, unnamed)
    return found


# --- log events ----------------------------------------------------------------------------------


def log_events_page(page: str) -> str:
    """Returns every log event, with the page's present texts."""
    about = (
        "Every event that the broker logs: level, fields, what happened and what to do. Logs are\n"
        "JSON lines where standard error is no terminal. A line that is written while a call is\n"
        "served has that call's `request_id`, which the answer's trailing metadata also has. A\n"
        "line that follows suppressed repeats of it has their number as `suppressed`. Bodies and\n"
        "properties of messages are never logged."
    )
    lines = heading("Log events", about)
    texts = event_texts(page)
    noun = ""
    for event in sorted({event for _, event in log_calls()}):
        if event.name.partition(".")[0] != noun:
            noun = event.name.partition(".")[0]
            lines += [f"## {noun}", ""]
        fields = _names(event.fields) or "no fields"
        text = texts.get(event.name, "")
        lines += [f"### {event.name}", "", f"{event.level} · {fields}", "", text, ""]
    return "\n".join(lines)


def event_texts(page: str) -> dict[str, str]:
    """Returns the text of each event of a page."""
    found = re.findall(r"^### (\S+)\n\n.*\n\n((?:(?!#).*\n)*)", page, re.MULTILINE)
    return {name: text.strip() for name, text in found}


@cache
def log_calls() -> Sequence[tuple[str, Event]]:
    """Returns the position and the event of every log call in broker/."""
    return list(_log_calls())


def _log_calls() -> Iterator[tuple[str, Event]]:
    for path, tree in trees("logger."):
        names = assigned(tree)
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="logger"), attr=level)):
                    where = f"{path.relative_to(ROOT)}:{node.lineno}"
                    assert level in LEVELS, where
                    shown = "error" if level == "exception" else level
                    events = constants(node.args[0], names)
                    assert events, f"{where}: the code does not tell the event"
                    for event in events:
                        yield where, Event(event, shown, _fields(node))


def _fields(call: ast.Call) -> tuple[str, ...]:
    for keyword in call.keywords:
        if keyword.arg == "extra":
            assert isinstance(keyword.value, ast.Dict), ast.unparse(call)
            return tuple(ast.literal_eval(key) for key in keyword.value.keys if key)
    return ()


# --- reading the code ----------------------------------------------------------------------------


def trees(word: str = "") -> Iterator[tuple[Path, ast.Module]]:
    """Yields the parsed modules of broker/ whose text contains a word."""
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text("utf-8")
        if word in text and "/rpc/pb/" not in path.as_posix():
            yield path, ast.parse(text)


def assigned(tree: ast.Module) -> dict[str, ast.expr]:
    """Returns the expressions assigned to a module's names."""
    found: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name] = value
    return found


def constants(node: ast.expr, names: Mapping[str, ast.expr]) -> list[str]:
    """Returns the texts that an expression can have; empty: unknown."""
    match node:
        case ast.Constant(value=str() as text):
            return [text]
        case ast.IfExp():
            return [*constants(node.body, names), *constants(node.orelse, names)]
        case ast.Name() if node.id in names:
            return constants(names[node.id], {})
    return []


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _first_paragraph(thing: object) -> str:
    text = (thing.__doc__ or "").partition("\n\n")[0]
    return _plain(" ".join(text.split()))


def _plain(text: str) -> str:
    """Returns a text of the code, escaped for Markdown."""
    return re.sub(r"([\\<>*|])|(?<![\w`])(_)(?=\w)", r"\\\1\2", text)


PAGES: Final[Mapping[str, Callable[[str], str]]] = {
    "commands": commands_page,
    "settings": settings_page,
    "errors": errors_page,
    "metrics": metrics_page,
    "log-events": log_events_page,
}
"""Functions that generate each page from its present text."""


def differing() -> dict[Path, str]:
    """Returns the pages that differ from the code, with their right text."""
    made = {}
    for name, make in PAGES.items():
        path = PAGES_FOLDER / f"{name}.md"
        present = path.read_text("utf-8") if path.exists() else ""
        if (text := make(present)) != present:
            made[path] = text
    return made


def main() -> int:
    """Prints the pages that differ, or writes them; returns 1 if one differs."""
    sys.path.insert(0, str(ROOT))
    pages = differing()
    is_writing = "--write" in sys.argv[1:]
    for path, text in pages.items():
        print(path.relative_to(ROOT))
        if is_writing:
            path.write_text(text, "utf-8")
    return 0 if is_writing else min(1, len(pages))


if __name__ == "__main__":
    sys.exit(main())
