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
# Over this file go the files conf.d/*.toml beside it by name, the environment
# (POCKETMQ__STORE__FLUSH=async, or POCKETMQ__STORE__FLUSH_FILE=/run/secrets/flush), and then --set
# store.flush=async, which also takes the RocketMQ names given in parentheses
# (--set flushDiskType=ASYNC_FLUSH).
# Sizes take B, KiB, MiB, GiB; durations ms, s, m, h, d. Numbers alone are
# bytes; a duration without a unit is refused.
# A running broker that gets SIGHUP reads all of this again and takes over what is marked "Live."
"""
ABOUT_PRESETS: Final = """\
# Defaults for a kind of machine. dev: a workbench, flush async. edge: one small machine, flush
# sync. server: RocketMQ's own, files of 1 GiB, a large index, flush async.
"""


def sample_file(preset: str = EDGE) -> str:
    """Returns a file with every key commented out, and the preset unless it is edge."""
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
