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
    delay_ms        from the arrival at the broker
    priority        higher priorities are delivered first
    producer_group  group that decides a transaction; "": the topic's name
    first_check_ms  time before the first check of a transaction
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
    """Messages of a request, by column, as the client sent them; not checked yet.

    wait         whether the answer waits until the messages are as durable as the flush mode says
    keys         a list for each message
    message_ids  "": the broker generates an id
    queue_ids    ABSENT_QUEUE: the broker chooses a queue
    groups       message groups, "" for none
    born_ms      0: now
    born_hosts   packed; PEER: the sender's address
    properties   user properties
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
    """Attributes that a protocol version, not the client, adds to a request's messages.

    notes        encoded properties that replace WAIT, one text for each message; empty: none
    system_flag  flag of all messages: whether their bodies are compressed
    blocks       property blocks as a classic client encoded them, stored as they are but for what
                 the broker adds; empty: the broker encodes the blocks
    queue_count  queues of a topic that the send creates, as its client expects; 0: the default
    """

    notes: Sequence[str] = ()
    system_flag: int = 0
    blocks: Sequence[str] = ()
    queue_count: int = 0


PLAIN_ENVELOPE: Final = Envelope()


def kind_of(drafts: Drafts) -> MessageKind:
    """Returns the kind of a request's messages, of which there is at least one.

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
