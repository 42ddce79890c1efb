"""Values of settings by key, each source over the one before, and everything wrong with them.

A source is read to its end whatever is wrong in it, so that a check can show all problems at once.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from broker.config import rocketmq
from broker.config.knob import Knob, Value
from broker.config.sections import EDGE, KNOBS, PRESETS, SECTIONS, Config
from broker.model.errors import IllegalConfig

PRESET: Final = "preset"
"""The one key outside of the sections."""
NEARNESS: Final = 0.5


class Layers:
    """What the sources said so far.

    translated   keys that were last given by a name of RocketMQ's
    """

    __slots__ = (
        "origins", "preset", "preset_origin", "problems", "translated", "values", "warnings",
    )  # fmt: skip

    def __init__(self) -> None:
        self.preset = EDGE
        self.preset_origin = "default"
        self.values: dict[str, Value] = {}
        self.origins: dict[str, str] = {}
        self.translated: set[str] = set()
        self.warnings: list[str] = []
        self.problems: list[IllegalConfig] = []

    def put(self, key: str, given: object, origin: str) -> None:
        """Take a value for one of our keys."""
        if key == PRESET:
            self._choose(given, origin)
        elif key in KNOBS:
            self._put(KNOBS[key], given, origin)
            self.translated.discard(key)
        else:
            self.problems.append(unknown(key, [*KNOBS, PRESET], origin=origin))

    def put_any(self, name: str, text: str, origin: str) -> None:
        """Take a value for one of our keys or of RocketMQ's names."""
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
        self._put(knob, value, origin)
        self.translated.add(knob.key)

    def _put(self, knob: Knob, given: object, origin: str) -> None:
        try:
            self.values[knob.key] = knob.value_of(given)
        except IllegalConfig as error:
            field = f"{knob.key} ({origin})"
            self.problems.append(IllegalConfig(field=field, why=error.why))
        self.origins[knob.key] = origin

    def _choose(self, given: object, origin: str) -> None:
        if isinstance(given, str) and given in PRESETS:
            self.preset = given
            self.preset_origin = origin
        else:
            why = f"{given!r} is not one of {', '.join(PRESETS)}"
            self.problems.append(IllegalConfig(field=f"{PRESET} ({origin})", why=why))

    def config(self) -> Config:
        """Return the settings these values make; what is wrong keeps its default."""
        assert self.values.keys() | self.translated <= self.origins.keys()
        values = {**PRESETS[self.preset], **self.values}
        sections = {name: kind(**_section_values(values, name)) for name, kind in SECTIONS.items()}
        return Config(
            **sections,
            preset=self.preset,
            preset_origin=self.preset_origin,
            origins=self.origins,
        )


def unknown(key: str, known: Iterable[str], *, origin: str) -> IllegalConfig:
    """Return the error for a name there is none of; it names the nearest one there is."""
    by_lower_case = {name.lower(): name for name in known}
    near = get_close_matches(key.lower(), by_lower_case, n=1, cutoff=NEARNESS)
    hint = f"; did you mean {by_lower_case[near[0]]}?" if near else ""
    return IllegalConfig(field=f"{key} ({origin})", why=f"there is none of this name{hint}")


def _section_values(values: dict[str, Value], section: str) -> dict[str, Value]:
    prefix = f"{section}."
    return {key.removeprefix(prefix): v for key, v in values.items() if key.startswith(prefix)}
