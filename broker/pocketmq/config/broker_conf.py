"""Imports RocketMQ's broker.conf as PocketMQ settings.

The result starts from the preset `server`, because its defaults are RocketMQ's: each name, value
and default then means the same as in RocketMQ. Settings without a meaning in PocketMQ are left out
and reported with the reason. Unknown names are left out as well, or are errors in a strict import.
A value that cannot be parsed is always an error.

A proxy's rmq-proxy.json can also be imported. Its unknown names are left out even in a strict
import, and names with an empty value are ignored. Values that may be secrets are not shown.
"""

import json
import re
from pathlib import Path
from typing import Final, NamedTuple

from pocketmq.config import rocketmq
from pocketmq.config.addresses import is_loopback
from pocketmq.config.document import settings_text
from pocketmq.config.load import LISTEN, Layers, checked
from pocketmq.config.rocketmq_files import (
    TAKEN,
    UNKNOWN,
    LeftOut,
    Property,
    is_proxy_conf,
    properties,
    proxy_pairs,
    reason_left_out,
    repeated,
    why_proxy_leaves_out,
)
from pocketmq.config.sections import PRESET, SERVER
from pocketmq.model.errors import IllegalConfig, SettingsFileUnusable

HIDDEN: Final = "(not shown)"
LEADER: Final = "replication.leader"
SLAVE_LEADS: Final = (
    f'this broker leads unless {LEADER} names the master, such as "rocketmq://MASTER:10911"'
)
_SECRET: Final = re.compile(
    r"secret|password|passwd|credential|token|private|authenticationUser", re.IGNORECASE
)
"""Pattern of names and values that may be secrets, which are not shown."""


class Imported(NamedTuple):
    """An imported file as PocketMQ settings.

    text       TOML, with comments for settings that are left out
    left_out   names that are left out
    unknown    names of `left_out` that are no known RocketMQ settings, with their lines and the
               nearest known names
    warnings   notes for the operator
    problems   errors; if there are any, the text must not be used
    """

    text: str
    left_out: list[str]
    unknown: list[str]
    warnings: list[str]
    problems: list[IllegalConfig]


def import_file(path: Path, *, strict: bool = False) -> Imported:
    """Imports a broker.conf or rmq-proxy.json; a result with problems must not be used.

    strict   unknown names in broker.conf are problems; those in rmq-proxy.json never are
    Errors   IllegalConfig: the file cannot be read, or rmq-proxy.json is not a JSON object
    """
    text = text_of(path)
    layers = Layers()
    layers.put(PRESET, SERVER, str(path))
    left_out: dict[str, LeftOut] = {}
    said: dict[str, str] = {}
    take = _take_proxy if is_proxy_conf(path) else _take_broker
    take(path, text, layers, said, left_out, strict)
    loaded = checked(layers)
    head = (
        f"# From {_on_one_line(str(path))} of RocketMQ, whose defaults are those of this preset.\n"
    )
    head += f"{PRESET} = {json.dumps(SERVER)}\n"
    values = {key: loaded.config.value(key) for key in layers.origins}
    remarks = {key: _on_one_line(remark) for key, remark in said.items()}
    parts = [head, settings_text(values, remarks), _left_out_text(left_out)]
    text = "\n".join(part for part in parts if part)
    unknown = [
        f"{name} in line {item.property.line}{item.hint}"
        for name, item in left_out.items()
        if item.why == UNKNOWN
    ]
    return Imported(text, [*left_out], unknown, [*loaded.config.warnings], loaded.problems)


def text_of(path: Path) -> str:
    """Returns the text of a file.

    Errors   IllegalConfig: the file cannot be read, or is not UTF-8
    """
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise SettingsFileUnusable(
            field=str(path), why=f"it cannot be read: {error.strerror}"
        ) from error
    except ValueError:
        raise SettingsFileUnusable(field=str(path), why="it is not UTF-8") from None


def _take_broker(
    path: Path, text: str, layers: Layers, said: dict[str, str], left_out: dict[str, LeftOut],
    strict: bool,
) -> None:  # fmt: skip
    items = properties(text)
    layers.warnings += [f"{path}: {told}" for told in repeated(items)]
    for item in items:
        why, hint = reason_left_out(item.name)
        if why and not (strict and why == UNKNOWN):
            left_out[item.name] = LeftOut(item, why, hint)
            continue
        layers.put_any(item.name, item.value, f"{path}:{item.line}")
        said |= {knob.key: f"{item.name} = {item.value}" for knob in rocketmq.knobs_of(item.name)}

    listen = str(layers.values.get(LISTEN, ""))
    if LISTEN in said and is_loopback(listen):
        layers.warnings.append(
            f"{LISTEN} = {listen}: only this machine reaches it, where RocketMQ listens on all "
            f"addresses; for other machines write 0.0.0.0:{listen.rpartition(':')[2]}, and create "
            "a user (pocketmq user add)"
        )
    _take_role({item.name: item for item in items}, path, layers, said, left_out)


def _take_role(
    items: dict[str, Property], path: Path, layers: Layers, said: dict[str, str],
    left_out: dict[str, LeftOut],
) -> None:  # fmt: skip
    """Makes a slave a follower of the master in `haMasterAddress`, or warns that it leads."""
    role, master = items.get("brokerRole"), items.get("haMasterAddress")
    if role is None or role.value != "SLAVE":
        return
    leader = rocketmq.leader_of_slave(master.value) if master is not None else ""
    if master is None or not leader:
        left_out[role.name] = LeftOut(role, SLAVE_LEADS, "")
        layers.warnings.append(f"brokerRole = SLAVE: {SLAVE_LEADS}")
        return
    layers.put(LEADER, leader, f"{path}:{master.line}")
    said[LEADER] = f"{role.name} = SLAVE, {master.name} = {master.value}"
    layers.warnings.append(
        f"{LEADER} = {leader}: the port of clients is taken to be the one below that of "
        "haMasterAddress, as RocketMQ chooses them"
    )
    del left_out[role.name], left_out[master.name]


def _take_proxy(
    path: Path, text: str, layers: Layers, said: dict[str, str], left_out: dict[str, LeftOut],
    strict: bool,
) -> None:  # fmt: skip
    for name, value in proxy_pairs(path, text):
        key = TAKEN.get(name)
        if key is None:
            left_out[name] = LeftOut(Property(0, name, value), why_proxy_leaves_out(name), "")
        elif value:
            layers.put(key, value, f"{path}: {name}")
            said[key] = f"{name} = {value}"


def _left_out_text(left_out: dict[str, LeftOut]) -> str:
    by_reason: dict[str, list[LeftOut]] = {}
    for item in left_out.values():
        by_reason.setdefault(item.why, []).append(item)
    lines = ["# Left out:\n"] if by_reason else []
    for why, items in by_reason.items():
        lines.append(f"#   {why}\n")
        for (_, name, value), _, hint in items:
            shown = HIDDEN if _SECRET.search(name) or _SECRET.search(value) else value
            lines.append(f"#     {_on_one_line(f'{name} = {shown}{hint}')}\n")
    return "".join(lines)


def _on_one_line(text: str) -> str:
    """Returns text for a TOML comment: characters that cannot be printed are replaced."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
