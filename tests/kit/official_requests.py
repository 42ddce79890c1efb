"""Send requests of all kinds from official clients, and the brokers that serve them.

maker = OfficialMaker(Random(1))
async with twins(official_twin) as (quick, usual): …
"""

import zlib
from hashlib import md5
from typing import Final

from pocketmq.rpc.pb import messaging_pb2 as pb
from tests.kit.official import OfficialDesk
from tests.kit.send_requests import (
    LONG,
    ODD_NAMES,
    ODD_TEXTS,
    ODD_TOPICS,
    ODD_VALUES,
    TEXTS,
    TOPICS,
    SeededMaker,
    Twin,
)
from tests.kit.store_broker import StoreBroker

BORN_HOSTS: Final = ("client-host", "10.1.2.3:4567", "a b", "")
ODD_BORN_HOSTS: Final = ("h\xf6st", "a\x01b", "\x7f", LONG * 3)
SECONDS: Final = (0, 1, 1_795_000_000, 253_402_300_799)
ODD_SECONDS: Final = (-1, 253_402_300_800, 1 << 62)
NANOS: Final = (0, 1, 999_999, 1_000_000, 999_999_999, 2_000_000_000)
NAMESPACE: Final = "shop"
MESSAGE_GROUPS: Final = ("g", "order-4711", "!~|", LONG[:63])
ODD_MESSAGE_GROUPS: Final = (*ODD_TEXTS, LONG[:64], "g")


class OfficialMaker(SeededMaker):
    """Makes requests of RocketMQ's protocol."""

    def _is(self, share: float) -> bool:
        return self._random.random() < share

    def _request(self) -> pb.SendMessageRequest:
        count = self._random.choice((1, 1, 1, 2, 3, 5, 17))
        topic = pb.Resource(name=self._of(TOPICS, ODD_TOPICS))
        if self._is(0.1):
            topic.resource_namespace = self._of((NAMESPACE,), ("\xfc", "a/b", "%"))
        messages = [self._message(topic) for _ in range(count)]
        if self._is(0.02 if topic.name == "orders" else 0.4):
            group = self._random.choice(MESSAGE_GROUPS)
            for message in messages:
                message.system_properties.message_group = self._of((group,), ODD_MESSAGE_GROUPS)
        if self._is(0.2):
            for message in messages:
                message.system_properties.body_encoding = pb.GZIP
        return pb.SendMessageRequest(messages=messages)

    def _message(self, topic: pb.Resource) -> pb.Message:
        body = self._random.randbytes(self._of((1, 7, 100, 127, 128, 300), (0, 17_000)))
        message = pb.Message(topic=topic, body=body)
        for _ in range(self._random.randrange(self._properties_max + 1)):
            name = self._of(("colour", "a.b", "x"), ODD_NAMES)
            message.user_properties[name] = self._of(("red", "a b", LONG * 2), ODD_VALUES)
        system = message.system_properties
        system.message_id = self._of((*TEXTS, LONG), ODD_TEXTS)
        if self._is(0.6):
            system.tag = self._of(TEXTS, ODD_TEXTS)
        for _ in range(self._random.choice((0, 1, 1, 2, 4))):
            system.keys.append(self._of((*TEXTS, LONG), ODD_TEXTS))
        system.body_encoding = self._of((0, 1), (2, 3))  # type: ignore[assignment]
        system.message_type = self._of((0, 1, 2, 3, 5, 6), (4, 7, -1))  # type: ignore[assignment]
        if self._is(0.7):
            system.born_timestamp.seconds = self._of(SECONDS, ODD_SECONDS)
            system.born_timestamp.nanos = self._of(NANOS, (-1,))
        if self._is(0.7):
            system.born_host = self._of(BORN_HOSTS, ODD_BORN_HOSTS)
        if self._is(0.3):
            system.queue_id = self._of((0, 7, 2**31 - 1), (-1,))
        if self._is(0.2):
            system.delivery_attempt = self._of((0, 1, 2**31 - 1), (-1,))
        if self._is(0.2):
            system.trace_context = self._of(("00-ab-cd-01", " "), ("", "\x02", "\xfc"))
        if self._is(0.2):
            self._sign(message)
        if self._is(self._oddity / 4):
            self._spoil(message)
        return message

    def _sign(self, message: pb.Message) -> None:
        """Adds a digest of the body, as some client writes it, or a wrong one."""
        crc = zlib.crc32(message.body)
        digest = message.system_properties.body_digest
        digest.type = pb.CRC32
        texts = (f"{crc:X}", f"{crc:08X}", f"{crc:08x}")
        digest.checksum = self._of(texts, (str(crc), f" {crc:X} ", f"{crc ^ 1:X}", "", "0"))
        if self._is(self._oddity):
            digest.type = self._random.choice((0, 2, 3, 9))  # type: ignore[assignment]
            digest.checksum = self._random.choice((md5(message.body).hexdigest(), "nothing"))

    def _spoil(self, message: pb.Message) -> None:
        """Adds a part that only the usual path serves."""
        system = message.system_properties
        match self._random.randrange(8):
            case 0:
                system.message_group = self._random.choice(("g", ""))
            case 1:
                system.delivery_timestamp.seconds = self._random.choice((0, 1, 1_795_000_000))
            case 2:
                system.priority = self._random.choice((0, 1, -1))
            case 3:
                system.lite_topic = "l"
            case 4:
                system.orphaned_transaction_recovery_duration.seconds = 5
            case 5:
                message.topic.name = "orders"
            case 6:
                system.receipt_handle = "h"
            case _:
                message.ClearField("system_properties")


def official_twin(broker: StoreBroker, *, is_quick: bool) -> Twin:
    """Returns a broker that serves RocketMQ's protocol."""
    desk = OfficialDesk(broker)
    method = desk.methods["SendMessage"]
    assert method.shortcut is not None
    return Twin(broker, method, method.shortcut if is_quick else None, desk.call())
