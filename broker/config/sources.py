"""Where settings come from: TOML files, a directory of more of them, and the environment.

    broker.toml  <  conf.d/*.toml beside it, by name  <  POCKETMQ__SECTION__KEY

POCKETMQ__SECTION__KEY_FILE names a file that holds the value, as secrets are mounted. Of a TOML
file the line of each key is remembered, to be told with it.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from broker.config.layers import PRESET, Layers, unknown
from broker.config.sections import KNOBS, SECTIONS
from broker.model.errors import IllegalConfig

ENVIRONMENT_PREFIX: Final = "POCKETMQ__"
PRESET_VARIABLE: Final = "POCKETMQ_PRESET"
FILE_SUFFIX: Final = "_FILE"
PARTS_DIRECTORY: Final = "conf.d"
PARTS_PATTERN: Final = "*.toml"

_TABLE = re.compile(r"\s*\[\s*([\w.-]+)\s*\]")
_KEY = re.compile(r"\s*([\w.-]+)\s*=")


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
