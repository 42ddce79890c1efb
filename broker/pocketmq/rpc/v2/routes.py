"""QueryRoute and QueryAssignment: clients see every topic on this broker, in one queue.

The broker chooses the queue of a message and of a receive; with more queues, clients might wait at
an empty one. The address is the one that the client dialled, as only the client knows its route.
Source: RouteActivity; LocalTopicRouteService.
"""

import asyncio
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import Final

from pocketmq.model.topic import PERMISSION_READ, PERMISSION_WRITE, TopicConfig
from pocketmq.rpc.call import Call
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v2.caller import PYTHON, caller_of, client_id_of
from pocketmq.rpc.v2.resources import group_of, topic_of
from pocketmq.rpc.v2.status import OK
from pocketmq.services.sessions.sessions import Sessions

FindTopic = Callable[[str], Awaitable[TopicConfig]]
"""Returns a topic, a new one where topics are made as they are asked for; TopicNotFound else."""
EnsureGroup = Callable[[str], Awaitable[None]]
"""Returns when a group is there; GroupNotFound where groups are not made by asking."""

PERMISSIONS: Final = {
    0: pb.NONE,
    PERMISSION_READ: pb.READ,
    PERMISSION_WRITE: pb.WRITE,
    PERMISSION_READ | PERMISSION_WRITE: pb.READ_WRITE,
}
ACCEPTED: Final = {
    "NORMAL": [pb.NORMAL],
    "FIFO": [pb.FIFO],
    "DELAY": [pb.DELAY],
    "TRANSACTION": [pb.TRANSACTION],
    "PRIORITY": [pb.PRIORITY],
    "LITE": [pb.LITE],
    "MIXED": [pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION],
}
"""Message types of a topic, by its type; of a type from elsewhere only NORMAL is known.

Older clients end at a type they do not know, so only a topic of its own reports PRIORITY, or LITE:
none is taken for one here, which its producers learn from their clients.
"""
ANY_QUEUE: Final = -1
PYTHON_PAUSE_S: Final = 0.05
"""Delay of the first route to a client for Python. An answer that comes before the client has set
its callback is handled in a thread without an event loop, where the client cannot open its stream:
its caller gets the error that there is no route."""
Pause = Callable[[float], Awaitable[None]]
"""Returns after so many seconds."""


class Routes:
    """The methods.

    name        of the broker
    advertised  "address:port" for clients that do not state the address they dialled
    """

    __slots__ = ("_advertised", "_ensure_group", "_find_topic", "_name", "_pause", "_sessions")

    def __init__(
        self,
        name: str,
        advertised: str,
        find_topic: FindTopic,
        ensure_group: EnsureGroup,
        sessions: Sessions,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._name = name
        self._advertised = endpoints_of(advertised)
        self._find_topic = find_topic
        self._ensure_group = ensure_group
        self._sessions = sessions
        self._pause = pause

    async def query_route(self, request: pb.QueryRouteRequest, call: Call) -> pb.QueryRouteResponse:
        """Returns where a topic's messages go to and come from.

        Errors   ClientIdRequired, IllegalTopic, SystemTopic, TopicNotFound, UnsupportedTopic
        """
        caller = caller_of(call)
        config = await self._find_topic(topic_of(request.topic, call))
        config.check_supported()
        queue = self._queue(request.topic, config, request.endpoints, 0)
        queue.accept_message_types.extend(ACCEPTED.get(config.type_name, ACCEPTED["NORMAL"]))
        if caller.language == PYTHON and not self._sessions.has_stream(caller.session_id):
            await self._pause(PYTHON_PAUSE_S)
        return pb.QueryRouteResponse(status=OK, message_queues=[queue])

    async def query_assignment(
        self, request: pb.QueryAssignmentRequest, call: Call
    ) -> pb.QueryAssignmentResponse:
        """Returns the queues that a push consumer receives from: the same for all of its group.

        Errors   as for `query_route`, and TopicNotReadable, IllegalGroup, GroupNotFound
        """
        client_id_of(call)
        name, group = topic_of(request.topic, call), group_of(request.group, call)
        config = await self._find_topic(name)
        config.check_readable()
        await self._ensure_group(group)
        queue_id = 0 if config.is_fifo else ANY_QUEUE
        queue = self._queue(request.topic, config, request.endpoints, queue_id)
        return pb.QueryAssignmentResponse(
            status=OK, assignments=[pb.Assignment(message_queue=queue)]
        )

    def _queue(
        self, topic: pb.Resource, config: TopicConfig, dialled: pb.Endpoints, queue_id: int
    ) -> pb.MessageQueue:
        permission = config.permission & (PERMISSION_READ | PERMISSION_WRITE)
        endpoints = dialled if _are_usable(dialled) else self._advertised
        return pb.MessageQueue(
            topic=topic,
            id=queue_id,
            permission=PERMISSIONS[permission],
            broker=pb.Broker(name=self._name, id=0, endpoints=endpoints),
        )


def endpoints_of(address: str) -> pb.Endpoints:
    """Returns "host:port" as the protocol has it."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        scheme = pb.IPv4 if ip_address(host).version == 4 else pb.IPv6
    except ValueError:
        scheme = pb.DOMAIN_NAME
    return pb.Endpoints(scheme=scheme, addresses=[pb.Address(host=host, port=int(port))])


def _are_usable(endpoints: pb.Endpoints) -> bool:
    """Returns whether a client that gets these can dial them: some end when they get none."""
    return bool(endpoints.scheme) and any(one.host for one in endpoints.addresses)
