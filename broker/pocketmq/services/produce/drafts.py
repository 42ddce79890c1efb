"""Messages of a send request, by column, and their kind.

A message has at most one delivery option: a message group, a delay level, a delivery time, a
delay, a transaction or a priority. All messages of one request are of one kind.
Source: TopicMessageType.parseFromMessageProperty, SendMessageActivity.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pocketmq.model.errors import AmbiguousKind, MixedKinds
from pocketmq.model.message_kind import MessageKind

ABSENT_QUEUE: Final = -1
PEER: Final = b""


class DeliveryRequest(NamedTuple):
    """Delivery option of a message; 0 and None: not given.

    delay_level     from 1 on
    deliver_at_ms   wall time
    delay_ms        from when the broker takes it
    priority        higher ones first
    producer_group  of a transaction: the group that decides it; "": the topic's name
    first_check_ms  of a transaction: time before its first check
    """

    delay_level: int = 0
    deliver_at_ms: int = 0
    delay_ms: int = 0
    transactional: bool = False
    priority: int | None = None
    producer_group: str = ""
    first_check_ms: int = 0


AT_ONCE: Final = DeliveryRequest()


class Drafts(NamedTuple):
    """Messages as a client asks for them, by column; nothing of them is checked yet.

    wait         answer when the flush mode's promise holds
    keys         a list for each message
    message_ids  "" where the broker is to make one
    queue_ids    ABSENT_QUEUE where the broker is to choose; groups: "" for none
    born_ms      0 for now
    born_hosts   packed, PEER for the sender's address
    properties   the user's own
    """

    wait: bool
    topics: list[str]
    bodies: list[bytes]
    tags: list[str]
    keys: list[Sequence[str]]
    message_ids: list[str]
    queue_ids: list[int]
    groups: list[str]
    born_ms: list[int]
    born_hosts: list[bytes]
    flags: list[int]
    properties: list[Mapping[str, str]]
    deliveries: list[DeliveryRequest]


class Envelope(NamedTuple):
    """Attributes that a protocol version stores with a request's messages, set by no client.

    notes        replaces WAIT in each message's property block; none: nothing
    system_flag  of all: whether their bodies are compressed
    """

    notes: Sequence[str] = ()
    system_flag: int = 0


PLAIN_ENVELOPE: Final = Envelope()


def kind_of(drafts: Drafts) -> MessageKind:
    """Returns the kind of a request's messages, of which there are some.

    Errors   AmbiguousKind, MixedKinds
    """
    deliveries, groups = drafts.deliveries, drafts.groups
    if deliveries.count(AT_ONCE) == len(deliveries):
        return MessageKind.FIFO if groups[0] else MessageKind.NORMAL
    kinds = [
        _kind_of_one(number, group, delivery)
        for number, (group, delivery) in enumerate(zip(groups, deliveries, strict=True))
    ]
    for kind in kinds:
        if kind is not kinds[0]:
            raise MixedKinds(kind=kinds[0].value, other=kind.value)
    return kinds[0]


def _kind_of_one(position: int, group: str, delivery: DeliveryRequest) -> MessageKind:
    wishes = {
        "a message group": (bool(group), MessageKind.FIFO),
        "a delay level": (delivery.delay_level > 0, MessageKind.DELAY),
        "a delivery time": (delivery.deliver_at_ms > 0, MessageKind.DELAY),
        "a delay": (delivery.delay_ms > 0, MessageKind.DELAY),
        "a transaction": (delivery.transactional, MessageKind.TRANSACTION),
        "a priority": (delivery.priority is not None, MessageKind.PRIORITY),
    }
    found = [(name, kind) for name, (is_asked, kind) in wishes.items() if is_asked]
    if len(found) > 1:
        raise AmbiguousKind(position=position, why=" and ".join(name for name, _ in found))
    return found[0][1] if found else MessageKind.NORMAL
