"""One setting: its key, type, bounds, default and explanation, and RocketMQ's name for it.

The suffix of a field's name determines the unit of its text: `_bytes` accepts "64MiB", `_ms`
accepts "10s" but no number without a unit, `_percent` accepts "85%". Other fields are parsed by
their type.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Final, get_type_hints

from pocketmq.config.texts import KIND_NAMES, bool_from_text, int_from_text, percent_from_text
from pocketmq.config.units import (
    duration_from_text,
    is_bare,
    refuse_bare,
    size_from_text,
    text_from_duration,
    text_from_size,
)
from pocketmq.model.errors import IllegalConfig

Value = int | str | bool

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


def knob(
    default: Value,
    why: str,
    rocketmq: str = "",
    *,
    choices: tuple[str, ...] = (),
    lower: int = 0,
    upper: int = INT64_MAX,
    read: Callable[[str], Value] | None = None,
    live: bool = False,
) -> Any:
    """Returns a dataclass field for one setting; `why` is its explanation in conf/broker.toml."""
    extra = {"why": why, "rocketmq": rocketmq, "choices": choices, "read": read, "live": live}
    return field(default=default, metadata={**extra, "lower": lower, "upper": upper})


live_knob: Final = partial(knob, live=True)
"""`knob` for a setting that a running broker changes at a reload."""


@dataclass(frozen=True)
class Knob:
    """One setting as data."""

    section: str
    name: str
    kind: type[Value]
    default: Value
    why: str
    rocketmq: str
    choices: tuple[str, ...]
    lower: int
    upper: int
    read: Callable[[str], Value] | None
    live: bool

    @property
    def key(self) -> str:
        """Name of the setting for operators: section.name."""
        return f"{self.section}.{self.name}"

    @property
    def is_duration(self) -> bool:
        """Whether the value is a duration, whose text has a unit."""
        return self.name.endswith("_ms") and self.read is None

    def value_of(self, given: object, *, is_rocketmq: bool = False) -> Value:
        """Parses a text or a TOML value.

        is_rocketmq   whether the setting has RocketMQ's name, so that a bare number is a duration
                      in ms
        Errors   IllegalConfig
        """
        try:
            if is_rocketmq and self.is_duration and isinstance(given, str) and is_bare(given):
                given = int(given)
            elif self.is_duration and isinstance(given, int) and not is_rocketmq:
                refuse_bare(given)
            value = self._converted(given)
        except ValueError as error:
            raise IllegalConfig(field=self.key, why=str(error)) from error
        if self.choices and value not in self.choices:
            why = f"{value!r} is not one of {', '.join(self.choices)}"
            raise IllegalConfig(field=self.key, why=why)
        if isinstance(value, int) and not self.lower <= value <= self.upper:
            lower, upper = self.text_of(self.lower), self.text_of(self.upper)
            why = f"{given} is outside {lower} to {upper}"
            raise IllegalConfig(field=self.key, why=why)
        return value

    def text_of(self, value: Value) -> str:
        """Returns the text of a value, in the largest unit without a fraction."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int) and self.name.endswith("_bytes"):
            return text_from_size(value)
        if isinstance(value, int) and self.is_duration:
            return text_from_duration(value)
        return str(value)

    def _converted(self, given: object) -> Value:
        if isinstance(given, str):
            return self._from_text(given)
        if type(given) is not self.kind:
            raise ValueError(f"{given!r} is not {KIND_NAMES[self.kind]}")
        assert isinstance(given, Value)
        return given

    def _from_text(self, text: str) -> Value:
        if self.read is not None:
            return self.read(text)
        if self.name.endswith("_bytes"):
            return size_from_text(text)
        if self.is_duration:
            return duration_from_text(text)
        if self.name.endswith("_percent"):
            return percent_from_text(text)
        if self.kind is bool:
            return bool_from_text(text)
        if self.kind is int:
            return int_from_text(text)
        return text


def knobs_of_section(section: str, section_type: type[Any]) -> Iterator[Knob]:
    """Yields the settings of a section, a dataclass with fields by `knob`."""
    kinds = get_type_hints(section_type)
    for item in fields(section_type):
        default: Any = item.default
        yield Knob(
            section=section,
            name=item.name,
            kind=kinds[item.name],
            default=default,
            **item.metadata,
        )
