"""JSON whose maps have objects as keys, as fastjson writes them: {{"queueId":0}:{"maxOffset":5}}.

Other parsers reject this text, so it is used only where RocketMQ's clients expect it.
"""

import json
import re
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from pocketmq.wire.remoting import Command

VERSION: Final = {"counter": 0, "stateVersion": 0, "timestamp": 0}
"""Version of tables (DataVersion) in answers; it never changes."""
text_of: Final = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))
"""Returns the JSON text of a value, without blanks."""
_KEY: Final = re.compile(r"(?<=[{,])\s*(\{[^{}]*\})\s*:")


def queue_key(broker: str, topic: str, queue_id: int) -> dict[str, Any]:
    """Returns a queue as RocketMQ writes it (MessageQueue)."""
    return {"brokerName": broker, "queueId": queue_id, "topic": topic}


def object_keyed(rows: Iterable[tuple[dict[str, Any], Any]]) -> str:
    """Returns the text of a map whose keys are objects."""
    return "{" + ",".join(f"{text_of(key)}:{text_of(value)}" for key, value in rows) + "}"


def keyed_text(name: str, rows: Iterable[tuple[dict[str, Any], Any]], **more: Any) -> str:
    """Returns the JSON text of an object: `name` is a map of object keys, `more` other members."""
    members = [f'"{name}":{object_keyed(rows)}']
    members += [f'"{member}":{text_of(value)}' for member, value in more.items()]
    return "{" + ",".join(members) + "}"


def keyed_answer(name: str, rows: Iterable[tuple[dict[str, Any], Any]], **more: Any) -> Command:
    """Returns an answer whose body is the text of `keyed_text`."""
    return Command(0, body=keyed_text(name, rows, **more).encode())


def object_keyed_in(body: bytes, name: str) -> list[tuple[dict[str, Any], int]] | None:
    """Returns a map of a client's reply whose keys are queues and whose values are offsets.

    Returns None if the reply does not have the form that RocketMQ's clients write.
    """
    try:
        text = _KEY.sub(lambda found: f"{json.dumps(found[1])}:", body.decode())
        table = json.loads(text)[name]
        rows = [(json.loads(key), value) for key, value in table.items()]
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None
    return rows if all(type(key) is dict and type(at) is int for key, at in rows) else None
