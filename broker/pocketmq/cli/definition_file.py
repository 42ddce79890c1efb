"""Reads a file of definitions: YAML, checked field by field before a broker is called."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from pocketmq.model.access import Action, action_from_text, resource_from_text, source_from_text
from pocketmq.model.begin import begin_from_text, begin_text
from pocketmq.model.errors import IllegalConfig, RequestError
from pocketmq.model.topic import TYPE_ATTRIBUTE

FORMAT_VERSION: Final = 1
SECTIONS: Final = ("topics", "groups", "users", "grants", "settings")
SIZE_MAX: Final = 16 * 1024 * 1024
"""Upper limit of bytes in a file."""

Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_attributes(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, [*value, *value.values()]))


FIELDS: Final[Mapping[str, Mapping[str, tuple[Check, str]]]] = {
    "topics": {
        "name": (_is_text, "a text"),
        "read_queue_count": (_is_count, "a number"),
        "write_queue_count": (_is_count, "a number"),
        "permission": (_is_count, "a number"),
        "order": (_is_bool, "true or false"),
        "attributes": (_is_attributes, "texts by name"),
    },
    "groups": {
        "name": (_is_text, "a text"),
        "enabled": (_is_bool, "true or false"),
        "fifo": (_is_bool, "true or false"),
        "max_attempts": (_is_count, "a number"),
        "retry_queue_count": (_is_count, "a number"),
        "broadcast_enabled": (_is_bool, "true or false"),
        "consume_timeout_minutes": (_is_count, "a number"),
        "begin": (_is_text, "a text"),
    },
    "users": {
        "access_key": (_is_text, "a text"),
        "admin": (_is_bool, "true or false"),
        "enabled": (_is_bool, "true or false"),
        "secret": (_is_text, "a text"),
    },
    "grants": {
        "user": (_is_text, "a text"),
        "actions": (_is_texts, "a list of texts"),
        "resource": (_is_text, "a text"),
        "deny": (_is_bool, "true or false"),
        "sources": (_is_texts, "a list of texts"),
    },
}
"""Fields of each section's rows, with their check and the name of their type."""
REQUIRED: Final = {
    "topics": ("name",),
    "groups": ("name",),
    "users": ("access_key",),
    "grants": ("user", "actions", "resource"),
}


class Definitions(NamedTuple):
    """The rows of a file, by section."""

    topics: Sequence[Mapping[str, Any]] = ()
    groups: Sequence[Mapping[str, Any]] = ()
    users: Sequence[Mapping[str, Any]] = ()
    grants: Sequence[Mapping[str, Any]] = ()
    settings: Mapping[str, str] = {}


def read_definitions(file: Path, sections: Sequence[str] = SECTIONS) -> Definitions:
    """Reads the given sections of a file.

    Errors   UsageError: the file is unreadable, too large, no YAML or of another format version, or
             a section, field or value is unknown or illegal
    """
    try:
        content = sys.stdin.buffer.read(SIZE_MAX + 1) if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise click.UsageError(f"{file} cannot be read: {error.strerror}") from error
    if len(content) > SIZE_MAX:
        raise click.UsageError(f"{file} is larger than {SIZE_MAX} bytes")
    document = _parsed(file, content)
    version = document.pop("format_version", FORMAT_VERSION)
    if version != FORMAT_VERSION:
        raise click.UsageError(
            f"{file} has format_version {version!r}; this command reads {FORMAT_VERSION}"
        )
    for name in document:
        if name not in SECTIONS:
            known = ", ".join(SECTIONS)
            raise click.UsageError(f"{file}: unknown section {name!r}; the sections are {known}")
    found: dict[str, Any] = {}
    for section in SECTIONS:
        value = document.get(section)
        if value is not None:
            read = _settings if section == "settings" else _rows
            found[section] = read(f"{file}: {section}", section, value)
    return Definitions(**{name: rows for name, rows in found.items() if name in sections})


def _parsed(file: Path, content: bytes) -> dict[str, Any]:
    import yaml  # Only this command needs it.

    try:
        document = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where is not None else ""
        why = getattr(error, "problem", None) or "it cannot be parsed"
        raise click.UsageError(f"{file}{line} is not YAML: {why}") from error
    if not isinstance(document, dict):
        raise click.UsageError(f"{file} holds no sections; start with one that is exported")
    return document


def _rows(where: str, section: str, value: Any) -> list[Mapping[str, Any]]:
    if not isinstance(value, list):
        raise click.UsageError(f"{where} is not a list")
    names: set[Any] = set()
    for number, row in enumerate(value, 1):
        if not isinstance(row, dict):
            raise click.UsageError(f"{where}[{number}] is not a list of fields")
        named = row.get(REQUIRED[section][0])
        place = f"{where}[{number}]" + (f" ({named})" if _is_text(named) else "")
        _check_row(place, section, row)
        try:
            NORMAL[section](row)
        except RequestError as error:
            raise click.UsageError(f"{place}: {error}") from error
        name = row[REQUIRED[section][0]]
        if section != "grants" and name in names:
            raise click.UsageError(f"{place}: {name!r} is defined twice")
        names.add(name)
    return value


def _normal_topic(row: dict[str, Any]) -> None:
    attributes = row.get("attributes", {})
    if TYPE_ATTRIBUTE in attributes:
        attributes[TYPE_ATTRIBUTE] = attributes[TYPE_ATTRIBUTE].upper()


def _normal_group(row: dict[str, Any]) -> None:
    if "begin" in row:
        row["begin"] = begin_text(begin_from_text(row["begin"]))


def _normal_grant(row: dict[str, Any]) -> None:
    actions = {action_from_text(text).value for text in row["actions"]}
    row["actions"] = [Action.ALL.value] if Action.ALL.value in actions else sorted(actions)
    row["resource"] = str(resource_from_text(row["resource"]))
    row["sources"] = sorted(map(source_from_text, row.get("sources", ())))


NORMAL: Final[Mapping[str, Callable[[dict[str, Any]], None]]] = {
    "topics": _normal_topic,
    "groups": _normal_group,
    "users": lambda row: None,
    "grants": _normal_grant,
}
"""Functions that convert a row's values to the form in which the broker reports them.

Errors   RequestError: a value that the broker would refuse
"""


def _check_row(where: str, section: str, row: Mapping[Any, Any]) -> None:
    fields = FIELDS[section]
    for name, value in row.items():
        if name not in fields:
            known = ", ".join(fields)
            raise click.UsageError(f"{where}: unknown field {name!r}; the fields are {known}")
        is_it, kind = fields[name]
        if not is_it(value):
            raise click.UsageError(f"{where}: {name} is {value!r}, not {kind}")
    for name in REQUIRED[section]:
        if name not in row:
            raise click.UsageError(f"{where}: {name} is missing")


def _settings(where: str, section: str, value: Any) -> dict[str, str]:
    del section
    if not isinstance(value, dict) or not all(map(_is_text, value)):
        raise click.UsageError(f"{where} is not a list of settings, as broker.name: broker-a")
    return {key: _setting_text(where, key, item) for key, item in value.items()}


def _setting_text(where: str, key: str, value: Any) -> str:
    """Returns the text by which the broker reports a value."""
    from pocketmq.config.sections import KNOBS

    if isinstance(value, bool):
        value = "true" if value else "false"
    text = "" if value is None else str(value)
    knob = KNOBS.get(key)
    if knob is None:
        return text
    try:
        return knob.text_of(knob.value_of(text))
    except IllegalConfig as error:
        raise click.UsageError(f"{where}: {error}") from error
