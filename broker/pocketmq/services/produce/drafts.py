"""The messages of a send request as columns, and their kind.

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
    """Delivery option of a message; 0 and None: the option is not used.

    delay_level     1 or higher
    deliver_at_ms   wall time
    delay_ms        delay from the arrival at the broker; of a transaction, from its commit
    priority        higher priorities are delivered first
    producer_group  group that decides the transaction; "": the topic's name
    first_check_ms  time until the broker first checks the transaction
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
    """Unchecked messages of a request as columns: each list has an entry for every message.

    wait         whether the answer waits until the messages are durable, as the flush mode requires
    message_ids  "": the broker generates an id
    queue_ids    ABSENT_QUEUE: the broker chooses a queue
    groups       message groups; "": the message has no message group
    born_ms      0: the present time
    born_hosts   packed addresses; PEER: the address of the sender
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
    """Attributes of a request's messages that depend on the protocol.

    notes        for each message: encoded properties that replace WAIT; empty: WAIT is stored
    system_flag  system flag of all messages: whether their bodies are compressed
    blocks       property blocks that a classic client encoded, to which the broker adds its
                 properties; empty: the broker encodes the blocks. As in RocketMQ, the type of a
                 topic does not restrict messages of classic clients
    queue_count  number of queues that the client expects if the send creates the topic; 0: any
    returned_times   how often a group returned the messages; their topic is its retry or
                     dead-letter topic, which exists. None: the messages are new
    """

    notes: Sequence[str] = ()
    system_flag: int = 0
    blocks: Sequence[str] = ()
    queue_count: int = 0
    returned_times: int | None = None


PLAIN_ENVELOPE: Final = Envelope()


def kind_of(drafts: Drafts) -> MessageKind:
    """Returns the kind of a request's messages; the request has at least one message.

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
    if delivery.transactional and len(found) == 2:  # Such a message is delayed after its commit.
        found = [one for one in found if one[1] is not MessageKind.DELAY]
    if len(found) > 1:
        raise AmbiguousKind(position=position, why=" and ".join(name for name, _ in found))
    return found[0][1] if found else MessageKind.NORMAL
