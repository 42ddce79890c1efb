"""Merges defaults, files, environment and command line into one frozen `Config`.

    defaults  <  preset  <  POCKETMQ_DEFAULTS  <  -c FILE  <  conf.d/*.toml
              <  POCKETMQ__SECTION__KEY  <  --set key=value

POCKETMQ_DEFAULTS names a TOML file, which all later sources override; the image has one. FILE is
TOML, or RocketMQ's broker.conf. All sources are read completely, so that a check can show all
problems at once. Unknown keys, invalid values and contradictory settings are errors. The error of a
setting contains its key and origin, for a setting in a file also the line.
POCKETMQ__SECTION__KEY_FILE is the path of a file that contains the value, for example a mounted
secret.
"""

import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Any, Final, NamedTuple

from pocketmq.config import rocketmq
from pocketmq.config.knob import Knob, Value
from pocketmq.config.port_sections import OFF
from pocketmq.config.relations import broken, doubts, too_low
from pocketmq.config.rocketmq_files import (
    UNKNOWN,
    is_broker_conf,
    properties,
    reason_left_out,
    repeated,
)
from pocketmq.config.sections import EDGE, KNOBS, PRESET, PRESETS, SECTIONS, SERVER, Config
from pocketmq.config.texts import bool_from_text, host_doubt
from pocketmq.config.toml_lines import lines_of_keys, told_twice, with_quotes
from pocketmq.config.units import is_utf8
from pocketmq.model.errors import IllegalConfig, SettingsFileUnusable
from pocketmq.model.nearness import nearest

FROM_SET: Final = "--set"
FROM_PRESET: Final = "--preset"
EXPIRE: Final = "retention.disk_expire_percent"
FORCE: Final = "retention.disk_force_percent"
LISTEN: Final = "rpc.listen"
ENVIRONMENT_PREFIX: Final = "POCKETMQ__"
PRESET_VARIABLE: Final = "POCKETMQ_PRESET"
DEFAULTS_VARIABLE: Final = "POCKETMQ_DEFAULTS"
INSECURE_VARIABLE: Final = "POCKETMQ_INSECURE"
SHORT_VARIABLES: Final[Mapping[str, str]] = {
    INSECURE_VARIABLE: "access.check",
    "POCKETMQ_ADMIN_SECRET_FILE": "access.admin_secret_path",
}
"""Settings with a short variable, for the command line that starts a container."""
FILE_SUFFIX: Final = "_FILE"
PARTS_DIRECTORY: Final = "conf.d"
PARTS_PATTERN: Final = "*.toml"


Assignments = Sequence[str] | Mapping[str, Sequence[str]]
"""Settings as "section.key=value"; a mapping contains them by origin, later ones override."""


@dataclass(slots=True, eq=False)
class Layers:
    """Values and origins from the sources read so far.

    translated   keys whose last value was given by RocketMQ's name
    applied      names in broker.conf without a setting here, which the caller itself applies
    """

    preset: str = EDGE
    preset_origin: str = "default"
    values: dict[str, Value] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    translated: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)
    problems: list[IllegalConfig] = field(default_factory=list)
    applied: Collection[str] = ()

    def put(self, key: str, given: object, origin: str) -> None:
        """Sets the value of a PocketMQ key."""
        if key == PRESET:
            self._choose(given, origin)
        elif key in KNOBS:
            self._put(KNOBS[key], given, origin)
            self.translated.discard(key)
        else:
            self.problems.append(unknown(key, [*KNOBS, PRESET], origin=origin))

    def put_any(self, name: str, text: str, origin: str) -> None:
        """Sets the value of a PocketMQ key or a RocketMQ name."""
        if name in KNOBS or name == PRESET:
            self.put(name, text, origin)
            return
        why = rocketmq.why_meaningless(name)
        if why:
            self.warnings.append(f"{name} has no meaning here and is ignored: {why}")
            return
        knobs = rocketmq.knobs_of(name)
        if not knobs:
            known = [*KNOBS, PRESET, *rocketmq.names()]
            self.problems.append(unknown(name, known, origin=origin))
        for knob in knobs:
            self._translate(knob, name, text, origin)

    def _translate(self, knob: Knob, name: str, text: str, origin: str) -> None:
        try:
            value, note = rocketmq.translated(name, text)
        except ValueError as error:
            self.problems.append(IllegalConfig(field=f"{name} ({origin})", why=str(error)))
            return
        if note and note not in self.warnings:
            self.warnings.append(note)
        if knob.key == LISTEN and isinstance(value, str) and ":" not in value:
            # A port alone keeps the host: the image's host differs from the default.
            host = str(self.values.get(LISTEN, knob.default)).rpartition(":")[0]
            value = f"{host}:{value}"
        self._put(knob, value, origin, rocketmq_name=name)
        self.translated.add(knob.key)

    def _put(self, knob: Knob, given: object, origin: str, *, rocketmq_name: str = "") -> None:
        is_rocketmq = bool(rocketmq_name)
        try:
            self.values[knob.key] = knob.value_of(given, is_rocketmq=is_rocketmq)
        except IllegalConfig as error:
            field = f"{rocketmq_name or knob.key} ({origin})"
            self.problems.append(IllegalConfig(field=field, why=error.why))
        self.origins[knob.key] = origin
        if not is_rocketmq and (doubt := host_doubt(knob.read, given)):
            self.warnings.append(f"{knob.key} = {doubt} ({origin})")

    def _choose(self, given: object, origin: str) -> None:
        if isinstance(given, str) and given in PRESETS:
            self.preset = given
            self.preset_origin = origin
        else:
            why = f"{given!r} is not one of {', '.join(PRESETS)}"
            self.problems.append(IllegalConfig(field=f"{PRESET} ({origin})", why=why))

    def config(self) -> Config:
        """Returns the settings.

        An illegal value is ignored: the setting has the value of an earlier source or the default.
        """
        assert self.values.keys() | self.translated <= self.origins.keys()
        values = {**PRESETS[self.preset], **self.values}
        sections = {name: kind(**_section_values(values, name)) for name, kind in SECTIONS.items()}
        return Config(
            **sections,
            preset=self.preset,
            preset_origin=self.preset_origin,
            origins=self.origins,
        )


WORDS: Final = {
    **dict.fromkeys(("path", "dir", "root", "folder"), "directory"),
    "segment": "log_file",
    "msg": "message",
}
"""Word of a name that no setting has -> the word of this meaning in names of settings."""

LIKE: Final = 0.7
"""Minimum similarity of a suggested name; names of one section share its letters."""
MOST_MEANT: Final = 3
"""Most names that an error suggests."""


def unknown(key: str, known: Collection[str], *, origin: str) -> IllegalConfig:
    """Returns the error for an unknown name, with the known names that contain all of its words.

    If no name or too many contain them, the error has the most similar known name.
    """
    section, _, name = key.rpartition(".")
    words = {part for word in name.split("_") for part in WORDS.get(word, word).split("_")}
    meant = [one for one in known if _contains(one, section, words)]
    if not meant:  # The section is wrong, or a word of the name is its section.
        meant = [one for one in known if words <= set(one.replace(".", "_").split("_"))]
    if not 0 < len(meant) <= MOST_MEANT:
        meant = [near] if (near := nearest(key, known, LIKE)) else []
    hint = f"; did you mean {' or '.join(meant)}?" if meant else ""
    return IllegalConfig(field=f"{key} ({origin})", why=f"no setting has this name{hint}")


def _contains(known: str, section: str, words: set[str]) -> bool:
    of, _, name = known.rpartition(".")
    return section in ("", of) and words <= set(name.split("_"))


def _section_values(values: dict[str, Value], section: str) -> dict[str, Value]:
    prefix = f"{section}."
    return {key.removeprefix(prefix): v for key, v in values.items() if key.startswith(prefix)}


class Loaded(NamedTuple):
    """The merged configuration, all problems of its sources, and the settings file."""

    config: Config
    problems: list[IllegalConfig]
    file: Path | None = None


def load(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    assignments: Assignments = (),
    preset: str | None = None,
    force: bool = False,
    applied: Collection[str] = (),
) -> Config:
    """Returns the merged configuration of all sources.

    force    whether values below a floor are allowed, for tests and development
    applied  names in broker.conf without a setting here, which the caller itself applies
    Shape    assignments: "section.key=value" or "rocketmqName=value", the last one wins; a mapping
             contains them by their origin, which errors name
    Errors   IllegalConfig: the first problem, such as an unknown key, an invalid value, an
             unreadable file, or settings that contradict each other
    """
    loaded = examine(
        file=file,
        environment=environment,
        assignments=assignments,
        preset=preset,
        force=force,
        applied=applied,
    )
    if loaded.problems:
        raise loaded.problems[0]
    return loaded.config


def examine(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    assignments: Assignments = (),
    preset: str | None = None,
    force: bool = False,
    applied: Collection[str] = (),
) -> Loaded:
    """Returns all problems of the sources, and the configuration, usable only without problems.

    The parameters are those of `load`.
    """
    layers = Layers(applied=applied)
    environment = environment or {}
    if environment.get(DEFAULTS_VARIABLE):
        read_file(layers, Path(environment[DEFAULTS_VARIABLE]), named_by=DEFAULTS_VARIABLE)
    if file is not None:
        read_files(layers, file)
    read_environment(layers, environment)
    if preset is not None:
        layers.put(PRESET, preset, FROM_PRESET)
    by_origin = assignments if isinstance(assignments, Mapping) else {FROM_SET: assignments}
    for origin, texts in by_origin.items():
        for text in texts:
            _assign(layers, text, origin)
    return checked(layers, force=force)._replace(file=file)


def _assign(layers: Layers, assignment: str, origin: str) -> None:
    key, separator, text = assignment.partition("=")
    key = key.strip()
    if separator:
        layers.put_any(key, text, origin)
    elif origin == FROM_SET:
        why = f"write {FROM_SET} {key}=VALUE"
        layers.problems.append(IllegalConfig(field=key, why=why))
    else:
        why = f"write {key}=VALUE"
        layers.problems.append(IllegalConfig(field=f"{key} ({origin})", why=why))


def checked(layers: Layers, *, force: bool = False) -> Loaded:
    """Checks the relations between the settings of all sources, and returns the configuration.

    layers   values of all sources; no source may be read later
    """
    _lower_expire_percent(layers)
    config = layers.config()
    problems = [*layers.problems, *broken(config), *([] if force else too_low(config))]
    return Loaded(replace(config, warnings=(*layers.warnings, *doubts(config))), problems)


def _lower_expire_percent(layers: Layers) -> None:
    """Lowers the expire percentage to the forced-deletion percentage.

    Only a value given by RocketMQ's name is lowered. Many files for RocketMQ contain
    diskMaxUsedSpaceRatio = 88, which has no effect, as it is above the forced ratio of 85.
    """
    config = layers.config()
    expire, force = config.value(EXPIRE), config.value(FORCE)
    assert isinstance(expire, int)
    assert isinstance(force, int)
    if EXPIRE in layers.translated and expire > force:
        layers.values[EXPIRE] = force
        note = f"{EXPIRE} is lowered from {expire} to the value of {FORCE} = {force}"
        layers.warnings.append(note)


def read_files(layers: Layers, file: Path) -> None:
    """Reads a file and then the files in its conf.d, each of which overrides the ones before."""
    for path in with_parts(file):
        read_file(layers, path)


def with_parts(file: Path) -> list[Path]:
    """Returns a settings file and the files in its conf.d, in the order of reading."""
    return [file, *sorted((file.parent / PARTS_DIRECTORY).glob(PARTS_PATTERN))]


def read_file(layers: Layers, path: Path, *, named_by: str = "") -> None:
    """Reads one TOML file, or a broker.conf of RocketMQ.

    named_by   the environment variable that names the file, for the error of a missing one
    """
    if is_broker_conf(text_or_nothing(path)):
        _read_broker_conf(layers, path)
        return
    try:
        text = path.read_text("utf-8")
        document = tomllib.loads(text)
    except OSError as error:
        why = f"it cannot be read: {error.strerror}"
        why = f"{named_by} names it, but {why}" if named_by else why
        layers.problems.append(SettingsFileUnusable(field=str(path), why=why))
        return
    except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, or nested too deep
        unread = text_or_nothing(path)
        why = rocketmq.import_hint(str(path), unread) or told_twice(unread)
        why = why or f"{error}{with_quotes(unread, str(error))}"
        layers.problems.append(SettingsFileUnusable(field=str(path), why=why))
        return
    if why := rocketmq.import_hint(str(path), text):
        layers.problems.append(SettingsFileUnusable(field=str(path), why=why))
        return
    lines = lines_of_keys(text)
    for key, given in _keys(document):
        origin = f"{path}:{lines[key]}" if key in lines else str(path)
        layers.put(key, given, origin)


def _read_broker_conf(layers: Layers, path: Path) -> None:
    layers.put(PRESET, SERVER, str(path))
    left_out: list[str] = []
    unknown: list[str] = []
    items = properties(text_or_nothing(path))
    layers.warnings += [f"{path}: {text}" for text in repeated(items)]
    for item in items:
        why, hint = reason_left_out(item.name)
        if item.name in layers.applied:
            continue
        if not why:
            layers.put_any(item.name, item.value, f"{path}:{item.line}")
        else:
            line = f" in line {item.line}" if why == UNKNOWN else ""
            (unknown if why == UNKNOWN else left_out).append(f"{item.name}{line}{hint}")
    if left_out:
        reasons = f"reasons: pocketmq config import-broker-conf {quote(str(path))}"
        layers.warnings.append(f"{path}: without effect: {', '.join(left_out)}; {reasons}")
    if unknown:
        layers.warnings.append(f"{path}: unknown names: {', '.join(unknown)}")


def text_or_nothing(path: Path) -> str:
    """Returns the text of a file, "" if it cannot be read."""
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError):
        return ""


def _keys(document: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for section, table in document.items():
        if not isinstance(table, dict):
            yield section, table
            continue
        for name, given in table.items():
            yield f"{section}.{name}", given
        if not table and section not in SECTIONS:
            yield section, table


def read_environment(layers: Layers, environment: Mapping[str, str]) -> None:
    """Reads environment variables that begin with POCKETMQ__, and the short ones."""
    if environment.get(PRESET_VARIABLE):
        layers.put(PRESET, environment[PRESET_VARIABLE], PRESET_VARIABLE)
    for variable, key in SHORT_VARIABLES.items():
        if environment.get(variable):
            _read_short(layers, variable, key, environment)
    for variable in sorted(environment):
        if variable.startswith(ENVIRONMENT_PREFIX):
            _read_variable(layers, variable, environment)


def _read_short(layers: Layers, variable: str, key: str, environment: Mapping[str, str]) -> None:
    long = ENVIRONMENT_PREFIX + key.upper().replace(".", "__")
    if twin := next((name for name in (long, long + FILE_SUFFIX) if name in environment), ""):
        why = f"{twin} is set as well; leave one of them out"
        layers.problems.append(IllegalConfig(field=f"{key} ({variable})", why=why))
    elif variable != INSECURE_VARIABLE:
        layers.put(key, _unquoted(environment[variable]), variable)
    else:
        _read_insecure(layers, key, _unquoted(environment[variable]))


def _read_insecure(layers: Layers, key: str, text: str) -> None:
    try:
        is_insecure = bool_from_text(text)
    except ValueError as error:
        layers.problems.append(IllegalConfig(field=f"{key} ({INSECURE_VARIABLE})", why=str(error)))
        return
    if is_insecure:
        layers.put(key, OFF, INSECURE_VARIABLE)


def _read_variable(layers: Layers, variable: str, environment: Mapping[str, str]) -> None:
    if not is_utf8(environment[variable]):
        why = "its value is not UTF-8"
        layers.problems.append(IllegalConfig(field=variable, why=why))
        return
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
    is_quoted = len(text) >= 2 and text[0] == text[-1] == '"'
    return text[1:-1] if is_quoted else text
