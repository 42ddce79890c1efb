"""The settings: one dataclass a section, one field a knob, each with its reason.

`KNOBS` lists all of them by key ("store.flush"). RocketMQ's name for a setting stands beside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from broker.config.knob import Knob, Value, knobs_of_section
from broker.config.presets import EDGE, PRESETS
from broker.config.sections_broker import (
    BrokerSection,
    HttpSection,
    LimitsSection,
    LogsSection,
    MetricsSection,
    RpcSection,
)
from broker.config.sections_store import RetentionSection, StoreSection
from broker.store.settings import StoreSettings

if TYPE_CHECKING:
    from broker.services.retention import RetentionSettings

SECTIONS: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {
        "store": StoreSection,
        "retention": RetentionSection,
        "broker": BrokerSection,
        "limits": LimitsSection,
        "rpc": RpcSection,
        "http": HttpSection,
        "metrics": MetricsSection,
        "logs": LogsSection,
    }
)
KNOBS: Final[Mapping[str, Knob]] = MappingProxyType(
    {knob.key: knob for name, kind in SECTIONS.items() for knob in knobs_of_section(name, kind)}
)
"""Every setting by its key."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """All sections, who set which key ("store.flush" -> "--set"), and what to tell the operator."""

    store: StoreSection = field(default_factory=StoreSection)
    retention: RetentionSection = field(default_factory=RetentionSection)
    broker: BrokerSection = field(default_factory=BrokerSection)
    limits: LimitsSection = field(default_factory=LimitsSection)
    rpc: RpcSection = field(default_factory=RpcSection)
    http: HttpSection = field(default_factory=HttpSection)
    metrics: MetricsSection = field(default_factory=MetricsSection)
    logs: LogsSection = field(default_factory=LogsSection)
    preset: str = EDGE
    preset_origin: str = "default"
    origins: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def retention_is_set(self) -> bool:
        """Whether the operator set any key of the section."""
        return any(key.startswith("retention.") for key in self.origins)

    def value(self, key: str) -> Value:
        """Return the value of a setting by its key, one of KNOBS."""
        section, _, name = key.partition(".")
        value: Value = getattr(getattr(self, section), name)
        return value

    def origin(self, key: str) -> str:
        """Return who said so: a file and line, a variable, --set, the preset or the default."""
        if key in self.origins:
            return self.origins[key]
        return f"preset {self.preset}" if key in PRESETS[self.preset] else "default"

    def store_settings(self) -> StoreSettings:
        """Return what the store is told; sizes the operator did not set give way to the store's."""
        values = {item.name: getattr(self.store, item.name) for item in fields(self.store)}
        values["directory"] = Path(self.store.directory).expanduser()
        names = [key.partition(".") for key in self.origins]
        return StoreSettings(
            **values,
            cluster=self.broker.cluster,
            broker=self.broker.name,
            max_message_size_bytes=self.limits.max_message_size_bytes,
            explicit=frozenset(name for section, _, name in names if section == "store"),
        )

    def retention_settings(self) -> "RetentionSettings":
        """Return what retention is told."""
        from broker.services.retention import RetentionSettings  # offline tools need none of it

        section = self.retention
        return RetentionSettings(
            **{item.name: getattr(section, item.name) for item in fields(section)}
        )
