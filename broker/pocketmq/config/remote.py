"""Settings that operators change over the network, with mqadmin updateBrokerConfig.

Only settings of a fixed list can be changed, which a running broker applies at once. A change is
kept in memory until the broker ends: files of settings are never written.
Source: AdminBrokerProcessor.updateBrokerConfig.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pocketmq.config.knob import Value
from pocketmq.config.load import Layers
from pocketmq.config.relations import too_low
from pocketmq.config.rocketmq_files import properties, reason_left_out
from pocketmq.config.sections import KNOBS, PRESET, SECTIONS, Config
from pocketmq.model.errors import IllegalConfig, TooManyElements, UnsupportedFeature

ORIGIN: Final = "updateBrokerConfig"
"""Origin of a setting that was changed over the network."""
CHANGES_MAX: Final = 64
"""Upper limit of settings in one request."""
CHANGEABLE: Final = (
    "retention.age_ms", "retention.hours", "retention.disk_expire_percent",
    "retention.disk_force_percent", "retention.file_batch_max", "broker.permission",
    "broker.auto_create_topics", "broker.auto_create_groups", "broker.default_queue_count",
    "broker.check_message_types", "limits.max_message_size_bytes", "limits.delay_max_ms",
    "transactions.refuse", "transactions.timeout_ms", "transactions.check_interval_ms",
    "transactions.checks_max",
)  # fmt: skip
"""Settings that can be changed; each is live and has a name of RocketMQ's."""
_ELSEWHERE: Final = "the settings file and SIGHUP, or --set and a restart"


def remote_changes(text: str) -> dict[str, Value]:
    """Returns key -> value for the lines of a properties file, whose names are ours or RocketMQ's.

    Errors   IllegalConfig: an illegal value, or no line; UnsupportedFeature: another setting;
             TooManyElements
    """
    layers = Layers()
    lines = properties(text)
    if len(lines) > CHANGES_MAX:
        raise TooManyElements(field="settings", limit=CHANGES_MAX)
    for line in lines:
        why, hint = reason_left_out(line.name)
        if why:
            feature = f"changes of {line.name!r}: {why}{hint}; changeable: {', '.join(_names())}"
            raise UnsupportedFeature(feature=feature)
        layers.put_any(line.name, line.value, ORIGIN)
    if layers.problems:
        raise layers.problems[0]
    others = sorted(layers.origins.keys() - {*CHANGEABLE})
    others += [PRESET] if layers.preset_origin == ORIGIN else []
    if others:
        feature = f"changes of {', '.join(others)} over the network; use {_ELSEWHERE}"
        raise UnsupportedFeature(feature=feature)
    if not layers.values:
        raise IllegalConfig(field=ORIGIN, why="it has no line NAME=VALUE")
    return layers.values


def _names() -> list[str]:
    return [KNOBS[key].rocketmq for key in CHANGEABLE]


def overridden(config: Config, values: Mapping[str, Value]) -> Config:
    """Returns settings with other values of some keys.

    Errors   IllegalConfig: a value is below its floor
    """
    sections = {
        name: replace(
            getattr(config, name),
            **{KNOBS[key].name: at for key, at in values.items() if KNOBS[key].section == name},
        )
        for name in SECTIONS
    }
    origins = {**config.origins, **dict.fromkeys(values, ORIGIN)}
    found = replace(config, **sections, origins=origins)
    for problem in too_low(found):
        if problem.field in values:
            raise problem
    return found
