"""Drafts of messages as clients send them, one by one.

drafts_of(draft("orders", b"a"), draft("orders", b"b", tag="TagA"))
"""

from collections.abc import Mapping
from typing import NamedTuple

from pocketmq.services.produce.drafts import ABSENT_QUEUE, AT_ONCE, DeliveryRequest, Drafts
from tests.kit.store_language import BORN_HOST


class Draft(NamedTuple):
    """One message; the fields are those of `Drafts`."""

    topic: str
    body: bytes
    tag: str
    keys: tuple[str, ...]
    message_id: str
    queue_id: int
    group: str
    born_ms: int
    born_host: bytes
    flag: int
    properties: Mapping[str, str]
    delivery: DeliveryRequest


def draft(
    topic: str = "orders",
    body: bytes = b"x",
    *,
    tag: str = "",
    keys: tuple[str, ...] = (),
    message_id: str = "",
    queue_id: int = ABSENT_QUEUE,
    group: str = "",
    born_ms: int = 0,
    flag: int = 0,
    properties: dict[str, str] | None = None,
    delivery: DeliveryRequest = AT_ONCE,
    **more: str,
) -> Draft:
    """Returns a message as a client sends it; `more` are properties too."""
    return Draft(
        topic, body, tag, keys, message_id, queue_id, group, born_ms, BORN_HOST, flag,
        {**(properties or {}), **more}, delivery,
    )  # fmt: skip


def drafts_of(*drafts: Draft, wait: bool = True) -> Drafts:
    """Joins messages to drafts."""
    columns = map(list, zip(*drafts, strict=True)) if drafts else ([] for _ in Draft._fields)
    return Drafts(wait, *columns)
