"""QueryRoute and QueryAssignment: clients see every topic on this broker, with one queue.

The broker itself chooses the queue of each send and receive; with several visible queues, clients
might wait at an empty one. The route contains the address that the client dialled, as the broker
cannot know which of its addresses a client can reach.
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

FindTopic = Callable[[str], TopicConfig]
"""Returns a topic, or the settings with which a missing topic would be created on demand; raises
TopicNotFound if topics are not created on demand."""
MakeTopic = Callable[[str], Awaitable[TopicConfig]]
"""Returns a topic; creates a missing one if topics are created on demand, else raises
TopicNotFound."""
EnsureGroup = Callable[[str], Awaitable[None]]
"""Creates a missing group if groups are created on demand, else raises GroupNotFound."""

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
"""Topic type -> message types that the route reports as accepted.

The route of a topic of unknown type reports NORMAL, although the broker accepts no message for it.
Older clients fail at a message type that they do not know, so only topics of type PRIORITY or LITE
report these types. The broker accepts no LITE message; the route of a topic of type LITE makes
producers refuse messages of all other types.
"""
ANY_QUEUE: Final = -1
PYTHON_PAUSE_S: Final = 0.05
"""Delay of a route for a Python client without a telemetry stream. The client cannot open its
stream if the answer arrives before the client has set its callback."""
Pause = Callable[[float], Awaitable[None]]
"""Waits for a number of seconds."""


class Routes:
    """The methods QueryRoute and QueryAssignment.

    name        name of the broker
    advertised  "address:port" for clients that do not send the address they dialled
    """

    __slots__ = (
        "_advertised", "_ensure_group", "_find_topic", "_make_topic", "_name", "_pause",
        "_sessions",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        advertised: str,
        find_topic: FindTopic,
        make_topic: MakeTopic,
        ensure_group: EnsureGroup,
        sessions: Sessions,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._name = name
        self._advertised = endpoints_of(advertised)
        self._find_topic = find_topic
        self._make_topic = make_topic
        self._ensure_group = ensure_group
        self._sessions = sessions
        self._pause = pause

    async def query_route(self, request: pb.QueryRouteRequest, call: Call) -> pb.QueryRouteResponse:
        """Returns the route of a topic, also of a missing topic that a send would create.

        Errors   ClientIdRequired, IllegalTopic, SystemTopic, TopicNotFound, UnsupportedTopic
        """
        caller = caller_of(call)
        config = self._find_topic(topic_of(request.topic, call))
        config.check_supported()
        queue = self._queue(request.topic, config, request.endpoints, 0)
        queue.accept_message_types.extend(ACCEPTED.get(config.type_name, ACCEPTED["NORMAL"]))
        if caller.language == PYTHON and not self._sessions.has_stream(caller.session_id):
            await self._pause(PYTHON_PAUSE_S)
        return pb.QueryRouteResponse(status=OK, message_queues=[queue])

    async def query_assignment(
        self, request: pb.QueryAssignmentRequest, call: Call
    ) -> pb.QueryAssignmentResponse:
        """Returns the one queue from which all push consumers of a group receive.

        Errors   as for `query_route`, and TopicNotReadable, IllegalGroup, GroupNotFound,
                 LimitReached, DiskFull
        """
        client_id_of(call)
        name, group = topic_of(request.topic, call), group_of(request.group, call)
        config = await self._make_topic(name)
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
        # Some clients fail at empty endpoints.
        endpoints = dialled if _are_usable(dialled) else self._advertised
        return pb.MessageQueue(
            topic=topic,
            id=queue_id,
            permission=PERMISSIONS[permission],
            broker=pb.Broker(name=self._name, id=0, endpoints=endpoints),
        )


def endpoints_of(address: str) -> pb.Endpoints:
    """Converts "host:port" to the protocol's Endpoints."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        scheme = pb.IPv4 if ip_address(host).version == 4 else pb.IPv6
    except ValueError:
        scheme = pb.DOMAIN_NAME
    return pb.Endpoints(scheme=scheme, addresses=[pb.Address(host=host, port=int(port))])


def _are_usable(endpoints: pb.Endpoints) -> bool:
    return bool(endpoints.scheme) and any(one.host for one in endpoints.addresses)
