"""Operators' requests about connected classic clients.

    203  GET_CONSUMER_CONNECTION_LIST    307  GET_CONSUMER_RUNNING_INFO, passed on to the client
    204  GET_PRODUCER_CONNECTION_LIST    309  CONSUME_MESSAGE_DIRECTLY, passed on to the client
    328  GET_ALL_PRODUCER_INFO

Source: AdminBrokerProcessor.callConsumer, Broker2Client.callClient.
"""

from collections.abc import Hashable, Mapping
from typing import Any, Final

from pocketmq.format.addresses import parse_offset_message_id
from pocketmq.model.errors import MessageNotFound
from pocketmq.rpc.channel import ClassicCall, RemotingChannel, answer_within
from pocketmq.rpc.classic.fields import text_field
from pocketmq.rpc.classic.json_body import json_answer
from pocketmq.rpc.classic.status import SYSTEM_ERROR
from pocketmq.rpc.permissions import LOOK, SEE, group_need
from pocketmq.rpc.services import Services
from pocketmq.rpc.topic_access import may_see
from pocketmq.services.sessions.classic_groups import ClassicMember, ClassicSubscription
from pocketmq.wire.remoting import FRAME_SIZE_MAX, HEADER_SIZE_MAX, LANGUAGES, Command

NOT_ONLINE: Final = 206
CONSUME_TIMEOUT: Final = 207
ANSWER_S: Final = 10.0
"""Time in seconds that a client has to answer, as in RocketMQ."""
BODY_SIZE_MAX: Final = FRAME_SIZE_MAX - 4 - 6 * HEADER_SIZE_MAX
"""Largest body that fits a frame with any header; an escaped byte takes six bytes in JSON."""
_Members = Mapping[Hashable, ClassicMember]


class AdminClients:
    """The requests about connected clients."""

    __slots__ = ("_backing", "_broker", "_groups")

    def __init__(self, backing: Services, broker: str) -> None:
        self._backing = backing
        self._broker = broker
        self._groups = backing.sessions.classic.groups

    def consumers(self, request: Command, call: ClassicCall) -> Command:
        """Returns the connections and subscriptions of a consumer group.

        Errors   MalformedRequest
        """
        name = text_field(request, "consumerGroup")
        group = self._groups.group(name)
        if group is None:
            return Command(NOT_ONLINE, remark=f"the consumer group[{name}] not online")
        consumer = group.consumer
        return json_answer(
            {
                "connectionSet": _connections(group.members),
                "consumeFromWhere": consumer.begins_at or "CONSUME_FROM_LAST_OFFSET",
                "consumeType": "CONSUME_PASSIVELY" if consumer.is_push else "CONSUME_ACTIVELY",
                "messageModel": "BROADCASTING" if consumer.is_broadcast else "CLUSTERING",
                "subscriptionTable": {
                    topic: subscription_row(one) for topic, one in group.subscriptions.items()
                },
            }
        )

    def producers(self, request: Command, call: ClassicCall) -> Command:
        """Returns the connections of a producer group.

        Errors   MalformedRequest
        """
        name = text_field(request, "producerGroup")
        members = self._groups.producers(name)
        if not members:
            return Command(SYSTEM_ERROR, remark=f"the producer group[{name}] not exist")
        return json_answer({"connectionSet": _connections(members)})

    def all_producers(self, request: Command, call: ClassicCall) -> Command:
        """Returns the connections of all producer groups that the caller may see."""
        clock = self._backing.store.clock
        ahead_ms = clock.wall_ms() - clock.monotonic_ms()
        found = {
            name: [
                {
                    "clientId": one.client_id,
                    "language": _language(one),
                    "lastUpdateTimestamp": one.seen_ms + ahead_ms,
                    "remoteIP": f"/{_address(connection)}",
                    "version": one.version,
                }
                for connection, one in self._groups.producers(name).items()
            ]
            for name in self._groups.producer_groups
            if call.may(group_need(name, SEE))
        }
        return json_answer({"data": found})

    async def running_info(self, request: Command, call: ClassicCall) -> Command:
        """Asks a consumer for its running info, with thread stacks if requested, and returns it.

        If the consumer is not connected or does not answer in time, the answer is an error code.

        Errors   MalformedRequest
        """
        return await self._passed_on(request)

    async def consume_directly(self, request: Command, call: ClassicCall) -> Command:
        """Makes a consumer consume one stored message now, and returns the consumer's result.

        If the consumer is not connected or does not answer in time, the answer is an error code.

        Errors   MalformedRequest, MessageNotFound, StorageError, DiskSlow
        """
        message_id = text_field(request, "msgId")
        place = parse_offset_message_id(message_id)
        found = None if place is None else await self._backing.store.reading.record_at(place[1])
        if found is None or not self._may_see(found[0].topic, found[0].properties, call):
            raise MessageNotFound(topic="", message_id=message_id)
        fields = {**request.fields, "brokerName": self._broker}
        return await self._passed_on(request._replace(fields=fields, body=found[1]))

    def _may_see(self, topic: str, properties: Mapping[str, str], call: ClassicCall) -> bool:
        return may_see(call, self._backing.store.tables, topic, properties, LOOK)

    async def _passed_on(self, request: Command) -> Command:
        group, client_id = text_field(request, "consumerGroup"), text_field(request, "clientId")
        channel = self._groups.connection_of(group, client_id)
        if not isinstance(channel, RemotingChannel):
            return _failed(f"The Consumer <{group}> <{client_id}> not online")
        asked = Command(request.code, _unsigned(request.fields), request.body)
        try:
            reply = await answer_within(channel, asked, ANSWER_S)
        except TimeoutError:
            remark = f"consumer <{group}> <{client_id}> did not answer within {ANSWER_S:.0f} s"
            return Command(CONSUME_TIMEOUT, remark=remark)
        except ConnectionResetError:
            return _failed(f"consumer <{group}> <{client_id}> closed its connection")
        if len(reply.body) > BODY_SIZE_MAX:
            size = len(reply.body)
            return _failed(f"consumer <{group}> <{client_id}> answered with a body of {size} bytes")
        return Command(reply.code, reply.fields, reply.body, remark=reply.remark)


def subscription_row(found: ClassicSubscription) -> dict[str, Any]:
    """Returns a subscription as RocketMQ writes it (SubscriptionData)."""
    return {
        "classFilterMode": False,
        "codeSet": [],
        "expressionType": found.expression_type,
        "subString": found.expression,
        "subVersion": found.version,
        "tagsSet": [],
        "topic": found.topic,
    }


def _unsigned(fields: Mapping[str, str]) -> dict[str, str]:
    signed = ("AccessKey", "Signature", "SecurityToken")
    return {name: value for name, value in fields.items() if name not in signed}


def _failed(remark: str) -> Command:
    return Command(SYSTEM_ERROR, remark=remark)


def _connections(members: _Members) -> list[dict[str, Any]]:
    return [
        {
            "clientAddr": _address(connection),
            "clientId": one.client_id,
            "language": _language(one),
            "version": one.version,
        }
        for connection, one in members.items()
    ]


def _address(connection: Hashable) -> str:
    assert isinstance(connection, RemotingChannel), "a member without a connection"
    return connection.peer.partition(":")[2]


def _language(member: ClassicMember) -> str:
    """Returns a client's language, OTHER if RocketMQ's LanguageCode does not contain it."""
    return member.language if member.language in LANGUAGES else "OTHER"
