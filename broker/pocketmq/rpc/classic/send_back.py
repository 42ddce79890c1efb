"""Takes back messages that a classic consumer could not process.

    36       CONSUMER_SEND_MSG_BACK, by physical offset
    310, 10  sends to %RETRY%group: from clients for which 36 failed, and from orderly consumers
             when a message has no retries left

Source: AbstractSendMessageProcessor.consumerSendMsgBack, handleRetryAndDLQ.
"""

from collections.abc import Awaitable
from typing import Final

from pocketmq.model.message import INT32_MAX, OFFSET_MAX, StoredMessage
from pocketmq.model.topic import RETRY_PREFIX, dead_letter_topic
from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.fields import number_field, text_field
from pocketmq.rpc.classic.heartbeats import ClassicClients
from pocketmq.rpc.classic.permissions import is_returned
from pocketmq.rpc.classic.status import OF_PUT, OK, SUCCESS
from pocketmq.rpc.permissions import SUB, topic_need
from pocketmq.rpc.services import Services
from pocketmq.rpc.topic_access import check_client_reads, check_may
from pocketmq.services.produce.drafts import AT_ONCE, Drafts, Envelope
from pocketmq.wire.remoting import Command

GROUPS_RETRIES: Final = -1
"""Value of maxReconsumeTimes that leaves the number of retries to the group's settings."""


class ClassicSendBack:
    """The requests that return messages."""

    __slots__ = ("_clients", "_clock", "_locks", "_returns")

    def __init__(self, backing: Services, clients: ClassicClients) -> None:
        self._clients = clients
        self._clock = backing.store.clock
        self._locks = backing.sessions.classic.locks
        self._returns = backing.consume.returns

    async def send_back(self, request: Command, call: ClassicCall) -> Command:
        """Schedules redelivery of a message by delay level, or makes it a dead letter.

        Errors   MalformedRequest, IllegalNumber, those of `ClassicClients.ensure`, SystemTopic,
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
            check=lambda message: _check(group, call, message),
        )
        code = OF_PUT[status]
        return OK if code == SUCCESS else Command(code, remark=status.name)

    def prepared(
        self, request: Command, drafts: Drafts, envelope: Envelope
    ) -> Awaitable[tuple[Drafts, Envelope]] | None:
        """Returns a send to a retry topic in the form to store; None for other sends.

        The message becomes a dead letter if its retries are used up, or if the group consumes in
        order. The client's maximum of retries overrides the group's.

        Errors   of the awaitable: those of `ClassicClients.ensure`, MalformedRequest,
                 IllegalNumber
        """
        return self._prepared(request, drafts, envelope) if is_returned(request) else None

    async def _prepared(
        self, request: Command, drafts: Drafts, envelope: Envelope
    ) -> tuple[Drafts, Envelope]:
        group = text_field(request, "topic").removeprefix(RETRY_PREFIX)
        await self._clients.ensure(group)
        config = await self._returns.prepare(group)
        times = number_field(request, "reconsumeTimes", absent=0)
        retries_max = number_field(
            request, "maxReconsumeTimes", lower=-INT32_MAX, absent=GROUPS_RETRIES
        )
        if retries_max < 0:
            retries_max = (config.settings.max_attempts or 1) - 1
        envelope = envelope._replace(returned_times=times)
        is_in_order = self._locks.has_locked(group, self._clock.monotonic_ms())
        if times <= retries_max and not is_in_order:
            return drafts, envelope
        count = len(drafts.bodies)
        letters = drafts._replace(
            topics=[dead_letter_topic(group)] * count,
            queue_ids=[0] * count,
            deliveries=[AT_ONCE] * count,
        )
        return letters, envelope


def _check(group: str, call: ClassicCall, message: StoredMessage) -> None:
    """Checks that a group's client may read a message.

    Errors   SystemTopic, AccessDenied
    """
    check_client_reads(message.topic, group)
    check_may(call, topic_need(message.topic, SUB))
