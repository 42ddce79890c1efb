"""From defaults, files, environment and command line to one frozen `Config`.

    defaults  <  preset  <  -c FILE  <  conf.d/*.toml  <  POCKETMQ__SECTION__KEY  <  --set key=value

Every source is read completely or refused: an unknown key, a bad value and two settings that do
not go together are errors that name the key and where it stood: of a TOML file the line.
POCKETMQ__SECTION__KEY_FILE names a file that holds the value, as secrets are mounted.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from broker.config.layers import PRESET, Layers, unknown
from broker.config.relations import broken, doubts
from broker.config.sections import KNOBS, SECTIONS, Config
from broker.model.errors import IllegalConfig

FROM_SET: Final = "--set"
FROM_PRESET: Final = "--preset"
EXPIRE: Final = "retention.disk_expire_percent"
FORCE: Final = "retention.disk_force_percent"
ENVIRONMENT_PREFIX: Final = "POCKETMQ__"
PRESET_VARIABLE: Final = "POCKETMQ_PRESET"
FILE_SUFFIX: Final = "_FILE"
PARTS_DIRECTORY: Final = "conf.d"
PARTS_PATTERN: Final = "*.toml"

_TABLE = re.compile(r"\s*\[\s*([\w.-]+)\s*\]")
_KEY = re.compile(r"\s*([\w.-]+)\s*=")


class Loaded(NamedTuple):
    """What all sources make together, and everything that is wrong with them."""

    config: Config
    problems: list[IllegalConfig]


def load(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    assignments: Sequence[str] = (),
    preset: str | None = None,
) -> Config:
    """Return the configuration that all sources make together.

    Shape    assignments: "section.key=value" or "rocketmqName=value", later ones win
    Errors   IllegalConfig: unknown key, bad value, unreadable file; the first there is
    """
    loaded = examine(file=file, environment=environment, assignments=assignments, preset=preset)
    if loaded.problems:
        raise loaded.problems[0]
    return loaded.config


def examine(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    assignments: Sequence[str] = (),
    preset: str | None = None,
) -> Loaded:
    """Return what `load` does together with all problems; where there are any it is of no use."""
    layers = Layers()
    if file is not None:
        read_files(layers, file)
    read_environment(layers, environment or {})
    if preset is not None:
        layers.put(PRESET, preset, FROM_PRESET)
    for assignment in assignments:
        _assign(layers, assignment)
    return checked(layers)


def _assign(layers: Layers, assignment: str) -> None:
    key, separator, text = assignment.partition("=")
    key = key.strip()
    if separator:
        layers.put_any(key, text, FROM_SET)
    else:
        why = f"write {FROM_SET} {key}=VALUE"
        layers.problems.append(IllegalConfig(field=key, why=why))


def checked(layers: Layers) -> Loaded:
    """Return the settings of layers that are complete, their relations checked."""
    _lower_expire_percent(layers)
    config = layers.config()
    problems = [*layers.problems, *broken(config)]
    return Loaded(replace(config, warnings=(*layers.warnings, *doubts(config))), problems)


def _lower_expire_percent(layers: Layers) -> None:
    """Let messages expire where files go anyway, when RocketMQ's name says a higher share.

    RocketMQ takes diskMaxUsedSpaceRatio = 88 beside its 85 for the other, and so do many of its
    files; the higher one then changes nothing there.
    """
    config = layers.config()
    expire, force = config.value(EXPIRE), config.value(FORCE)
    assert isinstance(expire, int)
    assert isinstance(force, int)
    if EXPIRE in layers.translated and expire > force:
        layers.values[EXPIRE] = force
        note = f"{EXPIRE} is lowered from {expire} to {FORCE} = {force}: above it files go anyway"
        layers.warnings.append(note)


def read_files(layers: Layers, file: Path) -> None:
    """Read a file and then the parts in conf.d beside it, each over the one before."""
    read_file(layers, file)
    for part in sorted((file.parent / PARTS_DIRECTORY).glob(PARTS_PATTERN)):
        read_file(layers, part)


def read_file(layers: Layers, path: Path) -> None:
    """Read one TOML file."""
    try:
        text = path.read_text("utf-8")
        document = tomllib.loads(text)
    except OSError as error:
        layers.problems.append(IllegalConfig(field=str(path), why=str(error.strerror)))
        return
    except ValueError as error:  # neither UTF-8 nor TOML
        layers.problems.append(IllegalConfig(field=str(path), why=str(error)))
        return
    lines = lines_of_keys(text)
    for key, given in _keys(document):
        origin = f"{path}:{lines[key]}" if key in lines else str(path)
        layers.put(key, given, origin)


def _keys(document: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield (key, value) of a document; a key that is no section's stands alone."""
    for section, table in document.items():
        if not isinstance(table, dict):
            yield section, table
            continue
        for name, given in table.items():
            yield f"{section}.{name}", given
        if not table and section not in SECTIONS:
            yield section, table


def lines_of_keys(text: str) -> dict[str, int]:
    """Return the line each key of a TOML text stands in, from 1.

    A key inside of a text of several lines may be taken for one: the line is told to people only.
    """
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if head := _TABLE.match(line):
            table = f"{head[1]}."
        elif key := _KEY.match(line):
            lines[f"{table}{key[1]}"] = number
    return lines


def read_environment(layers: Layers, environment: Mapping[str, str]) -> None:
    """Read the variables that begin with POCKETMQ__, and POCKETMQ_PRESET."""
    if environment.get(PRESET_VARIABLE):
        layers.put(PRESET, environment[PRESET_VARIABLE], PRESET_VARIABLE)
    for variable in sorted(environment):
        if variable.startswith(ENVIRONMENT_PREFIX):
            _read_variable(layers, variable, environment)


def _read_variable(layers: Layers, variable: str, environment: Mapping[str, str]) -> None:
    key = _key_of(variable)
    named = _key_of(variable.removesuffix(FILE_SUFFIX))
    if key in KNOBS:
        layers.put(key, _unquoted(environment[variable]), variable)
    elif not variable.endswith(FILE_SUFFIX) or named not in KNOBS:
        layers.problems.append(unknown(key, KNOBS, origin=variable))
    elif (twin := variable.removesuffix(FILE_SUFFIX)) in environment:
        why = f"{twin} is set as well; leave one of them out"
        layers.problems.append(IllegalConfig(field=f"{named} ({variable})", why=why))
    else:
        _read_value_file(layers, named, variable, Path(_unquoted(environment[variable])))


def _key_of(variable: str) -> str:
    return variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")


def _read_value_file(layers: Layers, key: str, variable: str, path: Path) -> None:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        why = f"{path} cannot be read: {reason}"
        layers.problems.append(IllegalConfig(field=f"{key} ({variable})", why=why))
        return
    layers.put(key, text.removesuffix("\n").removesuffix("\r"), f"{variable} {path}")


def _unquoted(text: str) -> str:
    """Return text without the quotes that env files leave around it."""
    is_quoted = len(text) >= 2 and text[0] == text[-1] == '"'
    return text[1:-1] if is_quoted else text
