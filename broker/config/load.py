"""From defaults, files, environment and command line to one frozen `Config`.

    defaults  <  preset  <  -c FILE  <  conf.d/*.toml  <  POCKETMQ__SECTION__KEY  <  --set key=value

Every source is read completely or refused: an unknown key, a bad value and two settings that do
not go together are errors that name the key and where it stood.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from broker.config.layers import PRESET, Layers
from broker.config.relations import broken, doubts
from broker.config.sections import Config
from broker.config.sources import read_environment, read_files
from broker.model.errors import IllegalConfig

FROM_SET: Final = "--set"
FROM_PRESET: Final = "--preset"
EXPIRE: Final = "retention.disk_expire_percent"
FORCE: Final = "retention.disk_force_percent"


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
    return settle(layers)


def _assign(layers: Layers, assignment: str) -> None:
    key, separator, text = assignment.partition("=")
    key = key.strip()
    if separator:
        layers.put_any(key, text, FROM_SET)
    else:
        why = f"write {FROM_SET} {key}=VALUE"
        layers.problems.append(IllegalConfig(field=key, why=why))


def settle(layers: Layers) -> Loaded:
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
