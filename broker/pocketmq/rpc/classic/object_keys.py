"""JSON whose maps have objects as keys, as fastjson writes them: {{"queueId":0}:{"maxOffset":5}}.

Readers other than fastjson cannot parse it, so nothing else is written like this.
"""

import json
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from pocketmq.wire.remoting import Command

VERSION: Final = {"counter": 0, "stateVersion": 0, "timestamp": 0}
"""Version of tables (DataVersion); it never changes, as pages are read by number."""
_text: Final = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))


def queue_key(broker: str, topic: str, queue_id: int) -> dict[str, Any]:
    """Returns a queue as RocketMQ writes it (MessageQueue)."""
    return {"brokerName": broker, "queueId": queue_id, "topic": topic}


def object_keyed(rows: Iterable[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """Returns the text of a map whose keys are objects."""
    return "{" + ",".join(f"{_text(key)}:{_text(value)}" for key, value in rows) + "}"


def keyed_answer(
    name: str, rows: Iterable[tuple[dict[str, Any], dict[str, Any]]], **more: Any
) -> Command:
    """Returns an answer with a map of object keys, and further members."""
    members = [f'"{name}":{object_keyed(rows)}']
    members += [f'"{member}":{_text(value)}' for member, value in more.items()]
    return Command(0, body=("{" + ",".join(members) + "}").encode())
