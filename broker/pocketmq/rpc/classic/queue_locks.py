"""Queue locks of orderly classic consumers, and checks of their subscriptions.

    41  LOCK_BATCH_MQ      42  UNLOCK_BATCH_MQ      46  CHECK_CLIENT_CONFIG

Source: AdminBrokerProcessor, ClientManageProcessor.
"""

from pocketmq.filter.parsing import parse_filter
from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.heartbeat_body import SQL, locks_of
from pocketmq.rpc.classic.json_body import body_of, json_answer, text_in
from pocketmq.rpc.classic.status import OK
from pocketmq.rpc.services import Services
from pocketmq.wire.remoting import Command


class ClassicLocks:
    """The requests that lock queues, and the one that checks a subscription."""

    __slots__ = ("_clock", "_locks")

    def __init__(self, backing: Services) -> None:
        self._clock = backing.store.clock
        self._locks = backing.sessions.classic.locks

    def lock(self, request: Command, call: ClassicCall) -> Command:
        """Locks queues for a client; returns the requested queues that the client now holds.

        Errors   MalformedRequest, CapacityReached
        """
        wanted = locks_of(request)
        queues = self._locks.lock(
            wanted.group, wanted.client_id, wanted.queues, self._clock.monotonic_ms()
        )
        held = {*queues}
        shown = [
            {"brokerName": broker, "queueId": queue[1], "topic": queue[0]}
            for queue, broker in zip(wanted.queues, wanted.brokers, strict=True)
            if queue in held
        ]
        return json_answer({"lockOKMQSet": shown})

    def unlock(self, request: Command, call: ClassicCall) -> Command:
        """Unlocks queues of a client.

        Errors   MalformedRequest
        """
        wanted = locks_of(request)
        self._locks.unlock(wanted.group, wanted.client_id, wanted.queues)
        return OK

    def check_config(self, request: Command, call: ClassicCall) -> Command:
        """Checks the filter of a subscription.

        Errors   MalformedRequest, IllegalFilter
        """
        found = body_of(request).get("subscriptionData")
        if type(found) is dict:
            is_sql = text_in(found, "expressionType") == SQL
            parse_filter(text_in(found, "subString"), is_sql=is_sql)
        return OK
