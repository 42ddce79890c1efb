"""The settings as a file to start from: conf/broker.toml, every key commented out at its default.

python -m broker.config > conf/broker.toml
"""

import json
from dataclasses import fields
from inspect import getdoc
from textwrap import wrap
from typing import Final

from broker.config.sections import KNOBS, SECTIONS, Knob
from broker.config.units import text_from_duration, text_from_size

LINE_WIDTH: Final = 98
HEADER: Final = """\
# PocketMQ's settings, each commented out at its default.
#
#   pocketmq serve -c conf/broker.toml
#
# Over this file go the environment (POCKETMQ__STORE__FLUSH=async) and then --set store.flush=async,
# which also takes the RocketMQ names given in parentheses (--set flushDiskType=ASYNC_FLUSH).
# Sizes take B, KiB, MiB, GiB; durations ms, s, m, h, d; numbers alone are bytes or milliseconds.
"""


def sample_file() -> str:
    """Return the text of conf/broker.toml."""
    parts = [HEADER]
    for section, kind in SECTIONS.items():
        about = (getdoc(kind) or "").partition("\n")[0]
        knobs = [KNOBS[f"{section}.{item.name}"] for item in fields(kind)]
        parts += [f"# {about}\n[{section}]\n", *(_entry(knob) for knob in knobs)]
    return "\n".join(parts)


def _entry(knob: Knob) -> str:
    choices = f" One of: {', '.join(knob.choices)}." if knob.choices else ""
    rocketmq = f" ({knob.rocketmq})" if knob.rocketmq else ""
    lines = wrap(f"{knob.why}{choices}{rocketmq}", LINE_WIDTH)
    return "".join(f"# {line}\n" for line in lines) + f"#{knob.name} = {_shown(knob)}\n"


def _shown(knob: Knob) -> str:
    default = knob.default
    text = ""
    if knob.name.endswith("_bytes") and isinstance(default, int):
        text = text_from_size(default)
    if knob.name.endswith("_ms") and isinstance(default, int):
        text = text_from_duration(default)
    return json.dumps(default if text in ("", str(default)) else text)
