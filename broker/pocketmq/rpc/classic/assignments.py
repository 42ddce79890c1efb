"""Assigns queues to consumers that let the broker distribute them, and sets modes of groups.

    400  QUERY_ASSIGNMENT: mode PULL with the client's own queues, or POP with a queue id of -1
    401  SET_MESSAGE_REQUEST_MODE

A group pulls until an operator sets its mode to POP (mqadmin setConsumeMode). Then each client of
the group pops from all queues. A pop also reads the group's retry topics, so the assignment of a
retry topic is empty. Source: QueryAssignmentProcessor, AllocateMessageQueueAveragely.
"""

from typing import Final, NamedTuple

from pocketmq.model.errors import UnsupportedFeature
from pocketmq.model.topic import RETRY_PREFIX
from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.heartbeats import ClassicClients
from pocketmq.rpc.classic.json_body import body_of, json_answer, text_in
from pocketmq.rpc.classic.status import OK
from pocketmq.rpc.service import MalformedRequest
from pocketmq.rpc.services import Services
from pocketmq.rpc.topic_access import check_client_reads, find_readable
from pocketmq.store.tables.request_modes import POP, PULL
from pocketmq.wire.remoting import Command

BROADCASTING: Final = "BROADCASTING"
AVERAGE: Final = "AVG"
BY_CIRCLE: Final = "AVG_BY_CIRCLE"
"""Names of the strategies that the broker computes."""
ALL_QUEUES: Final = -1


class AssignmentQuery(NamedTuple):
    """A client's question about the queues from which it may consume."""

    group: str
    topic: str
    client_id: str
    strategy: str
    is_broadcast: bool


class ClassicAssignments:
    """The requests for assignments and modes."""

    __slots__ = ("_broker", "_clients", "_groups", "_tables")

    def __init__(self, backing: Services, clients: ClassicClients, broker: str) -> None:
        self._tables = backing.store.tables
        self._groups = backing.sessions.classic.groups
        self._clients = clients
        self._broker = broker

    def assigned(self, request: Command, call: ClassicCall) -> Command:
        """Returns the queues from which a client consumes, with the group's mode.

        A client of a broadcasting group gets all queues.

        Errors   MalformedRequest, those of `find_readable`, UnsupportedFeature
        """
        asked = _query_of(request)
        topic = find_readable(self._tables.topics, asked.topic, asked.group, check_client_reads)
        queue_ids = [*range(topic.read_queue_count)]
        mode = PULL
        if asked.is_broadcast:
            pass
        elif self._tables.modes.pops(asked.group):
            mode = POP
            queue_ids = [] if asked.topic.startswith(RETRY_PREFIX) else [ALL_QUEUES]
        else:
            queue_ids = self._share(asked, queue_ids)
        shown = [
            {
                "messageQueue": {
                    "brokerName": self._broker, "queueId": queue_id, "topic": asked.topic,
                },
                "mode": mode,
            }
            for queue_id in queue_ids
        ]  # fmt: skip
        return json_answer({"messageQueueAssignments": shown})

    def _share(self, asked: AssignmentQuery, queue_ids: list[int]) -> list[int]:
        ids = sorted(self._groups.consumer_ids(asked.group))
        if asked.client_id not in ids:
            return []
        return share_of(asked.strategy, ids.index(asked.client_id), len(ids), queue_ids)

    async def set_mode(self, request: Command, call: ClassicCall) -> Command:
        """Sets the mode of a group, for all its topics.

        Errors   MalformedRequest, IllegalTopic, TopicNotFound, those of `ClassicClients.ensure`,
                 DiskFull; GroupInUse: the mode is PULL, and the group has leases or pop clients
        """
        body = body_of(request)
        group, topic, mode = (text_in(body, name) for name in ("consumerGroup", "topic", "mode"))
        if not group or not topic or mode not in (POP, PULL):
            raise MalformedRequest(why="consumerGroup, topic or a mode of POP or PULL is missing")
        self._tables.topics.existing(topic)
        share = body.get("popShareQueueNum", 0)
        if type(share) is not int or not -1 <= share < 1 << 31:
            raise MalformedRequest(why="popShareQueueNum is no number from -1 on")
        await self._clients.ensure(group)
        if mode == PULL:
            self._clients.check_settled(group)
        await self._tables.modes.put(group, topic, mode, share)
        return OK


def share_of(strategy: str, number: int, client_count: int, queue_ids: list[int]) -> list[int]:
    """Returns one client's share of a topic's queues.

    number   index of the client among the sorted client ids
    Errors   UnsupportedFeature: an unknown strategy; the client then computes its share itself
    Source   AllocateMessageQueueAveragely, AllocateMessageQueueAveragelyByCircle
    """
    assert 0 <= number < client_count, "no client of the group"
    if strategy == BY_CIRCLE:
        return queue_ids[number::client_count]
    if strategy != AVERAGE:
        raise UnsupportedFeature(feature=f"strategy {strategy} of broker-side assignments")
    size, more = divmod(len(queue_ids), client_count)
    begin = number * size + min(number, more)
    return queue_ids[begin : begin + size + (number < more)]


def _query_of(request: Command) -> AssignmentQuery:
    body = body_of(request)
    found = AssignmentQuery(
        text_in(body, "consumerGroup"), text_in(body, "topic"), text_in(body, "clientId"),
        text_in(body, "strategyName"), text_in(body, "messageModel") == BROADCASTING,
    )  # fmt: skip
    if not found.group or not found.topic or not found.client_id:
        raise MalformedRequest(why="consumerGroup, topic or clientId is missing")
    return found
