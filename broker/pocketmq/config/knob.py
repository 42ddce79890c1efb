"""One setting as data: its key, kind, bounds and default, its reason, and RocketMQ's name for it.

A field's name carries its unit and with it how its text is read: `_bytes` takes "64MiB", `_ms`
takes "10s" but no number without a unit, `_percent` takes "85%"; all others are parsed by their
type.
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
    """Returns a dataclass field that is one setting; `why` is shown in conf/broker.toml."""
    extra = {"why": why, "rocketmq": rocketmq, "choices": choices, "read": read, "live": live}
    return field(default=default, metadata={**extra, "lower": lower, "upper": upper})


live_knob: Final = partial(knob, live=True)
"""The same for a setting that a running broker takes over when it reads its settings again."""


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
        """How the operator names it: section.name."""
        return f"{self.section}.{self.name}"

    @property
    def is_duration(self) -> bool:
        """Whether the value is a duration, written with a unit."""
        return self.name.endswith("_ms") and self.read is None

    def value_of(self, given: object, *, is_rocketmq: bool = False) -> Value:
        """Returns the value of a text, or of a TOML value.

        is_rocketmq   it was given by RocketMQ's name, where a duration is a number of ms
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
        """Returns a value as people write it, in the largest unit that needs no fraction."""
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
    """Yields the settings of a section, a dataclass whose fields `knob` made."""
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
