"""Messages that a classic consumer could not process (36 CONSUMER_SEND_MSG_BACK).

Source: AbstractSendMessageProcessor.consumerSendMsgBack.
"""

from functools import partial
from typing import Final

from pocketmq.model.message import INT32_MAX, OFFSET_MAX, StoredMessage
from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.fields import number_field, text_field
from pocketmq.rpc.classic.heartbeats import ClassicClients
from pocketmq.rpc.classic.status import OF_PUT, OK, SUCCESS
from pocketmq.rpc.permissions import SUB, topic_need
from pocketmq.rpc.services import Services
from pocketmq.rpc.topic_access import check_client_reads, check_may
from pocketmq.wire.remoting import Command

GROUPS_RETRIES: Final = -1
"""Value of maxReconsumeTimes that leaves the number of retries to the group's settings."""


class ClassicSendBack:
    """The request that sends a message back."""

    __slots__ = ("_clients", "_returns")

    def __init__(self, backing: Services, clients: ClassicClients) -> None:
        self._clients = clients
        self._returns = backing.consume.returns

    async def send_back(self, request: Command, call: ClassicCall) -> Command:
        """Schedules redelivery of a message by delay level, or makes it a dead letter.

        Errors   MalformedRequest, IllegalNumber, GroupNotFound, GroupDisabled, SystemTopic,
                 AccessDenied, MessageNotFound; those of a put: nothing was stored
        """
        group = text_field(request, "group")
        retries = number_field(
            request, "maxReconsumeTimes", lower=-INT32_MAX, absent=GROUPS_RETRIES
        )
        physical_offset = number_field(request, "offset", upper=OFFSET_MAX)
        level = number_field(request, "delayLevel", lower=-INT32_MAX, absent=0)
        await self._clients.ensure(group)
        status = await self._returns.send_back(
            group,
            physical_offset,
            level,
            retries_max=max(retries, GROUPS_RETRIES),
            check=partial(_check, group, call),
        )
        code = OF_PUT[status]
        return OK if code == SUCCESS else Command(code, remark=status.name)


def _check(group: str, call: ClassicCall, message: StoredMessage) -> None:
    """Checks that a group's client may read a message.

    Errors   SystemTopic, AccessDenied
    """
    check_client_reads(message.topic, group)
    check_may(call, topic_need(message.topic, SUB))
