"""Reloads the settings of a running broker, all or nothing.

    the same sources ─► wanted ─┬─ invalid, or contradicts fixed keys ─► refused, nothing changes
                                └─ live keys ─► applied     other keys ─► wait for a restart

Live keys are declared with `live_knob` (config/knob.py).
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from shlex import quote
from typing import Final, NamedTuple

from pocketmq.config.knob import Value
from pocketmq.config.load import Loaded
from pocketmq.config.relations import broken
from pocketmq.config.remote import overridden, remote_changes
from pocketmq.config.sections import KNOBS, SECTIONS, Config
from pocketmq.model.errors import IllegalConfig
from pocketmq.model.stats import Gauge

SECTION_OF_STARTS: Final = "store"
"""Section of settings that are fixed once the store is open: none of them is live."""

logger = logging.getLogger(__name__)


class Change(NamedTuple):
    """The result of a reload.

    config    new configuration: wanted values for live keys, running values for others
    changed   "key = value" of changed live keys
    waiting   "key = value" of changed keys that need a restart
    """

    config: Config
    changed: list[str]
    waiting: list[str]


def change(running: Config, wanted: Config) -> Change:
    """Returns the change from the running settings to the wanted ones; pure.

    Errors   IllegalConfig: the wanted live keys contradict keys that need a restart
    """
    different = [key for key in KNOBS if running.value(key) != wanted.value(key)]
    live = {key for key, knob in KNOBS.items() if knob.live}
    sections = {
        name: replace(
            getattr(running, name),
            **{KNOBS[key].name: wanted.value(key) for key in live if KNOBS[key].section == name},
        )
        for name in SECTIONS
    }
    kept = {key: origin for key, origin in running.origins.items() if key not in live}
    taken = {key: origin for key, origin in wanted.origins.items() if key in live}
    config = replace(running, **sections, origins=kept | taken, warnings=wanted.warnings)
    assert getattr(config, SECTION_OF_STARTS) == getattr(running, SECTION_OF_STARTS)
    problems = broken(config)
    if problems:
        raise IllegalConfig(
            field=problems[0].field, why=f"{problems[0].why}; restart to apply both"
        )
    return Change(
        config,
        [_stated(wanted, key) for key in different if key in live],
        [_stated(wanted, key) for key in different if key not in live],
    )


def _stated(config: Config, key: str) -> str:
    return f"{key} = {KNOBS[key].text_of(config.value(key))}"


def _reason(loaded: Loaded) -> str:
    """Returns the first problem of the sources, the number of others and the command for all."""
    first, *others = loaded.problems
    if not others:
        return str(first)
    command = f": pocketmq config check {quote(str(loaded.file))}" if loaded.file else ""
    return f"{first}; and {len(others)} more{command}"


class LiveConfig:
    """The settings of a running broker, and their reload.

    read_again   reads the sources again, with all problems; None: no reload is possible
    """

    __slots__ = ("_followers", "_is_refused", "_overrides", "_read_again", "config", "stats")

    def __init__(self, config: Config, read_again: Callable[[], Loaded] | None = None) -> None:
        self.config = config
        self._read_again = read_again
        self._followers: list[Callable[[Config], None]] = []
        self._is_refused = False
        self._overrides: dict[str, Value] = {}
        """Values that were set over the network; they outlast reloads."""
        self.stats = [
            Gauge(
                "pocketmq_config_reload_refused",
                "1 if the last reload of the settings was refused, so that older ones apply.",
                lambda: float(self._is_refused),
            )
        ]

    @property
    def is_live(self) -> bool:
        """Whether the settings can be reloaded."""
        return self._read_again is not None

    def follow(self, take: Callable[[Config], None]) -> None:
        """Calls a function with the settings, now and after each reload; `take` must not raise."""
        self._followers.append(take)
        take(self.config)

    def reload(self) -> None:
        """Reads the sources again and applies live keys; invalid sources change nothing.

        Cost   some milliseconds: files are read synchronously
        """
        assert self._read_again is not None
        loaded = self._read_again()
        if loaded.problems:
            self._refuse(_reason(loaded))
            return
        try:
            wanted = overridden(loaded.config, self._overrides)
            found = change(self.config, wanted)
        except IllegalConfig as error:
            self._refuse(str(error))
            return
        self._is_refused = False
        for doubt in found.config.warnings:
            if doubt not in self.config.warnings:
                logger.warning("config.suspect", extra={"doubt": doubt})
        self._apply(found.config)
        logger.info(
            "config.reloaded",
            extra={
                "changed": ", ".join(found.changed), "needs_restart": ", ".join(found.waiting),
            },
        )  # fmt: skip

    def _refuse(self, reason: str) -> None:
        logger.error("config.refused", extra={"reason": reason})
        self._is_refused = True

    def override(self, text: str) -> None:
        """Applies changes of live settings that an operator sent over the network; all or nothing.

        The changes last until the broker ends.

        text     lines of a properties file
        Errors   those of `remote_changes`; IllegalConfig: the changes contradict other settings
        """
        given = remote_changes(text)
        found = change(self.config, overridden(self.config, given))
        self._overrides |= given
        self._apply(found.config)
        logger.warning("config.overridden", extra={"changed": ", ".join(found.changed)})

    def _apply(self, config: Config) -> None:
        fixed = [key for key, knob in KNOBS.items() if not knob.live]
        assert all(config.value(key) == self.config.value(key) for key in fixed)
        self.config = config
        for take in self._followers:
            take(config)
