"""Settings as TOML: a sample file, and a file of given values.

`sample_file` generates conf/broker.toml, in which every key is commented out at its default.
    pocketmq config init > conf/broker.toml
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from inspect import getdoc
from textwrap import wrap
from typing import Final

from pocketmq.config.knob import Knob, Value
from pocketmq.config.sections import EDGE, KNOBS, PRESET, PRESETS, SECTIONS

LINE_WIDTH: Final = 98
HEADER: Final = """\
# PocketMQ's settings, each commented out at its default.
#
#   pocketmq serve -c broker.toml
#   pocketmq config check broker.toml
#
# This file is overridden by the files conf.d/*.toml next to it, in order of their names. These are
# overridden by the environment (POCKETMQ__STORE__FLUSH=async, or
# POCKETMQ__STORE__FLUSH_FILE=/run/secrets/flush), and all of them by --set store.flush=async, which
# also accepts the RocketMQ names given in parentheses (--set flushDiskType=ASYNC_FLUSH).
# Sizes have the unit B, KiB, MiB, GiB or TiB, durations ms, s, m, h or d. A size without a unit is
# in bytes; a duration without a unit is refused.
# On SIGHUP, a running broker reads all of these sources again and applies the settings that are
# marked "Live."
"""
ABOUT_PRESETS: Final = """\
# Defaults for a kind of machine. dev: a developer's machine, flush async. edge: one small machine,
# flush sync. server: RocketMQ's defaults, files of 1 GiB, a large index, flush async.
"""


def sample_file(preset: str = EDGE) -> str:
    """Returns a file in which every key is commented out, except a preset other than edge."""
    line = f"{PRESET} = {json.dumps(preset)}\n"
    parts = [HEADER, ABOUT_PRESETS + (line if preset != EDGE else f"#{line}")]
    for section, kind in SECTIONS.items():
        about = (getdoc(kind) or "").partition("\n")[0]
        knobs = [KNOBS[f"{section}.{item.name}"] for item in fields(kind)]
        parts.append(f"# {about}\n[{section}]\n")
        parts += [_entry(knob, PRESETS[preset].get(knob.key, knob.default)) for knob in knobs]
    return "\n".join(parts)


def settings_text(values: Mapping[str, Value], remarks: Mapping[str, str]) -> str:
    """Returns TOML that sets the given keys, by section.

    remarks   comments after values, by key
    """
    parts: dict[str, str] = {}
    for key, knob in KNOBS.items():
        if key in values:
            remark = f"  # {remarks[key]}" if remarks.get(key) else ""
            line = f"{knob.name} = {toml_value(knob, values[key])}{remark}\n"
            parts[knob.section] = parts.get(knob.section, f"[{knob.section}]\n") + line
    return "\n".join(parts.values())


def toml_value(knob: Knob, value: Value) -> str:
    """Returns a value in TOML: a number, a boolean, or a text with a unit."""
    text = knob.text_of(value)
    if isinstance(value, bool) or text == str(value) != value:
        return text
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _entry(knob: Knob, default: Value) -> str:
    choices = f" One of: {', '.join(knob.choices)}." if knob.choices else ""
    live = " Live." if knob.live else ""
    rocketmq = f" ({knob.rocketmq})" if knob.rocketmq else ""
    lines = wrap(f"{knob.why}{choices}{live}{rocketmq}", LINE_WIDTH)
    return (
        "".join(f"# {line}\n" for line in lines) + f"#{knob.name} = {toml_value(knob, default)}\n"
    )
