"""From defaults, file, environment and command line to one frozen `Config`.

    defaults  <  -c FILE  <  POCKETMQ__SECTION__KEY  <  --set section.key=value

Every source is read completely or refused: an unknown key, a bad value and two settings that do
not go together are errors that name the key and where it stood.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from broker.config import rocketmq
from broker.config.sections import KNOBS, SECTIONS, Config, Knob, Value
from broker.config.units import KIB, text_from_size
from broker.model.errors import IllegalConfig

ENVIRONMENT_PREFIX: Final = "POCKETMQ__"
FROM_SET: Final = "--set"
RECORD_OVERHEAD_BYTES: Final = 64 * KIB
"""What a record may hold besides its body (store-format.md 2.4)."""


class _Layers:
    """Values by key, each source over the one before."""

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.origins: dict[str, str] = {}
        self.warnings: list[str] = []

    def put(self, knob: Knob, given: object, origin: str) -> None:
        try:
            self.values[knob.key] = knob.value_of(given)
        except IllegalConfig as error:
            raise IllegalConfig(field=f"{knob.key} ({origin})", why=error.why) from error
        self.origins[knob.key] = origin


def load(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    assignments: Sequence[str] = (),
) -> Config:
    """Return the configuration that all sources make together.

    Shape    assignments: "section.key=value" or "rocketmqName=value", later ones win
    Errors   IllegalConfig: unknown key, bad value, unreadable file
    """
    layers = _Layers()
    if file is not None:
        _read_file(layers, file)
    _read_environment(layers, environment or {})
    for assignment in assignments:
        _assign(layers, assignment)
    sections = {
        name: kind(**_section_values(layers.values, name)) for name, kind in SECTIONS.items()
    }
    config = Config(**sections, origins=layers.origins)
    return replace(config, warnings=(*layers.warnings, *_doubts(config)))


def _section_values(values: Mapping[str, Value], section: str) -> dict[str, Value]:
    prefix = f"{section}."
    return {key.removeprefix(prefix): v for key, v in values.items() if key.startswith(prefix)}


def _read_file(layers: _Layers, path: Path) -> None:
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise IllegalConfig(field=str(path), why=str(error.strerror)) from error
    except ValueError as error:  # neither UTF-8 nor TOML
        raise IllegalConfig(field=str(path), why=str(error)) from error
    for section, table in document.items():
        if not isinstance(table, dict):
            raise _unknown(section, KNOBS, origin=str(path))
        for name, given in table.items():
            key = f"{section}.{name}"
            if key not in KNOBS:
                raise _unknown(key, KNOBS, origin=str(path))
            layers.put(KNOBS[key], given, str(path))


def _read_environment(layers: _Layers, environment: Mapping[str, str]) -> None:
    for variable in sorted(environment):
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")
        if key not in KNOBS:
            raise _unknown(key, KNOBS, origin=variable)
        layers.put(KNOBS[key], _unquoted(environment[variable]), variable)


def _unquoted(text: str) -> str:
    """Return text without the quotes that env files leave around it."""
    is_quoted = len(text) >= 2 and text[0] == text[-1] == '"'
    return text[1:-1] if is_quoted else text


def _assign(layers: _Layers, assignment: str) -> None:
    key, separator, text = assignment.partition("=")
    key = key.strip()
    if not separator:
        raise IllegalConfig(field=key, why=f"write {FROM_SET} {key}=VALUE")
    if key in KNOBS:
        layers.put(KNOBS[key], text, FROM_SET)
        return
    if key in rocketmq.MEANINGLESS:
        layers.warnings.append(f"{key} has no meaning here and is ignored")
        return
    knobs = rocketmq.knobs_of(key)
    if not knobs:
        raise _unknown(key, [*KNOBS, *rocketmq.names()], origin=FROM_SET)
    for knob in knobs:
        layers.put(knob, rocketmq.VALUE_WORDS.get(key, {}).get(text, text), FROM_SET)


def _unknown(key: str, known: Iterable[str], *, origin: str) -> IllegalConfig:
    by_lower_case = {name.lower(): name for name in known}
    near = get_close_matches(key.lower(), by_lower_case, n=1, cutoff=0.5)
    hint = f"; did you mean {by_lower_case[near[0]]}?" if near else ""
    return IllegalConfig(field=f"{key} ({origin})", why=f"there is none of this name{hint}")


def _doubts(config: Config) -> list[str]:
    """Return what is allowed but will probably not do what was meant."""
    body_size = config.limits.max_message_size_bytes
    file_size = config.store.commit_log_file_size_bytes
    if body_size + RECORD_OVERHEAD_BYTES <= file_size:
        return []
    doubt = (
        f"messages may have limits.max_message_size_bytes = {text_from_size(body_size)}, but one "
        f"that does not fit store.commit_log_file_size_bytes = {text_from_size(file_size)} with "
        "its properties is refused"
    )
    return [doubt]
